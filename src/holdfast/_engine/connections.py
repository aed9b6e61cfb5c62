"""What an App has open: one store and one transport for the process, and a client for each event loop."""

import asyncio
import os
import threading
from collections.abc import Callable

from holdfast._engine.client import Client
from holdfast._engine.events import Events
from holdfast._ports.clock import SystemChance, SystemClock
from holdfast._ports.store import Store
from holdfast._ports.transport import Transport
from holdfast.settings import Settings


class Connections:
    """Opened when first used; a forked child forgets its parent's and opens its own."""

    def __init__(
        self,
        settings: Settings,
        events: Events,
        open_store: Callable[[Settings], Store],
        open_transport: Callable[[Settings], Transport],
    ) -> None:
        self.clock, self.chance = SystemClock(), SystemChance()
        self._settings, self._events = settings, events
        self._open_store, self._open_transport = open_store, open_transport
        self._process, self._lock = os.getpid(), threading.Lock()
        self._opened: tuple[Store, Transport] | None = None
        self._clients: dict[asyncio.AbstractEventLoop, Client] = {}
        self._of_parent: object = None

    @property
    def store(self) -> Store:
        """The store."""
        return self._open()[0]

    @property
    def transport(self) -> Transport:
        """The transport."""
        return self._open()[1]

    def client(self) -> Client:
        """The running loop's client; callers of one loop share commits."""
        store, transport = self._open()
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._clients:
                for closed in [each for each in self._clients if each.is_closed()]:
                    del self._clients[closed]
                self._clients[loop] = Client(store, transport, self.clock, self.chance, self._events)
            return self._clients[loop]

    async def close(self) -> None:
        """Let go of files and sockets; the next use opens them again."""
        self._forget_parent()
        if self._opened is not None:
            store, transport = self._opened
            await transport.close()
            await store.close()

    def _open(self) -> tuple[Store, Transport]:
        self._forget_parent()
        with self._lock:
            if self._opened is None:
                self._opened = self._open_store(self._settings), self._open_transport(self._settings)
            return self._opened

    def _forget_parent(self) -> None:
        if self._process != os.getpid():
            # Kept, unused: closing what came through a fork could close it for the parent.
            self._of_parent = (self._opened, self._clients)
            self._process, self._lock = os.getpid(), threading.Lock()
            self._opened, self._clients = None, {}

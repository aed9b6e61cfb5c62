"""What an App has open: one store and one transport per process, and a client per event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast._forks import Forked, Lock, register
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast._engine.client.client import Client
    from holdfast._engine.events import Events
    from holdfast._ports.clock import Clock, Randomness
    from holdfast._ports.store import Store
    from holdfast._ports.transport import Transport
    from holdfast.settings import Settings


class Connections(Forked):
    """Store and transport, opened when first used; a forked child forgets its parent's and opens its own."""

    def __init__(
        self,
        settings: Settings,
        events: Events,
        *,
        clock: Clock,
        chance: Randomness,
        open_store: Callable[[Settings], Store],
        open_transport: Callable[[Settings], Transport],
        after_commit: Callable[[object, Callable[[], None]], None],
    ) -> None:
        self.clock, self.chance, self.after_commit = clock, chance, after_commit
        self.around_enqueue: list[Any] = []
        """The App's code around each enqueue, as ``_engine.tasks.around`` has it."""
        self._settings, self._events = settings, events
        self._open_store, self._open_transport = open_store, open_transport
        self._lock = threading.Lock()
        self._opened: tuple[Store, Transport] | None = None
        self._clients: dict[asyncio.AbstractEventLoop, Client] = {}
        self._inherited: list[object] = []
        register(self)

    @property
    def store(self) -> Store:
        return self._open()[0]

    @property
    def transport(self) -> Transport:
        return self._open()[1]

    def client(self) -> Client:
        """Return the running loop's client; callers of one loop share commits."""
        loop = asyncio.get_running_loop()
        known = self._clients.get(loop)
        if known is not None:  # each enqueue asks twice, and a lock costs more than all the rest of it
            return known
        from holdfast._engine.client.client import Client
        from holdfast._engine.environment import Environment

        store, transport = self._open()
        with self._lock:
            if loop not in self._clients:
                for closed in [each for each in self._clients if each.is_closed()]:
                    del self._clients[closed]
                environment = Environment(store, transport, self.clock, self.chance, self._events)
                self._clients[loop] = Client(environment)
            return self._clients[loop]

    def move(self, settings: Settings) -> None:
        """Use the store and transport of these settings from now on. Raises ``ConfigurationError`` once the store is open."""
        with self._lock:
            if self._opened is not None:
                raise ConfigurationError(["the App's store was opened when its module was imported: open it in a function"])
            self._settings = settings

    @contextmanager
    def replaced(self, settings: Settings, open_store: Callable[[Settings], Store], clock: Clock) -> Iterator[None]:
        """Use another store and another clock within the block, also while the usual ones are open: for tests."""
        with self._lock:
            kept = self._settings, self._open_store, self.clock, self._opened, self._clients
            self._settings, self._open_store, self.clock, self._opened, self._clients = settings, open_store, clock, None, {}
        try:
            yield
        finally:
            with self._lock:
                self._settings, self._open_store, self.clock, self._opened, self._clients = kept

    async def close(self) -> None:
        """Close files and sockets; the next use opens them again."""
        if self._opened is not None:
            store, transport = self._opened
            await transport.close()
            await store.close()

    async def abandon(self) -> None:
        """Close what is open, and forget it: ``move`` may follow."""
        await self.close()
        with self._lock:
            self._opened, self._clients = None, {}

    def _open(self) -> tuple[Store, Transport]:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_store(self._settings), self._open_transport(self._settings)
            return self._opened

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Keep the parent's store and clients unused: closing them could close the parent's connections."""
        self._inherited += [self._opened, self._clients]
        self._lock, self._opened, self._clients = threading.Lock(), None, {}

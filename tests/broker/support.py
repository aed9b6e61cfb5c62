"""A broker on a free port of this machine, in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast._ports.transport import Transport
from holdfast.broker.broker import Broker
from holdfast.broker.port import Port
from holdfast.broker.serving import Listening, Server
from holdfast.http.identity import Authenticate, local
from holdfast.settings import Settings
from holdfast.testing.clock import FakeChance
from holdfast.transports.inprocess import InProcessTransport


class RunningBroker:
    """A broker that serves a store until it is stopped; ``url`` is its address."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        authenticate: Authenticate = local,
        maintains: bool = False,
        settings: Settings | None = None,
        port: int = 0,
        transport: Transport | None = None,
    ) -> None:
        self.store = store
        environment = Environment(store, transport or InProcessTransport([]), clock, FakeChance(), Events())
        settings = settings or Settings.of("memory://")
        self._broker = broker = Broker(environment, settings, authenticate=authenticate, maintains=maintains)
        self._listens = threading.Event()
        self._server = Server(broker, Listening(port=port), self._set_url)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._listens.wait(10)

    def replace(self, store: Store) -> None:
        """Serve another store from now on: starting a server takes longer than most tests of a store."""
        self.store, self._broker._port = store, Port(store)

    def close_store(self) -> None:
        """Close the connections of the store that is served, in the event loop that they belong to."""
        asyncio.run_coroutine_threadsafe(self.store.close(), self._loop).result(20)

    def stop(self) -> None:
        """Stop the server, and wait for its end."""
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        """Whether it has not been stopped."""
        return self._thread.is_alive()

    def _set_url(self, url: str) -> None:
        self.url = url
        self._listens.set()

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.run_until_stopped()
            await self.store.close()

        asyncio.run(serve())


@contextmanager
def running(store: Store, clock: Clock, **options: object) -> Iterator[RunningBroker]:
    """Run a broker for the length of a block."""
    broker = RunningBroker(store, clock, **options)  # type: ignore[arg-type]
    try:
        yield broker
    finally:
        broker.stop()

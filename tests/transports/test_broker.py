"""Hints through a broker keep the contract of transports, and pass between HTTP and the store's own transport."""

from collections.abc import Iterator

import pytest

from holdfast._ports.transport import Hint, Transport
from holdfast._ports.wire_hints import HintsAnswer
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.broker.hints import KEPT, Hub
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.transports.broker import BrokerTransport
from holdfast.transports.inprocess import InProcessTransport, Listener
from holdfast.transports.polling import PollingTransport
from tests.broker.support import running
from tests.transports.contract import TransportContract, ended


class TestBroker(TransportContract):
    @pytest.fixture(autouse=True)
    def at_broker(self) -> Iterator[None]:
        clock = FakeClock()
        self.listeners: list[Listener] = []
        with running(MemoryStore(clock), clock, transport=InProcessTransport(self.listeners)) as broker:
            self.url = broker.url
            yield

    def make_transport(self) -> Transport:
        return BrokerTransport([self.url], token=None, clock=SystemClock(), chance=SystemRandomness())

    @ended
    async def test_a_hint_of_the_stores_own_transport_reaches_workers_over_http(self) -> None:
        inside = InProcessTransport(self.listeners)
        self._opened.append(inside)
        await self.expect(await self.listener(), Hint("mail"), inside)

    @ended
    async def test_a_hint_over_http_reaches_workers_of_the_stores_own_transport(self) -> None:
        over_http, inside = self.open(), InProcessTransport(self.listeners)
        self._opened.append(inside)
        listener = await self.listener()
        await self.expect(listener, Hint("mail"), over_http)

    @ended
    async def test_a_broker_that_is_away_raises_nothing(self) -> None:
        away = BrokerTransport(["http://127.0.0.1:9"], token=None, clock=SystemClock(), chance=SystemRandomness())
        self._opened.append(away)
        await away.subscribe(lambda hint: None)
        await away.publish([Hint("mail")])


async def test_hints_are_read_from_a_position_and_an_unknown_one_gets_a_hint_for_everything() -> None:
    hub = Hub(PollingTransport(), FakeChance().uuid4())
    start = (await hub.read("")).position
    await hub.publish([Hint("a"), Hint("b")])
    found = await hub.read(start)
    assert found.hints == (Hint("a"), Hint("b"))
    for position in ("", "elsewhere.1", start.rpartition(".")[0] + ".99", "x" * 1000):
        assert await hub.read(position) == HintsAnswer(found.position, (Hint(),))
    await hub.publish([Hint(str(number)) for number in range(KEPT + 1)])
    assert (await hub.read(found.position)).hints == (Hint(),)
    hub.close()
    newest = (await hub.read("")).position
    assert await hub.read(newest) == HintsAnswer(newest, ())

"""Hints through the broker that leads a bucket keep the contract of transports, also after another broker leads."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from holdfast._ports.bucket import BucketProblem, BucketUnavailable
from holdfast._ports.transport import Hint, Transport
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import StoreUnavailable
from holdfast.opening import open_transport
from holdfast.settings import Settings
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.leader_look import LeaderLook
from holdfast.stores.objects.store import ObjectStore
from holdfast.testing.clock import FakeChance
from holdfast.transports import leader
from holdfast.transports.broker import BrokerTransport
from holdfast.transports.inprocess import InProcessTransport, Listener
from holdfast.transports.polling import PollingTransport
from tests.broker.support import RunningBroker
from tests.e2e.waiting import STALL, eventually
from tests.transports.contract import TransportContract, ended

CLOCK = SystemClock()
NUMBERS = count()


class TestLeader(TransportContract):
    @pytest.fixture(autouse=True)
    def at_brokers(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(leader, "LOOK", 0.02)
        self.bucket = f"memory-object://hints-{next(NUMBERS)}"
        asyncio.run(create(open_bucket(self.bucket, CLOCK), FakeChance(7).uuid4()))
        self.brokers = [self.broker()]
        yield
        for each in self.brokers:
            if each.is_running:
                each.stop()

    def broker(self) -> RunningBroker:
        return RunningBroker(
            ObjectStore(self.bucket, clock=CLOCK, chance=SystemRandomness()), CLOCK, transport=self.make_transport()
        )

    def make_transport(self) -> Transport:
        return open_transport(Settings.of(self.bucket))

    @ended
    async def test_hints_go_on_through_the_next_leader(self) -> None:
        listener = await self.listener()
        await self.expect(listener, Hint("before"), self.open())
        self.brokers.append(await asyncio.to_thread(self.broker))
        await asyncio.to_thread(self.brokers[0].stop)
        await self.expect(listener, Hint("after"), self.open())

    @ended
    async def test_a_broker_passes_hints_on_to_a_transport_that_the_settings_name(self) -> None:
        await asyncio.to_thread(self.brokers[0].stop)
        listeners = list[Listener]()
        store = ObjectStore(self.bucket, clock=CLOCK, chance=SystemRandomness())
        settings = Settings.of(self.bucket, transport="poll")
        self.brokers.append(
            await asyncio.to_thread(
                lambda: RunningBroker(store, CLOCK, transport=InProcessTransport(listeners), settings=settings)
            )
        )
        received, inside = asyncio.Event(), InProcessTransport(listeners)
        self._opened.append(inside)
        await inside.subscribe(lambda hint: received.set())
        over_http = BrokerTransport([self.brokers[1].url], token=None, clock=CLOCK, chance=SystemRandomness())
        self._opened.append(over_http)
        await over_http.publish([Hint("mail")])
        await received.wait()

    @ended
    async def test_without_a_leader_hints_are_dropped(self) -> None:
        await asyncio.to_thread(self.brokers[0].stop)
        transport = self.open()
        await transport.subscribe(lambda hint: None)
        await transport.publish([Hint("mail")])


async def test_a_look_without_an_answer_is_followed_by_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, connected = list[FailingLook](), list[str]()

    def look() -> FailingLook:
        looks.append(FailingLook(fails=not looks))
        return looks[-1]

    def connect(url: str) -> PollingTransport:
        connected.append(url)
        return PollingTransport()

    transport = leader.LeaderTransport("bucket", look, connect, clock=CLOCK, chance=SystemRandomness())
    await transport.subscribe(lambda hint: None)
    await eventually(lambda: bool(connected), within=STALL)
    await transport.close()
    assert [each.is_closed for each in looks] == [True, True]


class FailingLook:
    """A look that cannot be used again once it is closed."""

    def __init__(self, *, fails: bool) -> None:
        self.is_closed, self._fails = False, fails

    async def leader(self) -> str | None:
        if self._fails or self.is_closed:
            raise StoreUnavailable("no answer")
        return "http://127.0.0.1:9"

    async def close(self) -> None:
        self.is_closed = True


async def test_a_head_that_cannot_be_read_is_an_outage() -> None:
    bucket = open_bucket(f"memory-object://hints-{next(NUMBERS)}", CLOCK)
    look = LeaderLook(bucket)
    assert await look.leader() is None
    await bucket.put("head.json", b"rubbish")
    with pytest.raises(BucketUnavailable) as raised:
        await look.leader()
    assert raised.value.problem is BucketProblem.SERVER

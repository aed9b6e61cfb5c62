"""A process on a bucket calls the broker that leads; what it sends again, where, and when it deposes a silent one."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import State
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._ports.leading import Refused
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.election import LEADER_TTL
from holdfast.stores.objects.routed_store import RoutedStore
from holdfast.testing.clock import FakeChance
from tests.stores.objects_world import Scripted, at_once, enqueue, names, new
from tests.stores.test_objects_leader import Brokers

CLAIM = ClaimRequest(lease=names.uuid4(), claim=names.uuid4(), tasks={"task": Policy()}, limit=1)


class Broker:
    """What a client has of a broker: each call fails with the next of the errors, and succeeds after them."""

    def __init__(self) -> None:
        self.errors, self.calls = list[Exception](), Counter[str]()

    def __getattr__(self, verb: str) -> Any:
        async def call(*_: object, **__: object) -> Any:
            self.calls[verb] += 1
            if self.errors:
                raise self.errors.pop(0)
            return ExchangeAnswer(()) if verb == "exchange" else "answered"

        return call

    async def close(self) -> None:
        """Stay open: another client may call it."""

    def take_flow_changes(self) -> tuple[()]:
        """Return that nothing has happened to workflows."""
        return ()


class Routes(Brokers):
    """A bucket with a leader, and clients whose calls to brokers are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.behind = dict[str, Broker]()

    def connect(self, url: str) -> Store:
        return cast(Store, self.behind.setdefault(url, Broker()))

    def client(self, options: str = "") -> RoutedStore:
        bucket = Scripted(self.name, self.clock)
        chance = FakeChance(names.uuid4().int)
        store = RoutedStore(self.name + options, connect=self.connect, clock=self.clock, chance=chance, bucket=bucket)
        self.opened.append(store)
        return store


@pytest.fixture
def routes() -> Iterator[Routes]:
    world = Routes()
    yield world
    for store in world.opened:
        asyncio.run(store.close())


async def test_calls_go_to_the_broker_that_the_head_names(routes: Routes) -> None:
    client = routes.client()
    await enqueue(client, new())
    (first, _), (second, _) = await routes.start("http://a:1"), await routes.start("http://b:1")
    assert await client.counts() == "answered"
    await first.resign()
    await routes.attend(second)
    behind = routes.behind["http://a:1"]
    behind.errors += [Refused("it follows")]
    assert await client.counts() == "answered"
    assert [routes.behind[url].calls.total() for url in ("http://a:1", "http://b:1")] == [2, 1]
    await second.resign()
    routes.behind["http://b:1"].errors += [Refused("it is stopping")]
    assert await client.counts() == {("", State.AVAILABLE): 1}


async def test_a_process_that_requires_a_broker_writes_nothing_itself(routes: Routes) -> None:
    client = routes.client("?broker=require")
    with pytest.raises(StoreUnavailable, match="`holdfast broker`"):
        await enqueue(client, new())
    await routes.start("http://a:1")
    assert await client.counts() == "answered"


async def test_what_may_have_arrived_is_sent_again_only_if_a_second_copy_changes_nothing(routes: Routes) -> None:
    await routes.start("http://a:1")
    client, behind = routes.client(), Broker()
    routes.behind["http://a:1"] = behind
    behind.errors += [StoreUnavailable("cut")]
    await client.exchange(())
    behind.errors += [StoreUnavailable("cut")]
    with pytest.raises(StoreUnavailable):
        await client.exchange((), CLAIM)
    assert behind.calls == {"exchange": 3}
    behind.errors += [Refused("it follows")]
    assert await client.exchange((), CLAIM) == ExchangeAnswer(())


async def test_calls_that_fail_at_once_share_one_look(routes: Routes) -> None:
    await routes.start("http://a:1")
    client, behind = routes.client(), Broker()
    routes.behind["http://a:1"] = behind
    await client.counts()
    bucket = client._bucket
    assert isinstance(bucket, Scripted)
    bucket.calls.clear()
    bucket.reads.append("slow")
    bucket.until_answered = partial(SystemClock().sleep, 0.05)
    behind.errors += [Refused("it is stopping")] * 50
    await at_once(client, *(client.counts() for _ in range(50)))
    assert behind.calls["counts"] == 101
    assert bucket.calls["GET head.json"] <= 2


async def test_a_silent_broker_is_waited_for_and_then_deposed(routes: Routes) -> None:
    _, bucket = await routes.start("http://a:1")
    client, required = routes.client(), routes.client("?broker=require")
    routes.behind["http://a:1"] = behind = Broker()
    behind.errors += [StoreUnavailable("no answer")] * 1000
    with pytest.raises(StoreUnavailable, match="no answer"):
        await required.counts()
    with pytest.raises(StoreUnavailable, match="no answer"):
        await client.counts()
    assert (await bucket.head()).epoch == 1
    routes.clock.advance(LEADER_TTL)
    with pytest.raises(StoreUnavailable):
        await required.counts()
    assert await client.counts() == {}
    assert ((await bucket.head()).epoch, (await bucket.head()).broker) == (2, None)


async def test_a_broker_that_makes_commits_is_never_deposed(routes: Routes) -> None:
    leader, bucket = await routes.start("http://a:1")
    client, behind = routes.client(), Broker()
    routes.behind["http://a:1"] = behind
    for _ in range(5):
        behind.errors += [StoreUnavailable("no answer")] * 3
        assert await client.counts() == "answered"
        await routes.attend(leader, LEADER_TTL - 4)
    assert (await bucket.head()).epoch == 1

"""The store in a bucket keeps the contract: directly on a bucket in memory."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from holdfast._core.book.book import Book
from holdfast._ports.bucket import BucketUnavailable
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket
from holdfast.stores.objects.bodies import INLINE
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.election import HEARTBEAT
from holdfast.stores.objects.routed_store import RoutedStore
from holdfast.stores.objects.store import ObjectStore
from holdfast.stores.objects.tidying import Sizes
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.claiming import ClaimContract
from holdfast.testing.contracts.enqueuing import EnqueueContract
from holdfast.testing.contracts.fencing import FenceContract
from holdfast.testing.contracts.limiting import LimitContract
from holdfast.testing.contracts.owning import LeaseContract
from holdfast.testing.contracts.racing import RaceContract
from holdfast.testing.contracts.scene import Part
from holdfast.testing.contracts.settling import SettleContract
from holdfast.testing.servers import BucketFault, BucketServer
from proof.stores.faulty_bucket import FaultyBucket

_NUMBERS = count()
_WATCHED = 1800.0
"""The seconds of a longer time that pass step by step."""


class SleepingClock:
    """The clock of a test for the store's own pauses, which do not wait until the test moves it."""

    def __init__(self, clock: FakeClock) -> None:
        self.monotonic, self.boottime, self.wall = clock.monotonic, clock.boottime, clock.wall

    async def sleep(self, seconds: float) -> None:
        await SystemClock().sleep(min(seconds, 0.001))


class Handles(Part):
    """Handles with a separate book, committer and thread each."""

    @pytest.fixture(autouse=True)
    def url(self) -> None:
        self.name = f"memory-object://contract-{next(_NUMBERS)}"
        self.handles: list[ObjectStore] = []
        bucket = open_bucket(self.name, FakeClock())
        asyncio.run(create(bucket, UUID(int=1)))

    def make_store(self, clock: FakeClock) -> Store:
        store = ObjectStore(self.name, clock=SleepingClock(clock), chance=FakeChance(next(_NUMBERS)))
        self.handles.append(store)
        return store

    def advance(self, clock: FakeClock, seconds: float) -> None:
        """Let each handle see all marks first: it counts from then on."""
        with ThreadPoolExecutor(1) as thread:
            for store in self.handles:
                thread.submit(asyncio.run, look(store)).result()
        clock.advance(seconds)


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    with BucketServer() as server:
        yield server


async def insist_on_creating(name: str) -> None:
    """Create the store, although faults of the test before may be left."""
    bucket, answer = open_bucket(name, FakeClock()), None
    while answer is None:
        with suppress(BucketUnavailable):
            answer = await create(bucket, UUID(int=1))
    await bucket.close()


async def look(store: ObjectStore) -> None:
    """Let a handle see all stamps, those of jobs that were claimed ahead, too: a judge asks for them only once they have started."""
    await store.workers()
    await store.expired(1)
    await store.overdue(1)
    await store._thread.run(see_jobs(store))


async def see_jobs(store: ObjectStore) -> None:
    committer = store._committer
    for name, job, marks in [*committer._replica.book.contents()]:
        if name == "marks":
            committer._sightings.elapsed(job, marks.started)
            committer._sightings.elapsed(job, marks.moved)


@pytest.mark.prove
class TestObjects(Handles, StoreContract):
    """On a bucket in memory that does what it is asked."""


@pytest.mark.prove
class TestObjectsApart(Handles, StoreContract):
    """With all payloads, results, checkpoints and values apart from their rows."""

    def make_store(self, clock: FakeClock) -> Store:
        store = ObjectStore(self.name, clock=SleepingClock(clock), chance=FakeChance(next(_NUMBERS)), inline=-1)
        self.handles.append(store)
        return store


class Faulty(Handles):
    """Handles while a fifth of all writes and a twentieth of all reads go wrong, and runs are flushed and merged all the time. Every
    second handle puts all bodies apart."""

    def make_store(self, clock: FakeClock) -> Store:
        number = next(
            _NUMBERS
        )  # in any thread another one: two handles with the same nonces would take each other's writes for theirs
        bucket = FaultyBucket(open_bucket(self.name, clock), Random(number), writes=0.2, reads=0.05)
        inline = -1 if number % 2 else INLINE
        store = ObjectStore(
            self.name,
            clock=SleepingClock(clock),
            chance=FakeChance(number),
            bucket=bucket,
            sizes=Sizes(2000, archive=2),
            inline=inline,
        )
        self.handles.append(store)
        return store


class TestObjectsWithFaults(Faulty, EnqueueContract, ClaimContract, SettleContract, FenceContract, LeaseContract, RaceContract):
    """Ownership while requests fail."""


@pytest.mark.prove
class TestObjectsWithFaultsWhole(Faulty, StoreContract):
    """The whole contract while requests fail."""


class EagerBook(Book):
    """A book whose finished jobs are archived at once."""

    floors = 0


class EagerStore(ObjectStore):
    """A store that has archived all that it can before a call returns."""

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        try:
            return await super()._ask(verb, arguments, keywords)
        finally:
            await self._thread.run(self._rest())

    async def _rest(self) -> None:
        while self._committer._serving is not None or self._committer._tidying._task is not None:
            await self._committer.finish()


@pytest.mark.prove
class TestObjectsArchived(Handles, StoreContract):
    """The same with each finished job in an archive as soon as it has ended."""

    def make_store(self, clock: FakeClock) -> Store:
        connection: dict[str, Any] = {"clock": SleepingClock(clock), "chance": FakeChance(next(_NUMBERS))}
        bucket = open_bucket(self.name, clock)
        store = EagerStore(self.name, **connection, bucket=bucket, sizes=Sizes(2000, archive=1), new_book=EagerBook)
        self.handles.append(store)
        return store


class Behind:
    """The leader as the others see it."""

    def __init__(self, leader: ObjectStore) -> None:
        self._leader = leader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._leader, name)

    async def close(self) -> None:
        """Leave the leader open."""


class Led(Handles):
    """One handle leads and answers from memory; the others call it."""

    def make_store(self, clock: FakeClock) -> Store:
        chance = FakeChance(next(_NUMBERS))
        if self.handles:
            behind = cast(Store, Behind(self.handles[0]))
            return RoutedStore(self.name, connect=lambda _: behind, clock=SleepingClock(clock), chance=chance)
        leader = ObjectStore(self.name, clock=SleepingClock(clock), chance=chance)
        self.handles.append(leader)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, leader.stand("http://leader:7700")).result()
        return leader

    def advance(self, clock: FakeClock, seconds: float) -> None:
        """Let the leader make its heartbeats: what it has seen it forgets when it has made none for long."""
        super().advance(clock, max(0.0, seconds - _WATCHED))
        left = min(seconds, _WATCHED)
        while left > 0:
            super().advance(clock, min(left, 1.5 * HEARTBEAT))
            left -= 1.5 * HEARTBEAT
            with ThreadPoolExecutor(1) as thread:
                for leader in self.handles:
                    thread.submit(asyncio.run, attend(leader, clock)).result()


class TestObjectsLed(Led, LeaseContract, FenceContract, LimitContract, ClaimContract, RaceContract):
    """What a leader judges and answers from memory."""


@pytest.mark.prove
class TestObjectsLedWhole(Led, StoreContract):
    """The whole contract."""


async def attend(leader: ObjectStore, clock: FakeClock) -> None:
    await leader._thread.run(leader._committer._attend(clock.monotonic()))


@pytest.mark.prove
class TestObjectsOnServer(Handles, RaceContract, EnqueueContract, ClaimContract, SettleContract, FenceContract, LeaseContract):
    """Races and ownership through obstore, on a server that resets a part of the connections before and after writes."""

    @pytest.fixture(autouse=True)
    def url(self, server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
        self.name, self.handles, self.server = server.bucket_url.replace("?", f"/{next(_NUMBERS)}?"), [], server
        asyncio.run(insist_on_creating(self.name))
        faults = (BucketFault(), BucketFault(503), BucketFault(is_applied=True), BucketFault(412, is_applied=True))
        server.fail("PUT", *(each for fault in faults for each in (*[None] * 5, fault)))

    def make_store(self, clock: FakeClock) -> Store:
        """Let the server tell the time of the test: a store corrects its own by the server's."""
        self.server.clock_offset = clock.wall() - SystemClock().wall()
        return super().make_store(clock)

    def advance(self, clock: FakeClock, seconds: float) -> None:
        super().advance(clock, seconds)
        self.server.clock_offset = clock.wall() - SystemClock().wall()

"""A bucket in memory whose calls end as a script has it, stores on it, and what their tests ask."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from threading import Event
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.bucket import UNCHANGED, Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.head import KEY, Head, read
from holdfast.stores.objects.limits import LIMITS, Limits
from holdfast.stores.objects.store import ObjectStore
from holdfast.stores.objects.tidying import Sizes
from holdfast.testing.clock import FakeChance, FakeClock
from tests.buckets.support import SkippingClock

names = FakeChance(7100)  # buckets in memory are found by name, also by other tests of the same process


async def world_stands_still() -> None:
    """Let nothing happen while a read is slow."""


class Scripted:
    """A bucket in memory on which the next calls for the head end as a script has it.

    Writes: ``lost`` happens without an answer, ``cut`` does not happen, ``late`` happens before the next write, ``slow`` happens after
    something else. Reads: ``reset``, ``half``,
    ``slow``, for which something else happens first, or an older head that the script holds.
    """

    def __init__(self, name: str, clock: FakeClock) -> None:
        self._bucket = open_bucket(name, clock)
        self.writes, self.reads = deque[str](), deque[str | Found]()
        self.late = deque[tuple[bytes, str | Absent | None]]()
        self.calls = Counter[str]()
        self.until_answered: Callable[[], Awaitable[None]] = world_stands_still

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        self.calls[f"GET {key}"] += 1
        fault = self.reads.popleft() if self.reads and key == KEY else None
        if fault == "slow":
            await self.until_answered()
        if fault == "reset":
            raise BucketUnavailable("GET: reset", BucketProblem.UNREACHABLE)
        found = fault if isinstance(fault, Found) else await self._bucket.get(key)
        if fault == "half" and isinstance(found, Found):
            return structs.replace(found, body=found.body[:-9])
        return UNCHANGED if isinstance(found, Found) and found.etag == unless else found

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        self.calls[f"PUT {key.partition('/')[0]}"] += 1
        fault = self.writes.popleft() if self.writes and key == KEY else None
        if self.late and key == KEY:
            await self._bucket.put(KEY, *self.late.popleft())
        if fault == "late":
            self.late.append((body, match))
        if fault == "slow":
            await self.until_answered()
        etag = "" if fault in ("late", "cut") else await self._bucket.put(key, body, match)
        if fault not in (None, "slow"):
            raise BucketUnavailable("PUT: reset", BucketProblem.SERVER)
        return etag

    async def delete(self, key: str) -> None:
        await self._bucket.delete(key)

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        return await self._bucket.list(folder)

    async def close(self) -> None:
        await self._bucket.close()

    async def head(self) -> Head:
        """Read the head without a fault."""
        found = await self._bucket.get(KEY)
        assert isinstance(found, Found)
        return read(found.body)


class World:
    """A bucket with a store in it; each handle has a separate script."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.name, self.clock = f"memory-object://{names.uuid4()}", clock or SkippingClock()
        asyncio.run(create(open_bucket(self.name, self.clock), UUID(int=1)))
        self.opened: list[ObjectStore] = []

    def open(
        self, *, full: int = 10**6, archived: int = 10**6, options: str = "", limits: Limits = LIMITS
    ) -> tuple[ObjectStore, Scripted]:
        bucket, chance = Scripted(self.name, self.clock), FakeChance(names.uuid4().int)
        store = ObjectStore(
            self.name + options, clock=self.clock, chance=chance, bucket=bucket, sizes=Sizes(full, archived), limits=limits
        )
        self.opened.append(store)
        return store, bucket


def new(number: int | None = None, payload: bytes = b"{}") -> NewJob:
    return NewJob(id=names.uuid7() if number is None else UUID(int=number), payload=payload, task="task", policy=Policy())


async def enqueue(store: ObjectStore, *jobs: NewJob) -> EnqueueAnswer:
    return await store.enqueue(names.uuid4(), jobs)


async def at_once(store: ObjectStore, *calls: Coroutine[Any, Any, object]) -> None:
    """Hold the thread of the store until all calls wait for it."""
    gate = Event()
    store._thread.call(gate.wait)
    asked = [asyncio.create_task(call) for call in calls]
    await SystemClock().sleep(0)
    gate.set()
    await asyncio.gather(*asked)


async def opened(store: ObjectStore) -> UUID:
    """Open a lease, and return its id."""
    lease = NewLease(names.uuid4(), "worker", ProcessIdentity("host", 1), LeaseTiming(30.0, 6.0, 5.0))
    assert await store.open_lease(lease)
    return lease.id


async def tidied(store: ObjectStore) -> None:
    """Return when the store writes no run any more."""
    await store._thread.run(store._committer.finish())


async def jobs_in(world: World) -> int:
    """Return how many jobs another process finds."""
    store, _ = world.open()
    counts = await store.counts()
    await store.close()
    return sum(counts.values())

"""What becomes of a write to a bucket, only a read decides; and what many callers ask at once is one write."""

import asyncio
import gzip
import os
from collections import Counter, deque
from collections.abc import Coroutine
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from msgspec import json, structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.bucket import UNCHANGED, Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import ConfigurationError, HoldfastError, SchemaMissing, SchemaTooNew, StoreUnavailable
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.head import KEY, RING, Head, read
from holdfast.stores.objects.pauses import Pauses
from holdfast.stores.objects.store import ObjectStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.buckets.support import SkippingClock

names = FakeChance()


class Scripted:
    """A bucket in memory on which the next calls for the head end as a script has it.

    Writes: ``lost`` happens without an answer, ``cut`` does not happen, ``late`` happens before the next write. Reads: ``reset``, ``half``,
    or an older head that the script holds.
    """

    def __init__(self, name: str, clock: FakeClock) -> None:
        self._bucket = open_bucket(name, clock)
        self.writes, self.reads = deque[str](), deque[str | Found]()
        self.late = deque[tuple[bytes, str | Absent | None]]()
        self.calls = Counter[str]()

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        self.calls[f"GET {key}"] += 1
        fault = self.reads.popleft() if self.reads and key == KEY else None
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
        etag = "" if fault in ("late", "cut") else await self._bucket.put(key, body, match)
        if fault is not None:
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

    def __init__(self) -> None:
        self.name, self.clock = f"memory-object://{names.uuid4()}", SkippingClock()
        asyncio.run(create(open_bucket(self.name, self.clock), UUID(int=1)))
        self.opened: list[ObjectStore] = []

    def open(self, *, full: int = 10**6) -> tuple[ObjectStore, Scripted]:
        bucket = Scripted(self.name, self.clock)
        store = ObjectStore(self.name, clock=self.clock, chance=FakeChance(names.uuid4().int), bucket=bucket, full=full)
        self.opened.append(store)
        return store, bucket


@pytest.fixture
def world() -> World:
    return World()


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


async def jobs_in(world: World) -> int:
    """Return how many jobs another process finds."""
    store, _ = world.open()
    counts = await store.counts()
    await store.close()
    return sum(counts.values())


async def test_what_many_callers_ask_at_once_is_one_write(world: World) -> None:
    store, bucket = world.open()
    await enqueue(store, new())
    bucket.calls.clear()
    await at_once(store, *(enqueue(store, new()) for _ in range(200)))
    assert bucket.calls["PUT head.json"] == 1
    assert await jobs_in(world) == 201
    await store.close()


async def test_readers_that_ask_at_once_share_one_read(world: World) -> None:
    store, bucket = world.open()
    await store.counts()
    bucket.calls.clear()
    await at_once(store, *(store.counts() for _ in range(50)))
    assert bucket.calls.total() == 1
    await store.close()


async def test_a_request_that_fails_leaves_its_neighbours_alone(world: World) -> None:
    store, _ = world.open()
    await enqueue(store, new(7))
    found = await asyncio.gather(*(enqueue(store, new(number)) for number in (6, 7, 8)), return_exceptions=True)
    assert [isinstance(each, HoldfastError) for each in found] == [False, True, False]
    assert await jobs_in(world) == 3
    await store.close()


@pytest.mark.parametrize("fault", ["lost", "cut", "late"])
async def test_a_write_without_an_answer_happens_once(world: World, fault: str) -> None:
    store, bucket = world.open()
    bucket.writes.extend([fault])
    assert await enqueue(store, new()) == EnqueueAnswer()
    assert await jobs_in(world) == 1
    assert (await bucket.head()).version == 1
    await store.close()


async def test_a_late_write_and_the_one_sent_after_it_never_both_happen(world: World) -> None:
    store, bucket = world.open()
    bucket.writes.extend(["late", "late", "cut", "lost"])
    await enqueue(store, new())
    await enqueue(store, new())
    assert await jobs_in(world) == 2
    assert len({commit.nonce for commit in (await bucket.head()).tail}) == 2
    await store.close()


async def test_a_lost_race_is_judged_again_on_what_the_winner_wrote(world: World) -> None:
    (first, _), (second, _) = world.open(), world.open()
    await asyncio.gather(first.counts(), second.counts())
    job = new()
    with_key = structs.replace(job, unique_key="k")
    await enqueue(first, with_key)
    answer = await enqueue(second, structs.replace(with_key, id=names.uuid7()))
    assert [each.job for each in answer.duplicates.values()] == [job.id]
    await first.close()
    await second.close()


async def test_o2_no_answer_comes_from_a_view_that_was_not_read_again(world: World) -> None:
    (reader, bucket), (writer, _) = world.open(), world.open()
    assert await reader.counts() == {}
    await enqueue(writer, new())
    assert await reader.counts() == {("", State.AVAILABLE): 1}
    bucket.reads.extend(["reset"] * 3)
    await enqueue(writer, new())
    assert await reader.counts() == {("", State.AVAILABLE): 2}
    await reader.close()
    await writer.close()


async def test_an_older_head_and_half_a_head_are_read_again(world: World) -> None:
    store, bucket = world.open()
    await enqueue(store, new())
    old = await bucket._bucket.get(KEY)
    assert isinstance(old, Found)
    await enqueue(store, new())
    bucket.reads.extend([old, "half", old])
    assert await store.counts() == {("", State.AVAILABLE): 2}
    assert not bucket.reads
    await store.close()


async def test_a_bucket_that_gives_no_answer_is_reported_and_used_again(world: World) -> None:
    store, bucket = world.open()
    await enqueue(store, new())
    bucket.reads.extend(["reset"] * 100)
    with pytest.raises(StoreUnavailable):
        await store.counts()
    bucket.writes.extend(["cut"] * 100)
    with pytest.raises(StoreUnavailable):
        await asyncio.gather(*(enqueue(store, new()) for _ in range(3)))
    bucket.reads.clear()
    bucket.writes.clear()
    await enqueue(store, new())
    assert await jobs_in(world) == 2
    await store.close()


async def test_a_write_whose_place_in_history_is_forgotten_is_unknown(world: World) -> None:
    (store, bucket), (other, _) = world.open(), world.open(full=1)
    await enqueue(store, new())
    bucket.writes.extend(["cut"])
    bucket.reads.extend(["reset"] * 20)
    asked = asyncio.create_task(enqueue(store, new()))
    for _ in range(2 * RING):
        await enqueue(other, new())
    bucket.reads.clear()
    head = await bucket.head()
    assert head.nonce_of(2) is None
    with pytest.raises(StoreUnavailable):
        await asked
    await store.close()
    await other.close()


async def test_a_store_is_created_by_migrate_only(world: World) -> None:
    nowhere = f"memory-object://{names.uuid4()}"
    store = ObjectStore(nowhere, clock=world.clock, chance=FakeChance())
    for _ in range(2):
        with pytest.raises(SchemaMissing, match="holdfast migrate"):
            await enqueue(store, new())
    assert await store.migrate() == (0, 1)
    assert await store.migrate() == (1, 1)
    await enqueue(store, new())
    bucket = open_bucket(nowhere, world.clock)
    assert [each.key for each in await bucket.list()] == [KEY]
    await bucket.delete(KEY)
    with pytest.raises(SchemaMissing):
        await enqueue(store, new())
    assert await bucket.list() == ()
    await store.close()


async def test_a_store_that_was_replaced_is_not_used_any_more(world: World) -> None:
    store, bucket = world.open()
    await enqueue(store, new())
    head = await bucket.head()
    await bucket._bucket.put(KEY, json.encode(structs.replace(head, store=UUID(int=2), version=9)))
    with pytest.raises(ConfigurationError, match="replaced or restored"):
        await enqueue(store, new())
    await store.close()


async def test_s16_a_store_that_needs_a_newer_release_is_left_alone(world: World) -> None:
    store, bucket = world.open()
    head = await bucket.head()
    await bucket._bucket.put(KEY, json.encode(structs.replace(head, needs=2, version=9)))
    for call in (enqueue(store, new()), store.migrate()):
        with pytest.raises(SchemaTooNew):
            await call
    assert (await bucket.head()).version == 9
    await store.close()


async def test_full_tails_become_runs_and_runs_are_merged(world: World) -> None:
    store, bucket = world.open(full=2000)
    jobs = [new() for _ in range(300)]
    for job in jobs:
        await enqueue(store, job)
    await store.delete([job.id for job in jobs[:290]])
    for job in jobs[290:]:
        await store.reschedule([job.id], delay=5.0)
        await enqueue(store, new())
    head = await bucket.head()
    assert (bucket.calls["PUT runs"], len(head.ring)) > (20, RING - 1)
    assert len(head.runs) < 9
    assert [run.since for run in head.runs] == [0, *(run.until for run in head.runs[:-1])]
    assert head.tail_size < 10_000
    assert await jobs_in(world) == 20
    await store.close()


async def test_o6_a_merged_run_is_deleted_a_day_after_no_head_named_it_any_more(world: World) -> None:
    store, bucket = world.open(full=500)

    async def runs() -> set[str]:
        for _ in range(20):
            await enqueue(store, new())
        return {each.key for each in await bucket.list("runs")}

    await runs()
    dropped = {each.key for each in (await bucket.head()).garbage}
    assert dropped
    world.clock.advance(23 * 3600.0)
    assert await runs() >= dropped
    world.clock.advance(2 * 3600.0)
    left, head = await runs(), await bucket.head()
    assert left >= {run.key for run in head.runs}
    assert not dropped & (left | {each.key for each in head.garbage})
    await store.close()
    assert await jobs_in(world) == 60


@pytest.mark.parametrize(
    "body", [None, b"", b"{", gzip.compress(b"{"), gzip.compress(b'{"unknown": 1}'), gzip.compress(b"{}" * 99)[:-9]]
)
async def test_a_run_that_is_missing_or_damaged_is_named_and_nothing_is_answered_without_it(
    world: World, body: bytes | None
) -> None:
    store, bucket = world.open(full=1)
    for _ in range(4):
        await enqueue(store, new())
    key = (await bucket.head()).runs[0].key
    whole = await bucket._bucket.get(key)
    assert isinstance(whole, Found)
    await (bucket.delete(key) if body is None else bucket._bucket.put(key, body))
    other, _ = world.open()
    with pytest.raises(StoreUnavailable, match=f"{key}.*: restore the object"):
        await other.counts()
    await bucket._bucket.put(key, whole.body)
    assert await other.counts() == {("", State.AVAILABLE): 4}
    await store.close()
    await other.close()


async def test_a_process_that_was_behind_reads_what_was_flushed_and_merged(world: World) -> None:
    (behind, _), (store, _) = world.open(), world.open(full=500)
    jobs = [new() for _ in range(40)]
    await enqueue(store, *jobs)
    assert await behind.counts() == {("", State.AVAILABLE): 40}
    for job in jobs[:30]:
        await store.delete([job.id])
        await enqueue(store, new())
        assert await behind.counts() == {("", State.AVAILABLE): 40} or job is jobs[0]
    assert await behind.get(jobs[0].id) is None
    await behind.close()
    await store.close()


async def test_l8_no_lease_is_ended_for_an_outage_of_the_bucket(world: World) -> None:
    store, bucket = world.open()
    lease = NewLease(names.uuid4(), "worker", ProcessIdentity("host", 1), LeaseTiming(30.0, 6.0, 5.0))
    assert await store.open_lease(lease)
    assert await store.expired(9) == ()
    world.clock.advance(25.0)
    bucket.reads.extend(["reset"] * 100)
    with pytest.raises(StoreUnavailable):
        await store.expired(9)
    bucket.reads.clear()
    assert await store.expired(9) == ()
    world.clock.advance(30.1)
    (view,) = await store.expired(9)
    assert await store.end_lease(lease.id, LeaseEnd(RescueReason.EXPIRED), seen=view.seen) is not None
    await store.close()


def test_a_forked_child_reads_and_writes_for_itself(world: World) -> None:
    store, _ = world.open()
    asyncio.run(enqueue(store, new()))
    if (child := os.fork()) == 0:
        try:
            asyncio.run(enqueue(store, new()))
            counts = asyncio.run(store.counts())
        finally:
            os._exit(0 if counts == {("", State.AVAILABLE): 2} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(store.close())


def test_a_writer_that_has_company_pauses_after_each_of_its_commits() -> None:
    clock, chance = FakeClock(), FakeChance()
    pauses = Pauses(clock, chance, 0.0)
    pauses.wrote(0.1)
    assert (pauses.after_commit(1), pauses.after_commit(2)) == (0.0, pytest.approx(0.005))
    pauses.saw_others()
    assert 0.1 <= pauses.after_commit(1) <= 0.3
    lost = BucketUnavailable("", BucketProblem.CONDITION)
    assert 0.0 <= pauses.after_failure(lost) <= 0.03
    clock.advance(61.0)
    assert pauses.after_commit(1) == 0.0


def test_writes_keep_the_interval_of_their_bucket() -> None:
    clock = FakeClock()
    pauses = Pauses(clock, FakeChance(), 1.0)
    assert pauses.before_write() == 0.0
    pauses.wrote(0.1)
    clock.advance(0.25)
    assert pauses.before_write() == 0.75
    assert pauses.after_failure(BucketUnavailable("", BucketProblem.THROTTLED)) == 1.0

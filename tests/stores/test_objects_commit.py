"""What becomes of a write to a bucket, only a read decides; and what many callers ask at once is one write."""

import asyncio
import os
from concurrent.futures import Future
from datetime import UTC, datetime
from uuid import UUID

import pytest
from msgspec import json, structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._core.write_budget import DAY, MINUTE, WriteBudget
from holdfast._ports.bucket import BucketProblem, BucketUnavailable, Found
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import ConfigurationError, HoldfastError, SchemaMissing, SchemaTooNew, StoreRefused, StoreUnavailable
from holdfast.stores.objects.committer import Request
from holdfast.stores.objects.head import KEY, RING
from holdfast.stores.objects.pauses import Pauses
from holdfast.stores.objects.sightings import Sighted, Sightings
from holdfast.stores.objects.store import ObjectStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.stores.objects_world import World, at_once, enqueue, jobs_in, names, new, opened, tidied


@pytest.fixture
def world() -> World:
    return World()


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


@pytest.mark.parametrize("fault", ["lost", "late"])
async def test_s2_a_claim_without_an_answer_is_recognised_and_takes_no_other_job(world: World, fault: str) -> None:
    store, bucket = world.open()
    jobs = [new() for _ in range(3)]
    await enqueue(store, *jobs)
    lease = await opened(store)
    bucket.writes.extend([fault])
    request = ClaimRequest(lease=lease, claim=names.uuid4(), tasks={"task": Policy()}, limit=1)
    (claim,) = (await store.exchange((), request)).claims
    assert claim.job.id == jobs[0].id
    assert [job.id for job in await store.held(lease)] == [jobs[0].id]
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
    failed = await asyncio.gather(*(enqueue(store, new()) for _ in range(3)), return_exceptions=True)
    assert [isinstance(each, StoreUnavailable) for each in failed] == [True] * 3
    bucket.reads.clear()
    bucket.writes.clear()
    await enqueue(store, new())
    assert await jobs_in(world) == 2
    await store.close()


async def test_a_write_whose_place_in_history_is_forgotten_is_unknown(world: World) -> None:
    (store, bucket), (other, _) = world.open(), world.open(full=1)
    await enqueue(store, new())

    async def others_write() -> None:
        for _ in range(2 * RING):
            await enqueue(other, new())
            await tidied(other)

    bucket.until_answered = others_write
    bucket.writes.extend(["cut"])
    bucket.reads.extend(["slow"])
    with pytest.raises(StoreUnavailable, match="too many others wrote"):
        await enqueue(store, new())
    assert (await bucket.head()).nonce_of(2) is None
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


async def test_l8_no_lease_is_ended_for_an_outage_of_the_bucket(world: World) -> None:
    store, bucket = world.open()
    lease = await opened(store)
    assert await store.expired(9) == ()
    world.clock.advance(25.0)
    bucket.reads.extend(["reset"] * 100)
    with pytest.raises(StoreUnavailable):
        await store.expired(9)
    bucket.reads.clear()
    assert await store.expired(9) == ()
    world.clock.advance(30.1)
    (view,) = await store.expired(9)
    assert await store.end_lease(lease, LeaseEnd(RescueReason.EXPIRED), seen=view.seen) is not None
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
    assert (pauses.for_others(), pauses.for_company()) == (0.0, pytest.approx(0.005))
    pauses.saw_others()
    assert 0.1 <= pauses.for_others() <= 0.3
    lost = BucketUnavailable("", BucketProblem.CONDITION)
    assert 0.0 <= pauses.after_failure(lost) <= 0.03
    clock.advance(61.0)
    assert pauses.for_others() == 0.0


@pytest.mark.parametrize(
    ("answered", "arrivals", "pauses"),
    [(1, [1], 0), (4, [2, 2, 2], 2), (9, [3, 3, 0, 3], 3), (9, [0, 9], 1), (99, [1, 1, 1, 1, 1, 1], 5)],
)
async def test_a_commit_waits_for_those_just_answered_while_some_of_them_come(
    world: World, answered: int, arrivals: list[int], pauses: int
) -> None:
    store, _ = world.open()
    committer, coming, slept = store._committer, iter(arrivals), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        committer._waiting.extend([request] * next(coming))

    request = Request("counts", (), {}, 0.0, Future())
    committer._sleep = sleep  # type: ignore[method-assign]
    await committer._rest(answered)
    assert len(slept) == pauses
    await store.close()


def test_writes_keep_the_interval_of_their_bucket() -> None:
    clock = FakeClock()
    pauses = Pauses(clock, FakeChance(), 1.0)
    assert pauses.before_write() == 0.0
    pauses.wrote(0.1)
    clock.advance(0.25)
    assert pauses.before_write() == 0.75
    assert pauses.after_failure(BucketUnavailable("", BucketProblem.THROTTLED)) == 1.0


def test_o7_writes_beyond_a_budget_are_delayed() -> None:
    clock = FakeClock()
    pauses = Pauses(clock, FakeChance(), 0.0, [WriteBudget(60, MINUTE), WriteBudget(10**6, DAY)])
    assert [pauses.before_write() for _ in range(12)] == pytest.approx([0.0] * 10 + [1.2, 2.4], abs=1e-6)
    clock.advance(2.4)
    assert pauses.before_write() == pytest.approx(1.2)


async def test_o7_writes_of_a_store_keep_the_budget_of_its_url(world: World) -> None:
    store, bucket = world.open(options="?writes_per_minute=60")
    begun = world.clock.monotonic()
    for _ in range(30):
        await enqueue(store, new())
    assert (await jobs_in(world), bucket.calls["PUT head.json"]) == (30, 30)
    assert world.clock.monotonic() - begun == pytest.approx(20 * 1.2, rel=0.1)
    await store.close()


def test_s5_a_stamp_of_the_write_that_is_being_made_was_not_seen_yet() -> None:
    clock = FakeClock()
    sightings = Sightings(clock)
    for first, seen in ((7, 0), (8, 0)):
        moment = Sighted(datetime(2026, 1, 1, tzinfo=UTC), 9, first, sightings.elapsed, sightings.beats)
        assert moment.elapsed(UUID(int=1), 7) == seen
        clock.advance(5.0)
    assert moment.elapsed(UUID(int=1), 7) == 5_000_000


async def test_a_call_that_writes_more_than_a_head_may_have_is_refused_and_its_neighbours_are_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.objects.committer.MOST_CHANGES", 2 * 1024 * 1024)
    store, _ = world.open()
    many = [new(payload=b'"%s"' % (b"a" * 1500)) for _ in range(1500)]
    found = await asyncio.gather(*(enqueue(store, *jobs) for jobs in ([new()], many, [new()])), return_exceptions=True)
    assert [type(each) for each in found] == [EnqueueAnswer, StoreRefused, EnqueueAnswer]
    assert "one call writes 2 MiB: enqueue fewer jobs in a call" in str(found[1])
    assert await jobs_in(world) == 2
    await store.close()


async def test_a_head_that_could_not_be_read_is_not_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store, bucket = world.open()
    await enqueue(store, new())
    monkeypatch.setattr("holdfast.stores.objects.committer.MOST_HEAD", 2000)
    with pytest.raises(StoreUnavailable, match=r"head\.json would be too large"):
        await enqueue(store, *(new() for _ in range(20)))
    assert (await bucket.head()).version == 1
    await enqueue(store, new())
    assert await jobs_in(world) == 2
    await store.close()

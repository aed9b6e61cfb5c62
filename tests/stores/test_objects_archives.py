"""Finished jobs of long ago are objects of which no process loads anything, and calls answer as if they were in the book."""

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._core import lifecycle
from holdfast._core.answers import Answer
from holdfast._core.book import archiving
from holdfast._core.dependencies import After
from holdfast._core.job import Claim, NewJob, State
from holdfast._core.outcome import Done
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import AttemptNote, ClaimRequest, JobFilter
from holdfast._core.store_notices import DamagedObject
from holdfast._ports.bucket import Absent, Found
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.archives import PAST
from holdfast.stores.objects.bodies import BODIES, FRESH, INLINE
from holdfast.stores.objects.orphans import EVERY, GRACE
from holdfast.stores.objects.pieces import KEPT
from holdfast.stores.objects.store import ObjectStore
from tests.stores.objects_world import Scripted, World, at_once, enqueue, names, new, opened, tidied

DAY = 86400.0
OLD = 2 * RETENTION_FLOOR + 1
WEEK = Policy().retention


@pytest.fixture
def world() -> World:
    return World()


async def finished(store: ObjectStore, *jobs: NewJob) -> list[Claim]:
    """Enqueue and complete jobs."""
    await enqueue(store, *jobs)
    request = ClaimRequest(lease=await opened(store), claim=names.uuid4(), tasks={"task": Policy()}, limit=len(jobs))
    claims = (await store.exchange((), request)).claims
    await store.exchange([lifecycle.finish(claim.job, Done(b'"done"'), jitter=0.0) for claim in claims])
    return [*claims]


async def archive(world: World, store: ObjectStore, *, after: float = OLD) -> None:
    """Let time pass, and commit until all is archived that may be."""
    world.clock.advance(after)
    for _ in range(10):
        await enqueue(store, new())
        await tidied(store)


async def archived(world: World, *jobs: NewJob) -> tuple[ObjectStore, Scripted, list[Claim]]:
    """Return a store in which these jobs, two or a multiple of it, are archived."""
    store, bucket = world.open(archived=2)
    claims = await finished(store, *jobs)
    await archive(world, store)
    assert len(await keys(bucket)) == len(jobs) / 2
    return store, bucket, claims


async def keys(bucket: Scripted) -> list[str]:
    return sorted(each.key for each in await bucket.list(PAST))


async def loaded(world: World) -> set[UUID]:
    """Return the jobs that a process loads which starts now."""
    store, _ = world.open()
    await store.counts()
    found = {key for table, key, _ in store._committer._replica.book.contents() if table == "jobs"}
    await store.close()
    return found


async def close(*stores: ObjectStore) -> None:
    for store in stores:
        await store.close()


async def listed(store: ObjectStore, which: JobFilter) -> list[UUID]:
    return [row.id for row in await store.list(which)]


async def test_no_process_loads_an_archived_job_and_every_process_finds_it(world: World) -> None:
    jobs = [new() for _ in range(4)]
    store, _, claims = await archived(world, *jobs)
    ids = {job.id for job in jobs}
    assert not ids & await loaded(world)
    other, _ = world.open()
    assert (await other.counts())["", State.COMPLETED] == 4
    row = await other.get(jobs[0].id)
    assert row is not None
    assert (row.state, row.result, row.attempts) == (State.COMPLETED, b'"done"', ())
    again = lifecycle.finish(claims[0].job, Done(b'"other"'), jitter=0.0)
    assert (await other.exchange([again])).answers == (Answer.LOST,)
    assert (await store.verify()).damage == ()
    assert (await store.inspect()).archived == 4 - 1  # an exchange takes back the job that it names
    await close(store, other)


async def test_reads_change_nothing(world: World) -> None:
    jobs = [new(), new()]
    store, bucket, _ = await archived(world, *jobs)
    version = (await bucket.head()).version
    for _ in range(2):
        assert await store.get(jobs[0].id) is not None
        assert len(await store.list(JobFilter(state=State.COMPLETED))) == 2
    assert (await bucket.head()).version == version
    await close(store)


async def test_a_list_has_archived_jobs_and_others_in_order_and_in_pages(world: World) -> None:
    first = [new() for _ in range(6)]
    store, _, _ = await archived(world, *first[:4])
    await finished(store, first[4])
    waiting = new()
    await enqueue(store, waiting)
    every = await listed(store, JobFilter(limit=1000))
    assert every == sorted(every, reverse=True)
    assert {*every} >= {waiting.id, *(job.id for job in first[:5])}
    pages, before = list[UUID](), None
    while page := await listed(store, JobFilter(limit=3, before=before)):
        pages, before = [*pages, *page], page[-1]
    assert pages == every
    assert set(await listed(store, JobFilter(state=State.COMPLETED))) == {job.id for job in first[:5]}
    assert await listed(store, JobFilter(state=State.FAILED)) == []
    assert await listed(store, JobFilter(queue="other")) == []
    assert len(await store.list(JobFilter(older_than=OLD - 60))) == 4
    await close(store)


@pytest.mark.parametrize("verb", ["reopen", "delete"])
async def test_an_operator_changes_an_archived_job_once_and_for_all(world: World, verb: str) -> None:
    jobs = [new() for _ in range(4)]
    store, _, _ = await archived(world, *jobs)
    job = jobs[0].id
    await getattr(store, verb)([job])
    for each in (store, world.open()[0]):
        row = await each.get(job)
        assert (None if row is None else row.state) == {"reopen": State.AVAILABLE, "delete": None}[verb]
        assert (await each.counts())["", State.COMPLETED] == 3
        assert (job in await listed(each, JobFilter(limit=1000))) == (verb == "reopen")
        assert (await each.verify()).damage == ()
        await close(each)


async def test_jobs_depend_on_an_archived_one(world: World) -> None:
    jobs, child = [new(), new()], new()
    store, _, _ = await archived(world, *jobs)
    await store.enqueue_after(names.uuid4(), [child], After((jobs[0].id,)))
    row = await store.get(child.id)
    assert row is not None
    assert row.state is State.AVAILABLE
    assert (await store.outputs([jobs[1].id]))[jobs[1].id] is not None
    await close(store)


async def test_the_id_of_an_archived_job_is_not_given_again(world: World) -> None:
    jobs = [new(), new()]
    store, _, _ = await archived(world, *jobs)
    with pytest.raises(Exception, match="a job of that id exists already"):
        await enqueue(store, jobs[1])
    assert (await store.counts())["", State.COMPLETED] == 2
    await close(store)


async def test_jobs_that_change_while_they_are_written_stay_in_the_book(world: World) -> None:
    store, bucket = world.open(archived=2)
    jobs = [new(), new()]
    await finished(store, *jobs)
    other, _ = world.open()
    writing = bucket.put

    async def put(key: str, body: bytes, match: str | Absent | None = None) -> str:
        if key.startswith(PAST) and not reopened:
            reopened.append(key)
            await other.reopen([jobs[0].id])
        return await writing(key, body, match)

    reopened = list[str]()
    bucket.put = put  # type: ignore[method-assign]
    await archive(world, store)
    assert reopened
    row = await store.get(jobs[0].id)
    assert row is not None
    assert row.state is State.AVAILABLE
    assert {job.id for job in jobs} <= await loaded(world)
    await close(store, other)


async def test_a_process_that_stood_still_for_long_archives_nothing(world: World) -> None:
    store, bucket = world.open(archived=2)
    jobs = [new(), new()]
    await finished(store, *jobs)
    writing = bucket.put

    async def put(key: str, body: bytes, match: str | Absent | None = None) -> str:
        etag = await writing(key, body, match)
        if key.startswith(PAST):
            world.clock.advance(FRESH + 1)
        return etag

    bucket.put = put  # type: ignore[method-assign]
    world.clock.advance(OLD)
    await enqueue(store, new())
    await tidied(store)
    assert await keys(bucket)
    assert {job.id for job in jobs} <= await loaded(world)
    await close(store)


async def test_archives_end_with_the_retention_and_their_objects_later(world: World) -> None:
    large = b'"%s"' % (b"a" * INLINE)
    store, bucket, _ = await archived(world, new(payload=large), new(payload=large))
    world.clock.advance(WEEK - OLD - 60)
    assert (await store.prune(100)).jobs == 0
    for _ in range(3):  # a search for objects that nothing names, and one more
        await archive(world, store, after=EVERY + 1)
    assert len(await bucket.list(BODIES)) == 1
    assert (await store.prune(100)).jobs == 2
    assert (await store.counts()).get(("", State.COMPLETED), 0) == 0
    assert len(await keys(bucket)) == 1
    for after in (EVERY + 1, GRACE + 1):
        await archive(world, store, after=after)
    assert await keys(bucket) == []
    assert await bucket.list(BODIES) == ()
    await close(store)


async def test_a_damaged_archive_ends_the_search_for_objects_that_nothing_names(world: World) -> None:
    store, bucket, _ = await archived(world, *(new(payload=b'"%s"' % (b"a" * INLINE)) for _ in range(2)))
    (key,) = await keys(bucket)
    await bucket._bucket.put(key, b"rubbish")
    await archive(world, store, after=EVERY + 1)
    await archive(world, store, after=EVERY + 1)
    assert bucket.calls[f"GET {key}"] <= 2
    assert await keys(bucket) == [key]
    await close(store)


async def test_a_store_closes_while_jobs_may_be_archived_and_opens_again(world: World) -> None:
    store, _ = world.open(archived=2)
    await finished(store, *(new() for _ in range(12)))
    world.clock.advance(OLD)
    await enqueue(store, new())
    await store.close()
    async with asyncio.timeout(5):
        assert (await store.counts())["", State.COMPLETED] == 12
    await archive(world, store)
    assert (await store.inspect()).archived == 12
    await close(store)


async def test_each_archive_is_written_once(world: World) -> None:
    store, bucket = world.open(archived=2)
    await finished(store, *(new() for _ in range(20)))
    world.clock.advance(OLD)
    for _ in range(20):
        await at_once(store, *(enqueue(store, new()) for _ in range(5)))
    await tidied(store)
    assert bucket.calls[f"PUT {PAST}"] == (await store.inspect()).rows["archives"]
    await close(store)


async def test_an_archive_has_jobs_that_ended_within_a_day_and_few_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = world.open(archived=4)
    await finished(store, new())
    world.clock.advance(2 * DAY)
    await finished(store, *(new() for _ in range(3)))
    await archive(world, store)
    assert (await store.inspect()).archived == 1
    monkeypatch.setattr(archiving, "MOST_ROWS", 4)
    await finished(store, new())
    await archive(world, store)
    assert (await store.inspect()).archived == 1 + 2
    await close(store)


@pytest.mark.parametrize("body", [None, b"rubbish"])
async def test_a_call_for_a_job_in_a_damaged_archive_fails_and_workers_go_on(
    world: World, tmp_path: Path, body: bytes | None
) -> None:
    jobs = [new(), new()]
    store, bucket, claims = await archived(world, *jobs)
    (key,) = await keys(bucket)
    whole = await bucket.get(key)
    assert isinstance(whole, Found)
    await (bucket.delete(key) if body is None else bucket._bucket.put(key, body))
    problem = "is missing in the bucket" if body is None else "cannot be read"
    other, _ = world.open()
    for call in (
        other.get(jobs[0].id),
        other.reopen([jobs[0].id]),
        other.enqueue_after(names.uuid4(), [new()], After((jobs[0].id,))),
        other.back_up(str(tmp_path)),
    ):
        with pytest.raises(StoreUnavailable, match=f"{key} {problem}: restore the object"):
            await call
    again = lifecycle.finish(claims[0].job, Done(b'"other"'), jitter=0.0)
    assert (await other.exchange([again])).answers == (Answer.MISSING,)
    await other.annotate([AttemptNote(job=jobs[0].id, token=claims[0].job.token, late_result=b"1")])
    assert len(await finished(other, new())) == 1
    assert (await other.counts())["", State.COMPLETED] == 3
    assert other.take_notices() == (DamagedObject(key, problem),)
    assert [(each.key, each.problem) for each in (await other.verify()).damage] == [(key, problem)]
    await bucket._bucket.put(key, whole.body)
    assert await other.get(jobs[0].id) is not None
    await close(store, other)


async def test_a_backup_has_archives_and_their_bodies(world: World, tmp_path: Path) -> None:
    jobs = [new(payload=b'"%s%d"' % (b"a" * INLINE, number)) for number in range(2)]
    store, bucket, _ = await archived(world, *jobs)
    waiting = sum(number for (_, state), number in (await store.counts()).items() if state is State.AVAILABLE)
    assert (await store.back_up(str(tmp_path))).jobs == 2 + waiting
    for each in (*await bucket.list(PAST), *await bucket.list(BODIES)):
        await bucket.delete(each.key)
    assert len((await store.verify()).damage) == 1
    await store.restore(str(tmp_path), is_forced=True)
    fresh, _ = world.open()
    row = await fresh.get(jobs[0].id)
    assert row is not None
    assert row.payload == jobs[0].payload
    assert (await fresh.verify()).damage == ()
    await close(store, fresh)


async def test_a_compaction_deletes_old_archives_that_no_row_names(world: World) -> None:
    store, bucket, _ = await archived(world, new(), new())
    named = await keys(bucket)
    orphan, foreign = f"{PAST}/2026-01-01/{UUID(int=7).hex}.json.gz", f"{PAST}/notes.txt"
    for key in (orphan, foreign):
        await bucket._bucket.put(key, b"")
    world.clock.advance(KEPT.total_seconds() + 60)
    assert (await store.compact()).orphans == 1
    assert await keys(bucket) == sorted([*named, foreign])
    await close(store)

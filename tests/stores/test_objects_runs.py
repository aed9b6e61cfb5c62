"""Runs: what leaves the head is written once, merged, read by processes that come later, and deleted when no head names it."""

import gzip
from datetime import UTC, datetime
from uuid import UUID

import pytest

from holdfast._core.job import State
from holdfast._ports.bucket import Found
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.head import RING, Commit, Head, Run
from holdfast.stores.objects.pieces import NewRun
from tests.stores.objects_world import World, enqueue, jobs_in, new, tidied


@pytest.fixture
def world() -> World:
    return World()


async def test_full_tails_become_runs_and_runs_are_merged(world: World) -> None:
    store, bucket = world.open(full=2000)
    jobs = [new() for _ in range(300)]
    for job in jobs:
        await enqueue(store, job)
        await tidied(store)
    await store.delete([job.id for job in jobs[:290]])
    for job in jobs[290:]:
        await store.reschedule([job.id], delay=5.0)
        await enqueue(store, new())
        await tidied(store)
    head = await bucket.head()
    assert bucket.calls["PUT runs"] > 20
    assert [each.version for each in head.ring] == [*range(head.flushed - RING + 1, head.flushed + 1)]
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
            await tidied(store)
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
    "body",
    [None, b"", b"{", gzip.compress(b"{"), gzip.compress(b'{"unknown": 1}'), gzip.compress(b"{}" * 99)[:-9]],
    ids=["missing", "empty", "not compressed", "not whole JSON", "an unknown table", "cut off"],
)
async def test_a_run_that_is_missing_or_damaged_is_named_and_nothing_is_answered_without_it(
    world: World, body: bytes | None
) -> None:
    store, bucket = world.open(full=1)
    for _ in range(4):
        await enqueue(store, new())
        await tidied(store)
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
        await tidied(store)
    assert await behind.get(jobs[0].id) is None
    assert await behind.counts() == {("", State.AVAILABLE): 40}
    await behind.close()
    await store.close()


def test_what_another_process_has_flushed_or_merged_is_not_put_into_the_head_again() -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    commits = tuple(Commit(version, f"n{version}", when, ()) for version in range(1, 5))
    head = Head(format=1, needs=1, store=UUID(int=1), version=4, tail=commits)
    flushed = NewRun(Run("runs/a", 0, 3, 9)).put_into(head, when)
    assert ([run.key for run in flushed.runs], [each.version for each in flushed.tail]) == (["runs/a"], [4])
    assert [each.nonce for each in flushed.ring] == ["n1", "n2", "n3"]
    assert NewRun(Run("runs/b", 0, 2, 9)).put_into(flushed, when) == flushed
    merged = NewRun(Run("runs/c", 0, 3, 9), replaces=("runs/a",))
    (run,) = merged.put_into(flushed, when).runs
    assert run.key == "runs/c"
    assert merged.put_into(merged.put_into(flushed, when), when) == merged.put_into(flushed, when)
    assert NewRun(Run("runs/d", 0, 3, 9), replaces=("runs/a", "runs/x")).put_into(flushed, when) == flushed

"""Large payloads, results and checkpoints are objects beside the head: commits stay small, and nothing named is ever missing."""

from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.answers import Answer
from holdfast._core.job import Claim, NewJob
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._core.store_notices import DamagedObject
from holdfast._ports.bucket import Absent, BucketProblem, BucketUnavailable
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.bodies import BODIES, FRESH, INLINE
from holdfast.stores.objects.orphans import EVERY, GRACE
from holdfast.stores.objects.pieces import KEPT
from holdfast.stores.objects.store import ObjectStore
from tests.stores.objects_world import Scripted, World, enqueue, names, new, opened, tidied

LARGE = b'"%s"' % (b"a" * INLINE)


@pytest.fixture
def world() -> World:
    return World()


def large(number: int = 0) -> NewJob:
    return new(payload=b'"%s%d"' % (b"a" * INLINE, number))


async def claimed(store: ObjectStore, limit: int = 10) -> tuple[Claim, ...]:
    request = ClaimRequest(lease=await opened(store), claim=names.uuid4(), tasks={"task": Policy()}, limit=limit)
    return (await store.exchange((), request)).claims


async def keys(bucket: Scripted) -> set[str]:
    return {each.key for each in await bucket.list(BODIES)}


async def test_the_bodies_of_one_call_are_one_object_and_each_process_claims_them_whole(world: World) -> None:
    (store, bucket), (other, _) = world.open(), world.open()
    jobs = [large(number) for number in range(5)]
    await enqueue(store, *jobs, new())
    assert len(await keys(bucket)) == 1
    assert (await bucket.head()).tail_size < INLINE
    found = {claim.job.id: claim.payload for claim in await claimed(other)}
    assert all(found[job.id] == job.payload for job in jobs)
    view = await other.get(jobs[0].id)
    assert view is not None
    assert view.payload == jobs[0].payload
    for each in (store, other):
        await each.close()


async def test_a_large_result_that_is_settled_again_is_answered_as_applied(world: World) -> None:
    store, bucket = world.open()
    await enqueue(store, new())
    (claim,) = await claimed(store)
    done = lifecycle.finish(claim.job, Done(LARGE), jitter=0.0)
    for _ in range(2):
        assert (await store.exchange((done,))).answers == (Answer.APPLIED,)
    other = structs.replace(done, result=LARGE[:-1] + b'b"')
    assert (await store.exchange((other,))).answers == (Answer.LOST,)
    assert len(await keys(bucket)) == 3
    await store.close()


async def test_a_commit_names_no_body_that_could_not_be_written(world: World) -> None:
    store, bucket = world.open()
    writing = bucket.put

    async def put(key: str, body: bytes, match: str | Absent | None = None) -> str:
        if key.startswith(BODIES):
            raise BucketUnavailable("PUT: reset", BucketProblem.SERVER)
        return await writing(key, body, match)

    bucket.put = put  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await enqueue(store, large())
    assert (await bucket.head()).version == 0
    await store.close()


@pytest.mark.parametrize(
    ("body", "problem"), [(None, "is missing in the bucket"), (b"rubbish", "has other bytes than were written")]
)
async def test_a_body_that_is_missing_or_damaged_is_named_and_other_jobs_go_on(
    world: World, body: bytes | None, problem: str
) -> None:
    (store, bucket), (other, _) = world.open(), world.open()
    job = large()
    await enqueue(store, job, new())
    (key,) = await keys(bucket)
    await (bucket.delete(key) if body is None else bucket._bucket.put(key, body))
    assert [claim.payload == b"{}" for claim in await claimed(other)] == [False, True]
    view = await other.get(job.id)
    assert view is not None
    assert view.payload == f"{key} {problem}".encode()
    assert other.take_notices() == (DamagedObject(key, problem),)
    for each in (store, other):
        await each.close()


async def test_a_payload_that_looks_like_the_name_of_a_body_is_returned_as_it_was(world: World) -> None:
    (store, bucket), (other, _) = world.open(), world.open()
    await enqueue(store, large())
    (key,) = await keys(bucket)
    forged = new(payload=b"\0apart " + b"0" * 64 + b" " + key.encode() + b" 0 10")
    await enqueue(store, forged)
    assert forged.payload in {claim.payload for claim in await claimed(other)}
    for each in (store, other):
        await each.close()


async def test_o6_a_body_is_deleted_once_no_row_names_it_and_it_is_a_day_old(world: World) -> None:
    store, bucket = world.open()
    kept, gone = large(1), large(2)
    for job in (kept, gone):
        await enqueue(store, job)
    await store.delete([gone.id])
    world.clock.advance(KEPT.total_seconds() - 60)
    for _ in range(2):
        await enqueue(store, new())
        await tidied(store)
    assert len(await keys(bucket)) == 2
    for passed, many in ((EVERY, 2), (0, 2), (GRACE, 2), (0, 1)):  # two searches, each of two commits
        world.clock.advance(passed)
        await enqueue(store, new())
        await tidied(store)
        assert len(await keys(bucket)) == many
    fresh, _ = world.open()
    assert kept.payload in {claim.payload for claim in await claimed(fresh)}
    for each in (store, fresh):
        await each.close()


async def test_o6_a_body_that_is_named_only_after_the_list_is_kept(world: World) -> None:
    store, bucket = world.open()
    world.clock.advance(EVERY)
    await enqueue(store, large())
    await tidied(store)
    world.clock.advance(KEPT.total_seconds() + 60)
    await enqueue(store, new())
    await tidied(store)
    await enqueue(store, new())
    await tidied(store)
    assert len(await keys(bucket)) == 1
    await store.close()


async def test_o6_a_process_that_stood_still_for_long_names_no_body_that_may_be_deleted(world: World) -> None:
    store, bucket = world.open()
    writing = bucket.put

    async def put(key: str, body: bytes, match: str | Absent | None = None) -> str:
        if key.startswith(BODIES):
            world.clock.advance(FRESH + 1)
        return await writing(key, body, match)

    bucket.put = put  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="stood still in the call: call again"):
        await enqueue(store, large())
    assert (await bucket.head()).version == 0
    await store.close()


async def test_a_compaction_deletes_old_bodies_that_no_row_names(world: World) -> None:
    store, bucket = world.open()
    await enqueue(store, large())
    named = await keys(bucket)
    orphan, foreign = f"{BODIES}/{UUID(int=7).hex}.bin", f"{BODIES}/notes.txt"
    for key in (orphan, foreign):
        await bucket._bucket.put(key, b"")
    assert (await store.compact()).orphans == 0
    world.clock.advance((KEPT + timedelta(minutes=1)).total_seconds())
    assert (await store.compact()).orphans == 1
    assert await keys(bucket) == {*named, foreign}
    await store.close()


async def test_a_missing_body_does_not_verify_and_a_backup_brings_it_back(world: World, tmp_path: Path) -> None:
    store, bucket = world.open()
    job = large()
    await enqueue(store, job)
    assert (await store.verify()).damage == ()
    await store.back_up(str(tmp_path))
    (key,) = await keys(bucket)
    await bucket.delete(key)
    ((place, problem),) = [(each.key, each.problem) for each in (await store.verify()).damage]
    assert (place, problem) == (key, "is missing in the bucket")
    with pytest.raises(StoreUnavailable, match=f"{key} is missing"):
        await store.back_up(str(tmp_path / "second"))
    await store.restore(str(tmp_path), is_forced=True)
    fresh, _ = world.open()
    assert [claim.payload for claim in await claimed(fresh)] == [job.payload]
    for each in (store, fresh):
        await each.close()

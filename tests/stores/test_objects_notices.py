"""What a store in a bucket notices beside its answers: a limit that is near, damage, and a clock that differs."""

import pytest

from holdfast._core.store_notices import ClockCorrected, Crowded, DamagedObject
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.limits import Limits
from holdfast.stores.objects.store import ObjectStore
from holdfast.stores.objects.wall_clock import EVERY
from holdfast.testing.clock import FakeChance
from tests.buckets.support import SkippingClock
from tests.stores.objects_world import Scripted, World, enqueue, new, tidied


@pytest.fixture
def world() -> World:
    return World()


async def test_jobs_near_their_limit_are_noticed_once_and_again_after_most_were_deleted(world: World) -> None:
    store, _ = world.open(limits=Limits(jobs=10))
    jobs = [new() for _ in range(9)]
    await enqueue(store, *jobs[:7])
    assert store.take_notices() == ()
    await enqueue(store, jobs[7])
    assert store.take_notices() == (Crowded("jobs", 8, 10),)
    await enqueue(store, jobs[8])
    await store.delete([each.id for each in jobs[:2]])
    await enqueue(store, new())
    assert store.take_notices() == ()
    await store.delete([each.id for each in jobs[2:4]])
    await enqueue(store, new(), new())
    assert store.take_notices() == (Crowded("jobs", 8, 10),)
    await store.close()


async def test_a_process_that_only_reads_notices_runs_near_their_limit(world: World) -> None:
    (store, bucket), (other, _) = world.open(full=1), world.open(limits=Limits(run_bytes=600))
    for _ in range(3):
        await enqueue(store, new())
        await tidied(store)
    await other.counts()
    assert other.take_notices() == (Crowded("run_bytes", (await bucket.head()).run_size, 600),)
    await store.close()
    await other.close()


async def test_a_damaged_run_is_noticed_once_by_those_that_load_it_and_by_those_that_merge_it(world: World) -> None:
    (store, bucket), (merging, _) = world.open(full=1), world.open()
    for _ in range(4):
        await enqueue(store, new())
        await tidied(store)
    await merging.counts()
    key = (await bucket.head()).runs[0].key
    await bucket._bucket.put(key, b"{")
    loading, _ = world.open()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=key):
            await loading.counts()
        await enqueue(merging, new())
        await tidied(merging)
    for each in (loading, merging):
        assert each.take_notices() == (DamagedObject(key, "cannot be read"),)
        await each.close()
    await store.close()


async def test_a_clock_that_differs_from_the_buckets_is_noticed_and_so_is_its_end(world: World) -> None:
    clock = SkippingClock()
    store = ObjectStore(world.name, clock=clock, chance=FakeChance(), bucket=Scripted(world.name, world.clock))
    ahead = 3600.0
    clock.step_wall(ahead)
    await enqueue(store, new())
    assert store.take_notices() == (ClockCorrected(-ahead),)
    await enqueue(store, new())
    clock.advance(EVERY + 1)
    world.clock.advance(EVERY + 1)
    await enqueue(store, new())
    assert store.take_notices() == ()
    clock.step_wall(-ahead)
    clock.advance(EVERY + 1)
    world.clock.advance(EVERY + 1)
    await enqueue(store, new())
    assert store.take_notices() == (ClockCorrected(0.0),)
    await store.close()


@pytest.mark.parametrize(("ahead", "waits"), [(4.0, True), (9.9, True), (60.0, False)])
async def test_the_time_of_a_store_goes_back_only_from_a_clock_that_was_wrong(world: World, ahead: float, waits: bool) -> None:
    clock, (behind, bucket) = SkippingClock(), world.open()
    store = ObjectStore(world.name, clock=clock, chance=FakeChance(), bucket=Scripted(world.name, world.clock))
    for each in (behind, store):
        await each.counts()
    clock.step_wall(ahead)
    await enqueue(store, new())
    first = (await bucket.head()).tail[-1].at
    await enqueue(behind, new())
    assert ((await bucket.head()).tail[-1].at == first) is waits
    await store.close()
    await behind.close()

"""A store in a bucket that has reached a limit refuses new jobs, and all that ends or deletes jobs goes on."""

import pytest
from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.dependencies import After
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from holdfast._core.schedule import UNNUMBERED, Definition, TickAnswer, advance, defined
from holdfast._core.ticks import every
from holdfast.errors import StoreFull
from holdfast.stores.objects.limits import Limits
from tests.stores.objects_world import World, at_once, enqueue, jobs_in, names, new, opened, tidied


@pytest.fixture
def world() -> World:
    return World()


async def test_a_store_with_too_many_jobs_refuses_new_ones_and_names_the_remedy(world: World) -> None:
    store, _ = world.open(limits=Limits(jobs=3))
    call, jobs = names.uuid4(), [new(), new()]
    await store.enqueue(call, jobs)
    with pytest.raises(StoreFull, match="its limit of 3 jobs, without archived ones: delete jobs"):
        await enqueue(store, new(), new())
    assert await jobs_in(world) == 2
    assert await enqueue(store, new()) == EnqueueAnswer()
    with pytest.raises(StoreFull):
        await store.enqueue_after(names.uuid4(), [new()], After((jobs[0].id,)))
    assert await store.enqueue(call, jobs) == EnqueueAnswer()
    assert await jobs_in(world) == 3
    await store.close()


async def test_in_a_full_store_jobs_are_claimed_settled_and_deleted(world: World) -> None:
    store, _ = world.open(limits=Limits(jobs=2))
    jobs = [new(), new()]
    await enqueue(store, *jobs)
    lease = await opened(store)
    request = ClaimRequest(lease=lease, claim=names.uuid4(), tasks={"task": Policy()}, limit=2)
    with pytest.raises(StoreFull):
        await enqueue(store, new())
    claims = (await store.exchange([], request)).claims
    assert (await store.beat([lease])).alive == {lease}
    done = [finish(each.job, Done(b"1"), jitter=0.0) for each in claims]
    assert (await store.exchange(done)).answers == (Answer.APPLIED, Answer.APPLIED)
    await store.prune(10)
    with pytest.raises(StoreFull):
        await enqueue(store, new())
    await store.delete([jobs[0].id])
    assert await enqueue(store, new()) == EnqueueAnswer()
    await store.close()


async def test_a_refused_enqueue_leaves_those_of_the_same_write_alone(world: World) -> None:
    store, bucket = world.open(limits=Limits(jobs=2))
    found = list[EnqueueAnswer | BaseException]()

    async def ask(jobs: int) -> None:
        try:
            found.append(await enqueue(store, *(new() for _ in range(jobs))))
        except StoreFull as error:
            found.append(error)

    await at_once(store, ask(1), ask(2), ask(1))
    assert [type(each) for each in found] == [EnqueueAnswer, StoreFull, EnqueueAnswer]
    assert (await jobs_in(world), (await bucket.head()).version) == (2, 1)
    await store.close()


async def test_a_store_with_large_runs_takes_new_jobs_again_after_a_compaction(world: World) -> None:
    store, _ = world.open(full=500, limits=Limits(run_bytes=4000))
    jobs = [new() for _ in range(100)]

    async def fill() -> None:
        for job in jobs:
            await enqueue(store, job)
            await tidied(store)

    with pytest.raises(StoreFull, match="before compression, and the limit is 4,000: run `holdfast store compact`"):
        await fill()
    assert 0 < await jobs_in(world) < len(jobs)
    await store.delete([each.id for each in jobs])
    world.clock.advance(24 * 3600.0)
    while (await store.prune(100)).total:
        pass
    await tidied(store)
    await store.compact()
    assert await enqueue(store, new()) == EnqueueAnswer()
    await store.close()


async def test_a_tick_that_would_add_a_job_to_a_full_store_waits_until_it_has_space(world: World) -> None:
    store, _ = world.open(limits=Limits(jobs=1))
    job, ticking = new(), structs.replace(new(), id=UNNUMBERED)
    await enqueue(store, job)
    definition = Definition(when=every("1m"), job=ticking)
    assert await store.set_schedule(defined("s", definition, None, (await store.schedules()).now, names.uuid4()), names.uuid4())
    world.clock.advance(61.0)
    due = await store.ticks(1)
    move, _ = advance(due.found[0], due.now, names.uuid4())
    with pytest.raises(StoreFull):
        await store.advance(move)
    assert (await store.ticks(1)).found == due.found
    await store.delete([job.id])
    assert await store.advance(move) is TickAnswer.FIRED
    await store.close()

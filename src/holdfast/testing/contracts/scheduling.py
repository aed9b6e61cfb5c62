"""Schedules: one write moves a schedule on and stores the tick's job; everything else loses and changes nothing."""

from datetime import timedelta

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import State
from holdfast._core.schedule import (
    UNNUMBERED,
    Advance,
    Definition,
    Overlap,
    Schedule,
    TickAnswer,
    advance,
    defined,
    pausing,
    tag_of,
    version_of,
)
from holdfast._core.ticks import every
from holdfast._engine import store_defaults
from holdfast._ports.store import Scheduling
from holdfast.errors import Unsupported
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, in_threads, needs, story

MINUTE = timedelta(minutes=1)


async def refused(at: Scene) -> None:
    """Check that a store without these verbs is known as such."""
    assert not store_defaults.has_schedules(at.store)
    try:
        store_defaults.scheduling(at.store)
    except Unsupported:
        return
    raise AssertionError("a store without schedules offers them")


async def written(at: Scene, name: str = "s", *, overlap: Overlap = Overlap.QUEUE, catch_up: int = 1) -> Schedule:
    """Store a schedule that ticks each minute, and return it as the store has it."""
    store = store_defaults.scheduling(at.store)
    job = structs.replace(at.new(payload=b'{"n":1}', lane="acme", tags=("a",)), id=UNNUMBERED)
    definition = Definition(when=every("1m"), job=job, overlap=overlap, catch_up=catch_up)
    new = defined(name, definition, None, (await store.schedules()).now, at.chance.uuid4())
    assert await store.set_schedule(new, at.chance.uuid4())
    return await read(at, name)


async def read(at: Scene, name: str = "s") -> Schedule:
    """Return the stored schedule of this name."""
    (found,) = [each for each in (await store_defaults.scheduling(at.store).schedules()).found if each.name == name]
    return found


async def move(at: Scene, name: str = "s") -> Advance:
    """Make the move of a schedule that is due."""
    answer = await store_defaults.scheduling(at.store).ticks(10)
    (found,) = [each for each in answer.found if each.name == name]
    return advance(found, answer.now, at.chance.uuid4())[0]


class ScheduleContract(Part):
    """What the verbs of schedules promise."""

    @story
    @needs(Scheduling, refused)
    async def test_a_due_tick_is_named_with_the_time_until_the_next_one(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        assert (await store.ticks(10)).wait is None
        first = await written(at, "a")
        at.advance(10.0)
        await written(at, "b")
        answer = await store.ticks(10)
        assert answer.found == ()
        assert answer.wait is not None
        assert 49.0 < answer.wait <= 50.0
        at.advance(50.0 + EARLY)
        answer = await store.ticks(10)
        assert [each.name for each in answer.found] == ["a"]
        assert answer.found[0].next_at == first.next_at <= answer.now
        assert answer.wait is not None
        assert 9.0 < answer.wait < 10.0
        at.advance(10.0)
        assert [each.name for each in (await store.ticks(10)).found] == ["a", "b"]
        assert [each.name for each in (await store.ticks(1)).found] == ["a"]
        assert (await store.ticks(10)).wait is None
        assert await store.advance(await move(at, "a")) is TickAnswer.FIRED
        at.advance(50.0)
        assert [each.name for each in (await store.ticks(10)).found] == ["b", "a"]

    @story
    @needs(Scheduling, refused)
    async def test_a_move_or_change_of_one_schedule_leaves_the_others_alone(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        new = {name: await written(at, name, overlap=Overlap.SKIP) for name in "abc"}
        at.advance(60.0 + EARLY)
        for name in "ca":
            assert await store.advance(await move(at, name)) is TickAnswer.FIRED
        assert await read(at, "b") == new["b"]
        assert await store.advance(await move(at, "b")) is TickAnswer.FIRED
        assert len({each.last_job for each in (await store.schedules()).found}) == 3
        assert await store.set_schedule(pausing(await read(at, "b"), at.now, is_paused=True), at.chance.uuid4())
        at.advance(60.0)
        assert (
            await store.advance(structs.replace(await move(at, "a"), name="b", version=(await read(at, "b")).version))
            is TickAnswer.LOST
        )
        await store.remove_schedule("b")
        assert await store.advance(structs.replace(await move(at, "a"), name="b")) is TickAnswer.LOST
        assert [each.name for each in (await store.schedules()).found] == ["a", "c"]

    @story
    @needs(Scheduling, refused)
    async def test_a_change_of_one_schedule_is_not_taken_for_that_of_another(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at, "a")
        await written(at, "b")
        at.advance(60.0 + EARLY)
        ours = await move(at, "a")
        assert await store.advance(ours) is TickAnswer.FIRED
        assert await store.advance(structs.replace(ours, name="b", version=9)) is TickAnswer.LOST
        assert not await store.set_schedule(structs.replace(await read(at, "b"), version=9), ours.change)
        assert await store.set_schedule(structs.replace(await read(at, "a"), version=9), ours.change)
        assert (await read(at, "a")).version == version_of(ours.change)

    @story
    async def test_a_lease_lists_what_the_code_of_its_worker_declares(self, at: Scene) -> None:
        assert await at.store.open_lease(structs.replace(at.new_lease(), declares=("a=1", "b=2")))
        assert [worker.declares for worker in await at.store.workers()] == [("a=1", "b=2")]
        at.advance(1000.0)
        assert [worker.declares for worker in await at.store.expired(10)] == [("a=1", "b=2")]

    @story
    @needs(Scheduling, refused)
    async def test_a_schedule_is_read_as_it_was_written(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        one = await written(at, "b")
        at.advance(1.0)
        two = await written(at, "a", overlap=Overlap.CANCEL, catch_up=7)
        assert [each.name for each in (await store.schedules()).found] == ["a", "b"]
        assert (two.definition.overlap, two.definition.catch_up) == (Overlap.CANCEL, 7)
        assert one.definition.job.payload == b'{"n":1}'
        assert (one.last_tick, one.last_job, one.paused_at) == (None, None, None)
        assert one.next_at == one.plan.anchor + MINUTE
        await store.remove_schedule("a")
        await store.remove_schedule("a")
        assert [each.name for each in (await store.schedules()).found] == ["b"]

    @story
    @needs(Scheduling, refused)
    async def test_s14_a_tick_is_one_job_when_moves_are_sent_again(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        old = await written(at)
        at.advance(60.0 + EARLY)
        ours, theirs = await move(at), await move(at)
        assert ours.job is not None
        assert ours.job == theirs.job
        assert ours.job.id.version == 7
        assert await store.advance(ours) is TickAnswer.FIRED
        assert await store.advance(ours) is TickAnswer.FIRED
        assert await store.advance(theirs) is TickAnswer.LOST
        (job,) = await at.store.list(at.everything)
        assert (job.id, job.payload, job.tags, job.state) == (ours.job.id, b'{"n":1}', ("a", tag_of(ours.name)), State.AVAILABLE)
        assert job.key == "acme"
        new = await read(at)
        assert (new.last_tick, new.next_at, new.last_job) == (old.next_at, old.next_at + MINUTE, job.id)
        assert new.version == version_of(ours.change) != old.version
        at.advance(90.0)
        ours, theirs = await move(at), await move(at)
        assert await store.advance(ours) is TickAnswer.FIRED
        at.advance(60.0)
        assert await store.advance(theirs) is TickAnswer.LOST
        assert await store.advance(await move(at)) is TickAnswer.FIRED
        assert await store.advance(ours) is TickAnswer.LOST
        assert len(await at.store.list(at.everything)) == 3

    @story
    @needs(Scheduling, refused)
    async def test_s14_of_many_that_fire_a_tick_at_once_one_does(self, at: Scene) -> None:
        await written(at)
        at.advance(60.0 + EARLY)
        moves, stores = [await move(at) for _ in range(4)], [at.another() for _ in range(4)]
        verbs = [store_defaults.scheduling(store) for store in stores]
        answers = in_threads(*(lambda n=n: verbs[n].advance(moves[n]) for n in range(4)))
        assert sorted(answers) == ["fired", "lost", "lost", "lost"]
        assert len(await at.store.list(at.everything)) == 1

    @story
    @needs(Scheduling, refused)
    async def test_a_tick_that_the_stores_clock_has_not_reached_is_lost(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        schedule = await written(at)
        early, _ = advance(schedule, schedule.next_at, at.chance.uuid4())
        assert await store.advance(early) is TickAnswer.LOST
        at.advance(60.0 + EARLY)
        assert await store.advance(early) is TickAnswer.FIRED
        at.step_wall(-120.0)
        assert (await store.ticks(10)).found == ()

    @story
    @needs(Scheduling, refused)
    async def test_a_large_payload_goes_with_the_tick(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at)
        at.advance(60.0 + EARLY)
        fired = await move(at)
        assert fired.job is not None
        fired = structs.replace(fired, job=structs.replace(fired.job, payload=b'"' + b"x" * 5000 + b'"', delay=30.0))
        assert await store.advance(fired) is TickAnswer.FIRED
        assert fired.job is not None
        row = await at.row(fired.job.id)
        assert row.payload == fired.job.payload
        assert row.state is State.SCHEDULED

    @story
    @needs(Scheduling, refused)
    async def test_skip_leaves_a_tick_out_while_the_last_job_has_not_finished(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at, overlap=Overlap.SKIP)
        at.advance(60.0 + EARLY)
        first = await move(at)
        assert await store.advance(first) is TickAnswer.FIRED
        at.advance(60.0)
        second = await move(at)
        assert await store.advance(second) is TickAnswer.SKIPPED
        assert await store.advance(second) is TickAnswer.SKIPPED
        (claim,) = await at.claim(await at.lease())
        at.advance(60.0)
        assert await store.advance(await move(at)) is TickAnswer.SKIPPED
        schedule = await read(at)
        assert first.job is not None
        assert schedule.last_job == first.job.id
        await at.settle(done(claim.job))
        await at.running()
        at.advance(60.0)
        assert await store.advance(await move(at)) is TickAnswer.FIRED
        assert len(await at.store.list(at.everything)) == 3

    @story
    @needs(Scheduling, refused)
    async def test_queue_stores_the_job_beside_the_last_one(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at, overlap=Overlap.QUEUE)
        for _ in range(3):
            at.advance(60.0 + EARLY)
            assert await store.advance(await move(at)) is TickAnswer.FIRED
        assert [job.state for job in await at.store.list(at.everything)] == [State.AVAILABLE] * 3

    @story
    @needs(Scheduling, refused)
    async def test_cancel_ends_a_waiting_job_and_asks_a_running_one_to_stop(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        for name in "asz":
            await written(at, name, overlap=Overlap.CANCEL)
        at.advance(60.0 + EARLY)
        one = await move(at)
        assert await store.advance(one) is TickAnswer.FIRED
        at.advance(60.0)
        two = await move(at)
        assert await store.advance(two) is TickAnswer.FIRED
        assert await store.advance(two) is TickAnswer.FIRED
        assert one.job is not None
        assert two.job is not None
        assert await at.state(one.job.id) is State.CANCELLED
        assert await at.state(two.job.id) is State.AVAILABLE
        (claim,) = await at.claim(await at.lease())
        assert claim.job.id == two.job.id
        at.advance(60.0)
        three = await move(at)
        assert await store.advance(three) is TickAnswer.FIRED
        assert (await at.row(two.job.id)).cancel_requested
        await at.settle(done(claim.job))
        (claim,) = await at.claim(await at.lease())
        await at.settle(done(claim.job))
        at.advance(60.0)
        assert await store.advance(await move(at)) is TickAnswer.FIRED
        assert [await at.state(job) for job in (two.job.id, claim.job.id)] == [State.COMPLETED] * 2

    @story
    @needs(Scheduling, refused)
    async def test_a_move_without_a_job_only_moves(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at, catch_up=0, overlap=Overlap.CANCEL)
        at.advance(60.0 + EARLY)
        assert await store.advance(await move(at)) is TickAnswer.FIRED
        at.advance(600.0)
        dropping = await move(at)
        assert dropping.job is None
        assert await store.advance(dropping) is TickAnswer.DROPPED
        assert await store.advance(dropping) is TickAnswer.DROPPED
        assert [job.state for job in await at.store.list(at.everything)] == [State.AVAILABLE]
        schedule, (job,) = await read(at), await at.store.list(at.everything)
        assert (schedule.last_tick, schedule.next_at) == (dropping.tick, dropping.following)
        assert schedule.last_job == job.id

    @story
    @needs(Scheduling, refused)
    async def test_a_paused_schedule_is_not_due_and_never_fires(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at)
        at.advance(60.0 + EARLY)
        late = await move(at)
        paused = pausing(await read(at), at.now, is_paused=True)
        change = at.chance.uuid4()
        assert await store.set_schedule(paused, change)
        assert await store.set_schedule(paused, change)
        assert not await store.set_schedule(paused, at.chance.uuid4())
        answer = await store.ticks(10)
        assert (answer.found, answer.wait) == ((), None)
        stale = structs.replace(late, version=(await read(at)).version)
        assert await store.advance(stale) is TickAnswer.LOST
        at.step_wall(-60.0)
        assert (await store.ticks(10)).wait is None
        at.step_wall(60.0)
        resumed = pausing(await read(at), answer.now, is_paused=False)
        assert await store.set_schedule(resumed, at.chance.uuid4())
        assert (await store.ticks(10)).found == ()
        assert (await read(at)).next_at > answer.now

    @story
    @needs(Scheduling, refused)
    async def test_a_change_of_another_version_is_refused(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        old = await written(at)
        assert not await store.set_schedule(structs.replace(old, version=0), at.chance.uuid4())
        assert not await store.set_schedule(structs.replace(old, version=9), at.chance.uuid4())
        assert not await store.set_schedule(structs.replace(old, name="none"), at.chance.uuid4())
        assert [each.name for each in (await store.schedules()).found] == ["s"]
        other = structs.replace(old.definition, overlap=Overlap.CANCEL)
        new = defined("s", other, old, (await store.schedules()).now, at.chance.uuid4())
        at.advance(60.0 + EARLY)
        stale = await move(at)
        change = at.chance.uuid4()
        assert await store.set_schedule(new, change)
        assert await store.advance(stale) is TickAnswer.LOST
        found = await read(at)
        assert (found.plan, found.version) == (new.plan, version_of(change))

    @story
    @needs(Scheduling, refused)
    async def test_a_removed_schedule_fires_nothing_and_leaves_its_jobs(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        await written(at)
        at.advance(60.0 + EARLY)
        assert await store.advance(await move(at)) is TickAnswer.FIRED
        at.advance(60.0)
        late = await move(at)
        await store.remove_schedule("s")
        assert await store.advance(late) is TickAnswer.LOST
        assert len(await at.store.list(at.everything)) == 1

    @story
    @needs(Scheduling, refused)
    async def test_s14_what_was_meant_for_a_removed_schedule_does_not_land_on_a_new_one_of_its_name(self, at: Scene) -> None:
        store = store_defaults.scheduling(at.store)
        removed = await written(at)
        at.advance(60.0 + EARLY)
        late = await move(at)
        await store.remove_schedule("s")
        again = await written(at)
        at.advance(60.0 + EARLY)
        assert await store.advance(late) is TickAnswer.LOST
        assert not await store.set_schedule(pausing(removed, at.now, is_paused=True), at.chance.uuid4())
        assert await read(at) == again
        assert not await at.store.list(at.everything)

    @story
    @needs(Scheduling, refused)
    async def test_the_job_of_a_tick_is_not_enqueued_again(self, at: Scene) -> None:
        await written(at)
        at.advance(60.0 + EARLY)
        fired = await move(at)
        assert fired.job is not None
        assert await store_defaults.scheduling(at.store).advance(fired) is TickAnswer.FIRED
        assert await at.store.enqueue(fired.job.id, [fired.job]) == EnqueueAnswer()
        assert len(await at.store.list(at.everything)) == 1

"""Queues: pausing, purging and looking at them."""

from holdfast._core.answers import QueueView
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import Part, Scene, done, raised, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)


class QueueContract(Part):
    """What pause, purge and their readers promise."""

    @story
    async def test_claims_leave_a_paused_queue_alone_until_it_goes_on(self, at: Scene) -> None:
        paused, other = await at.enqueue(at.new(queue="a", priority=-1), at.new(queue="b"))
        lease = await at.lease()
        await at.store.pause(["a"], is_paused=True)
        assert await at.claim(lease, 10, queues=("a",)) == ()
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [other]
        (late,) = await at.enqueue(at.new(queue="a"))
        assert await at.claim(lease, 10, prefetch=5) == ()
        await at.store.pause(["a"], is_paused=False)
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [paused, late]

    @story
    async def test_every_handle_leaves_a_paused_queue_alone(self, at: Scene) -> None:
        await at.enqueue(at.new(queue="a"))
        await at.store.pause(["a"], is_paused=True)
        assert (await at.another().exchange((), at.request(await at.lease(), 10))).claims == ()

    @story
    async def test_jobs_that_run_in_a_paused_queue_go_on(self, at: Scene) -> None:
        job = await at.running()
        queue = (await at.row(job.id)).queue
        await at.store.pause([queue], is_paused=True)
        assert (await at.store.beat([job.lease])).alive == {job.lease}
        await at.settle(raised(job))
        at.advance(10.0)
        assert await at.state(job.id) is State.AVAILABLE
        assert await at.claim(job.lease, queues=(queue,)) == ()

    @story
    async def test_next_due_ignores_paused_queues(self, at: Scene) -> None:
        await at.enqueue(at.new(queue="a"))
        await at.store.pause(["a", "none"], is_paused=True)
        assert await at.store.next_due(["task"]) is None
        assert await at.store.next_due(["task"], ("a",)) is None
        await at.enqueue(at.new(queue="b"))
        assert await at.store.next_due(["task"]) == 0.0
        await at.store.pause(["b", "a"], is_paused=False)
        assert await at.store.next_due(["task"], ("a",)) == 0.0

    @story
    async def test_pausing_twice_keeps_the_first_time_and_other_queues(self, at: Scene) -> None:
        await at.store.pause(["a", "b"], is_paused=True)
        paused_at = at.now
        at.advance(5.0)
        await at.store.pause(["a", "a"], is_paused=True)
        assert await at.store.queues() == tuple(QueueView(name=name, paused_at=paused_at) for name in "ab")
        await at.store.pause(["a", "c"], is_paused=False)
        await at.store.pause(["a"], is_paused=False)
        await at.store.pause([], is_paused=False)
        assert await at.store.queues() == (QueueView(name="b", paused_at=paused_at),)
        await at.store.pause(["a"], is_paused=True)
        assert (await at.store.queues())[0] == QueueView(name="a", paused_at=at.now)

    @story
    async def test_queues_are_listed_by_name_with_what_is_in_them(self, at: Scene) -> None:
        assert await at.store.queues() == ()
        await at.enqueue(at.new(queue="b"), at.new(queue="b", delay=9.0), at.new(queue="a"), at.new(queue="b", task="other"))
        job = await at.running()
        queue = (await at.row(job.id)).queue
        await at.settle(done(job))
        await at.store.pause(["b", "z"], is_paused=True)
        views = {view.name: view for view in await at.store.queues()}
        assert list(views) == sorted(["a", "b", queue, "z"])
        assert views["a"] == QueueView(name="a", counts={State.AVAILABLE: 1})
        counts = {State.AVAILABLE: 2, State.SCHEDULED: 1}
        assert views["b"] == QueueView(name="b", paused_at=at.now, counts=counts)
        assert views["z"] == QueueView(name="z", paused_at=at.now)
        assert views[queue].counts == {State.COMPLETED: 1}

    @story
    async def test_waiting_tasks_are_those_of_jobs_in_line_due_or_not(self, at: Scene) -> None:
        assert await store_defaults.waiting_tasks(at.store) == ()
        held = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
        await at.store.end_lease(held.lease, CRASH)
        await at.settle(rescued(held, CRASH))
        await at.running()
        (gone,) = await at.enqueue(at.new(task="gone"))
        await at.store.request_cancel([gone])
        assert await store_defaults.waiting_tasks(at.store) == ()
        tasks = ("b", "a", "b", "ä", "B")
        await at.enqueue(*(at.new(task=task, queue=str(place), delay=place * 5.0) for place, task in enumerate(tasks)))
        await at.store.pause(["1"], is_paused=True)
        assert await store_defaults.waiting_tasks(at.store) == ("B", "a", "b", "ä")
        await store_defaults.purge(at.store, "1", 10)
        assert await store_defaults.waiting_tasks(at.store) == ("B", "b", "ä")

    @story
    async def test_a_purge_deletes_what_waits_in_the_queue_and_nothing_else(self, at: Scene) -> None:
        running, finished, held = (
            await at.running(),
            await at.running(),
            await at.running(policy=Policy(on_crash=CrashPolicy.HOLD)),
        )
        await at.settle(done(finished))
        await at.store.end_lease(held.lease, CRASH)
        await at.settle(rescued(held, CRASH))
        kept = [running.id, finished.id, held.id]
        for job in kept:
            queue = (await at.row(job)).queue
            waiting = await at.enqueue(at.new(queue=queue), at.new(queue=queue, delay=60.0, payload=b"x" * 2000))
            (other,) = await at.enqueue(at.new(queue="other"))
            assert (await store_defaults.purge(at.store, queue, 10)).jobs == 2
            assert [await at.store.get(each) for each in waiting] == [None, None]
            assert await at.state(job) is not State.AVAILABLE
            assert await at.state(other) is State.AVAILABLE
            assert (await store_defaults.purge(at.store, queue, 10)).jobs == 0

    @story
    async def test_a_purge_deletes_no_more_than_asked(self, at: Scene) -> None:
        await at.enqueue(*(at.new(priority=number % 3, task="ab"[number % 2]) for number in range(10)))
        left = 10
        for limit, gone in ((0, 0), (4, 4), (4, 4), (4, 2), (4, 0)):
            left -= gone
            assert (await store_defaults.purge(at.store, "default", limit)).jobs == gone
            assert sum((await at.store.counts()).values()) == left
        assert (await store_defaults.purge(at.store, "none", 10)).jobs == 0

    @story
    async def test_a_purge_leaves_what_is_enqueued_after_its_first_answer(self, at: Scene) -> None:
        await at.enqueue(*(at.new(priority=1) for _ in range(5)))
        at.advance(1.0)
        first = await store_defaults.purge(at.store, "default", 2)
        at.advance(1.0)
        later = await at.enqueue(at.new(), at.new(priority=2))
        batches = [await store_defaults.purge(at.store, "default", 2, first.until) for _ in range(3)]
        assert [first.jobs, *(each.jobs for each in batches)] == [2, 2, 1, 0]
        assert {each.until for each in batches} == {first.until}
        assert [await at.state(job) for job in later] == [State.AVAILABLE] * 2
        assert (await store_defaults.purge(at.store, "default", 10)).jobs == 2

    @story
    async def test_jobs_that_are_held_take_no_place_in_a_purge(self, at: Scene) -> None:
        held = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
        await at.store.end_lease(held.lease, CRASH)
        await at.settle(rescued(held, CRASH))
        queue = (await at.row(held.id)).queue
        await at.enqueue(at.new(queue=queue))
        assert [(await store_defaults.purge(at.store, queue, 1)).jobs for _ in range(2)] == [1, 0]
        assert await at.state(held.id) is State.HELD

    @story
    async def test_a_purged_job_has_left_no_trace(self, at: Scene) -> None:
        job = await at.running()
        queue = (await at.row(job.id)).queue
        await at.settle(raised(job))
        assert (await store_defaults.purge(at.store, queue, 10)).jobs == 1
        assert await at.store.get(job.id) is None
        assert (await at.settle(raised(job)))[0].value == "missing"
        assert await at.store.queues() == ()

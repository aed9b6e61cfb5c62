"""Leases: which worker may hold jobs, until when, and how that ends."""

from uuid import UUID

from msgspec import structs

from holdfast._core.answers import LeaseView
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import store_defaults
from holdfast._ports.draining import Draining
from holdfast.errors import Unsupported
from holdfast.testing.contracts.scene import EARLY, PROCESS, TTL, Part, Scene, done, needs, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL", stacks="…")
CLOSED = LeaseEnd(RescueReason.CLOSED, is_free=True, charged_jobs={UUID(int=7): RescueReason.UNRESPONSIVE})


async def is_elapsed(at: Scene, leases: list[UUID], seconds: float) -> bool:
    """Beat, and return whether the answer has the time since the beats before; a store without a clock may have none."""
    elapsed = (await at.store.beat(leases)).elapsed
    if elapsed is None:
        return at.store.capabilities.lease_clock == "none"
    return abs(elapsed - seconds) < EARLY


async def refuses_drains(at: Scene) -> None:
    """Check that a store that cannot pass on a drain is known as such."""
    try:
        store_defaults.draining(at.store)
    except Unsupported:
        return
    raise AssertionError("a store that cannot pass on a drain offers it")


async def view_of(at: Scene, lease: object) -> LeaseView:
    """Read the view of a lease."""
    views = {view.id: view for view in (*await at.store.workers(), *await at.store.expired(100))}
    (view,) = (view for view in views.values() if view.id == lease)
    return view


class LeaseContract(Part):
    """What owners, and the supervisors that judge them, are promised."""

    @story
    async def test_why_a_lease_ended_is_kept_for_each_lease(self, at: Scene) -> None:
        crash, close = LeaseEnd(RescueReason.CRASHED, "SIGKILL"), LeaseEnd(RescueReason.CLOSED)
        crashed, closed, alive = [await at.lease() for _ in range(3)]
        await at.store.end_lease(crashed, crash)
        await at.store.end_lease(closed, close)
        answers = [
            await at.store.end_lease(lease, LeaseEnd(RescueReason.EXPIRED), seen="never") for lease in (crashed, closed, alive)
        ]
        assert answers == [crash, close, None]

    @story
    async def test_an_open_lease_is_read_as_it_was_opened(self, at: Scene) -> None:
        process = ProcessIdentity("web-1", 42, 7, "boot", "pid:[1]", "time:[1]")
        lease = NewLease(at.chance.uuid4(), "web-1-42", process, LeaseTiming(10.0, 2.0, 1.5), ("a", "b"), ("c",))
        assert await at.store.open_lease(lease)
        at.advance(4.0)
        (view,) = await at.store.workers()
        assert (view.id, view.worker, view.process, view.timing) == (lease.id, "web-1-42", process, lease.timing)
        assert (view.queues, view.tasks, view.holds, view.is_draining, view.end) == (("a", "b"), ("c",), 0, False, None)
        assert abs(view.overdue + 6.0) < EARLY
        assert abs(view.age - 4.0) < EARLY

    @story
    async def test_a_second_copy_of_an_opening_renews_the_lease(self, at: Scene) -> None:
        lease = at.new_lease()
        assert await at.store.open_lease(lease)
        at.advance(TTL + 5.0)
        assert await at.store.open_lease(lease)
        assert abs((await view_of(at, lease.id)).overdue + TTL) < EARLY
        assert len(await at.store.workers()) == 1
        at.advance(2.0)
        assert await is_elapsed(at, [lease.id], 2.0)

    @story
    @needs(Draining, refuses_drains)
    async def test_the_next_beat_answers_that_an_operator_wants_the_worker_to_drain(self, at: Scene) -> None:
        verbs, (asked, other) = store_defaults.draining(at.store), [await at.lease() for _ in range(2)]
        assert (await at.store.beat([asked, other])).draining == frozenset()
        assert [await verbs.request_drain(asked) for _ in range(2)] == [True, True]
        assert [(await view_of(at, each)).is_draining for each in (asked, other)] == [True, False]
        for _ in range(2):
            answer = await at.store.beat([asked, other])
            assert answer.alive == {asked, other}
            assert answer.draining == {asked}
        assert (await at.store.beat([other], draining=True)).draining == {other}
        ended = await at.store.end_lease(asked, CRASH)
        assert ended is not None
        assert ended.is_free
        assert not await verbs.request_drain(asked)
        crashed = await at.lease()
        await at.store.end_lease(crashed, CRASH)
        assert not await verbs.request_drain(crashed)
        assert await at.store.end_lease(crashed, CRASH) == CRASH
        assert not await verbs.request_drain(at.chance.uuid4())
        assert (await at.store.beat([asked])).gone == {asked}

    @story
    async def test_a_lease_that_has_ended_never_opens_again(self, at: Scene) -> None:
        lease = at.new_lease()
        await at.store.open_lease(lease)
        await at.store.end_lease(lease.id, CRASH)
        assert not await at.store.open_lease(lease)
        assert await at.store.workers() == ()
        unborn = at.new_lease()
        assert await at.store.end_lease(unborn.id, CRASH) == CRASH
        assert not await at.store.open_lease(unborn)
        assert (await at.store.beat([unborn.id])).gone == {unborn.id}

    @story
    async def test_a_beat_renews_those_that_live_and_names_those_that_are_gone(self, at: Scene) -> None:
        alive, ended, unknown = await at.lease(), await at.lease(), at.chance.uuid4()
        await at.store.end_lease(ended, CRASH)
        at.advance(10.0)
        answer = await at.store.beat([alive, ended, unknown])
        assert (set(answer.alive), set(answer.gone), answer.cancelled) == ({alive}, {ended, unknown}, {})
        assert abs((await view_of(at, alive)).overdue + TTL) < EARLY

    @story
    async def test_an_expired_lease_that_was_not_ended_lives_on(self, at: Scene) -> None:
        job = await at.running()
        at.advance(TTL * 10)
        assert (await at.store.beat([job.lease])).alive == {job.lease}
        assert await at.store.expired(10) == ()
        assert await at.store.held(job.lease) == (job,)

    @story
    async def test_a_beat_returns_the_time_since_the_oldest_beat_before(self, at: Scene) -> None:
        first = await at.lease()
        at.advance(5.0)
        second = await at.lease()
        at.advance(2.0)
        assert await is_elapsed(at, [first, second], 7.0)
        at.advance(3.0)
        assert await is_elapsed(at, [first, second], 3.0)
        await at.store.end_lease(first, CRASH)
        assert (await at.store.beat([first])).elapsed is None
        assert (await at.store.beat([])).elapsed is None

    @story
    async def test_a_beat_returns_which_jobs_an_operator_cancelled(self, at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue(*(at.new() for _ in range(3)))
        claims = await at.claim(lease, 2, prefetch=1)
        other = await at.running()
        marked = [claims[0].job.id, claims[2].job.id]
        await at.store.request_cancel([*marked, other.id])
        assert (await at.store.beat([lease])).cancelled == {lease: tuple(marked)}
        await at.settle(done(claims[0].job))
        assert (await at.store.beat([lease, other.lease])).cancelled == {lease: (marked[1],), other.lease: (other.id,)}

    @story
    async def test_a_lease_that_drains_stays_draining(self, at: Scene) -> None:
        lease, other = await at.lease(), await at.lease()
        await at.store.beat([lease], draining=True)
        await at.store.beat([lease, other])
        assert [(await view_of(at, each)).is_draining for each in (lease, other)] == [True, False]

    @story
    async def test_l7_a_lease_that_drains_ends_free_even_if_the_caller_did_not_know_that_it_drains(self, at: Scene) -> None:
        lease, other = await at.lease(), await at.lease()
        for each in (lease, other):
            await at.enqueue(at.new())
            await at.claim(each)
        await at.store.beat([lease], draining=True)
        for each in (lease, other):
            ended = await at.store.end_lease(each, CRASH)
            assert ended == structs.replace(CRASH, is_free=each == lease)
            assert (await at.store.end_lease(each, LeaseEnd(RescueReason.EXPIRED))) == ended
            assert (await view_of(at, each)).end == ended

    @story
    async def test_the_version_of_a_lease_changes_with_every_beat(self, at: Scene) -> None:
        lease = at.new_lease()
        await at.store.open_lease(lease)
        seen = [(await view_of(at, lease.id)).seen]
        for _ in range(2):
            await at.store.beat([lease.id])
            seen.append((await view_of(at, lease.id)).seen)
        await at.store.open_lease(lease)
        seen.append((await view_of(at, lease.id)).seen)
        at.advance(1.0)
        assert (await view_of(at, lease.id)).seen == seen[-1]
        assert len(set(seen)) == 4

    @story
    async def test_a_lease_ends_once_and_for_the_first_reason(self, at: Scene) -> None:
        job = await at.running()
        assert await at.store.end_lease(job.lease, CRASH) == CRASH
        assert await at.store.end_lease(job.lease, CLOSED) == CRASH
        assert await at.store.end_lease(job.lease, CLOSED, seen="whatever") == CRASH
        (view,) = await at.store.expired(10)
        assert (view.id, view.end, view.holds, view.worker) == (job.lease, CRASH, 1, "worker")
        at.advance(1.0)
        assert (await at.store.beat([job.lease], draining=True)).gone == {job.lease}
        (after,) = await at.store.expired(10)
        assert (after.seen, after.is_draining) == (view.seen, False)
        assert abs(after.overdue - view.overdue - 1.0) < EARLY
        assert await at.store.workers() == ()

    @story
    async def test_jobs_of_a_lease_that_has_ended_stay_until_they_are_moved(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        assert await at.store.held(job.lease) == (job,)
        assert await at.state(job.id) is State.RUNNING
        await at.settle(rescued(job, CRASH))
        assert await at.store.held(job.lease) == ()
        assert await at.store.expired(10) == ()

    @story
    async def test_a_judge_ends_a_lease_only_while_it_is_unchanged_and_past_its_expiry(self, at: Scene) -> None:
        lease = await at.lease()
        seen = (await view_of(at, lease)).seen
        assert await at.store.end_lease(lease, CRASH, seen=seen) is None
        at.advance(TTL)
        assert await at.store.end_lease(lease, CRASH, seen=seen) is None
        await at.store.beat([lease])
        at.advance(TTL + EARLY)
        assert await at.store.end_lease(lease, CRASH, seen=seen) is None
        (view,) = await at.store.expired(10)
        assert view.id == lease
        assert view.end is None
        assert await at.store.end_lease(lease, CRASH, seen=view.seen) == CRASH
        assert (await at.store.beat([lease])).gone == {lease}

    @story
    async def test_the_late_beat_of_an_ended_lease_reports_that_it_ended(self, at: Scene) -> None:
        job = await at.running()
        at.advance(TTL + 1.0)
        (view,) = await at.store.expired(10)
        assert await at.store.end_lease(job.lease, LeaseEnd(RescueReason.EXPIRED), seen=view.seen) == LeaseEnd(
            RescueReason.EXPIRED
        )
        assert (await at.store.beat([job.lease])).gone == {job.lease}
        assert await at.claim(job.lease) == ()

    @story
    async def test_expired_names_the_overdue_and_the_ended_that_still_hold_jobs(self, at: Scene) -> None:
        ended, overdue, short = await at.running(), await at.running(), await at.lease(ttl=10.0)
        await at.store.end_lease(await at.lease(), CRASH)
        at.advance(TTL)
        fresh = await at.running()
        for limit in (10, 1):
            assert [view.id for view in await at.store.expired(limit)] == [short]
        at.advance(1.0)
        await at.store.end_lease(ended.lease, CRASH)
        views = await at.store.expired(10)
        assert [view.id for view in views] == [ended.lease, short, overdue.lease]
        assert [view.holds for view in views] == [1, 0, 1]
        assert [abs(view.overdue - late) < EARLY for view, late in zip(views, (1.0, 21.0, 1.0), strict=True)] == [True] * 3
        assert [view.id for view in await at.store.expired(2)] == [ended.lease, short]
        assert await at.store.expired(0) == ()
        assert fresh.lease in {view.id for view in await at.store.workers()}

    @story
    async def test_a_lease_is_alive_until_the_very_end_of_its_ttl(self, at: Scene) -> None:
        lease = await at.lease()
        at.advance(TTL)
        assert await at.store.expired(10) == ()
        at.advance(EARLY)
        assert [view.id for view in await at.store.expired(10)] == [lease]

    @story
    async def test_no_wall_clock_decides_about_a_lease(self, at: Scene) -> None:
        lease = await at.lease()
        at.clock.step_wall(86_400.0)
        assert await at.store.expired(10) == ()
        at.clock.step_wall(-2 * 86_400.0)
        at.advance(TTL + EARLY)
        assert [view.id for view in await at.store.expired(10)] == [lease]

    @story
    async def test_held_lists_what_a_lease_owns_longest_first(self, at: Scene) -> None:
        lease = await at.lease()
        await at.running()
        first, second, third, fourth = await at.enqueue(at.new(priority=3), at.new(priority=2), at.new(priority=1), at.new())
        jobs = [claim.job for _ in range(4) for claim in await at.claim(lease)]
        assert [job.id for job in jobs] == [fourth, third, second, first]
        assert await at.store.held(lease) == tuple(jobs)
        assert await at.store.held(lease, 2) == tuple(jobs[:2])
        await at.store.request_cancel([third])
        await at.settle(done(jobs[0]))
        marked = structs.replace(jobs[1], cancel_requested=True)
        assert await at.store.held(lease) == (marked, *jobs[2:])
        assert await at.store.held(at.chance.uuid4()) == ()

    @story
    async def test_workers_are_those_that_have_not_ended_oldest_first(self, at: Scene) -> None:
        leases = []
        for number in range(4):
            leases.append(await at.lease(worker=f"w{number}"))
            at.advance(1.0)
        await at.store.end_lease(leases[1], CLOSED)
        await at.enqueue(at.new(), at.new())
        await at.claim(leases[2], 2)
        at.advance(TTL)
        views = await at.store.workers()
        assert [view.worker for view in views] == ["w0", "w2", "w3"]
        assert [view.holds for view in views] == [0, 2, 0]
        assert all(view.overdue > 0 and view.process == PROCESS for view in views)

"""Jobs that are claimed ahead: one write on the lease starts many, and a void takes the right to start them away."""

import asyncio

from holdfast._core.answers import Answer, LeaseView
from holdfast._core.job import ActiveJob, AttemptOutcome, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, deadline_exceeded_elsewhere
from holdfast._core.outcome import Retry
from holdfast._core.policy import RETENTION_FLOOR, CrashPolicy, Policy
from holdfast._core.requests import JobFilter, ProgressUpdate
from holdfast._engine import store_defaults
from holdfast._ports.prefetching import Prefetching
from holdfast._ports.store import Store
from holdfast.testing.contracts.scene import (
    Part,
    Scene,
    answered,
    done,
    needs,
    raised,
    released,
    rescued,
    story,
)

CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
LIMITED = Policy(timeout=5.0)


async def not_claimed_ahead(at: Scene) -> None:
    """Check that the engine claims nothing ahead on a store without these verbs."""
    assert not store_defaults.prefetches(at.store)


def verbs(store: Store) -> Prefetching:
    """Return the store as one that has the verbs."""
    return store_defaults.prefetching(store)


async def ahead(at: Scene, number: int = 4, *, policy: Policy | None = None) -> list[ActiveJob]:
    """Claim new jobs under a new lease, without starting them."""
    queue = str(at.chance.uuid4())
    await at.enqueue(*(at.new(queue=queue) for _ in range(number)))
    return [claim.job for claim in await at.claim(await at.lease(), 0, prefetch=number, queues=(queue,), policy=policy)]


async def begin(at: Scene, job: ActiveJob, voids: int = 0) -> bool:
    """Start the jobs of its lease through this one."""
    return await verbs(at.store).start_through(job.lease, job.token.number, voids)


async def states(at: Scene, jobs: list[ActiveJob]) -> list[State]:
    """Read the state of each job."""
    return [await at.state(job.id) for job in jobs]


async def lease_of(at: Scene, job: ActiveJob) -> LeaseView:
    """Read the lease of the job."""
    views = {view.id: view for view in (*await at.store.workers(), *await at.store.expired(100))}
    return views[job.lease]


class PrefetchContract(Part):
    """What is promised to jobs that a worker has claimed before it has a free slot for them."""

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_jobs_start_together_through_a_number(self, at: Scene) -> None:
        jobs = await ahead(at)
        at.advance(0.5)
        assert await begin(at, jobs[1])
        assert await states(at, jobs) == [State.RUNNING, State.RUNNING, State.CLAIMED, State.CLAIMED]
        first, last = await at.row(jobs[0].id), await at.row(jobs[3].id)
        assert (first.attempt, first.started_at) == (1, first.claimed_at)
        assert (last.attempt, last.started_at) == (0, None)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_every_verb_that_reads_shows_a_started_job_as_running(self, at: Scene) -> None:
        jobs = await ahead(at)
        await begin(at, jobs[2])
        held = await at.store.held(jobs[0].lease)
        assert [(job.state, job.attempt) for job in held] == [(State.RUNNING, 1)] * 3 + [(State.CLAIMED, 0)]
        assert await at.store.counts() == {("", State.RUNNING): 3, ("", State.CLAIMED): 1}
        (queue,) = await at.store.queues()
        assert queue.counts == {State.RUNNING: 3, State.CLAIMED: 1}
        ids = [job.id for job in jobs]
        running = await at.store.list(JobFilter(state=State.RUNNING, attempts_at_least=1))
        assert {row.id for row in running} == set(ids[:3])
        expected = dict(zip(ids, [State.RUNNING] * 3 + [State.CLAIMED], strict=True))
        for verb in (at.store.request_cancel, at.store.reschedule, at.store.delete):
            assert await verb(ids) == expected
        assert (await at.store.reopen(ids)).states == expected
        view = await lease_of(at, jobs[0])
        assert (view.holds, view.claimed) == (4, 1)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_job_that_ran_before_the_start_of_later_ones_counts_one_attempt(self, at: Scene) -> None:
        lease, _ = await at.lease(), await at.enqueue(*(at.new() for _ in range(4)))
        claims = await at.claim(lease, 1, prefetch=3)
        assert (await lease_of(at, claims[0].job)).claimed == 3
        await begin(at, claims[2].job)
        held = await at.store.held(lease)
        assert [(job.state, job.attempt) for job in held] == [(State.RUNNING, 1)] * 3 + [(State.CLAIMED, 0)]
        await at.store.end_lease(lease, CRASH)
        assert (await lease_of(at, claims[0].job)).claimed == 1

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_starting_is_repeatable_and_never_goes_back(self, at: Scene) -> None:
        jobs = await ahead(at)
        for job in (jobs[2], jobs[2], jobs[0]):
            assert await begin(at, job)
        assert await states(at, jobs) == [State.RUNNING] * 3 + [State.CLAIMED]
        assert (await at.row(jobs[0].id)).attempt == 1
        assert await at.store.start([(job.id, job.token) for job in jobs]) == frozenset()
        row = await at.row(jobs[0].id)
        assert (row.attempt, row.started_at) == (1, row.claimed_at)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_later_claim_of_the_lease_is_not_started_with_the_earlier_ones(self, at: Scene) -> None:
        jobs = await ahead(at)
        await begin(at, jobs[-1])
        (job,) = await at.enqueue(at.new())
        (claim,) = await at.claim(jobs[0].lease, 0, prefetch=1, queues=("default",))
        assert (claim.job.id, await at.state(job)) == (job, State.CLAIMED)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s3_an_ended_or_unknown_lease_starts_nothing(self, at: Scene) -> None:
        jobs = await ahead(at)
        await at.store.end_lease(jobs[0].lease, CRASH)
        assert not await begin(at, jobs[-1])
        assert await states(at, jobs) == [State.CLAIMED] * 4
        assert await verbs(at.store).void(jobs[0].lease, 1) is None
        unknown = at.chance.uuid4()
        assert not await verbs(at.store).start_through(unknown, 1, 0)
        assert await verbs(at.store).void(unknown, 1) is None

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_outcomes_of_started_jobs_count_the_attempt(self, at: Scene) -> None:
        jobs = await ahead(at, 5)
        await begin(at, jobs[-1])
        assert await at.settle(done(jobs[0])) == (Answer.APPLIED,)
        (waiting,) = await at.enqueue(at.new())
        answer = await at.exchange(done(jobs[1]), at.request(jobs[0].lease))
        assert (answer.answers, [claim.job.id for claim in answer.claims]) == ((Answer.APPLIED,), [waiting])
        for job in jobs[:2]:
            row = await at.row(job.id)
            assert (row.state, row.attempt, row.started_at) == (State.COMPLETED, 1, row.claimed_at)
        assert await at.settle(raised(jobs[2]), released(jobs[3], code_ran=True)) == (Answer.APPLIED,) * 2
        for job, outcome in ((jobs[2], AttemptOutcome.FAILED), (jobs[3], AttemptOutcome.RELEASED)):
            row = await at.row(job.id)
            assert (row.attempt, [(each.attempt, each.outcome) for each in row.attempts]) == (1, [(1, outcome)])
            assert row.attempts[0].started_at is not None
        rescue = (await at.row(jobs[3].id)).rescue
        assert rescue is not None
        assert rescue.attempt == 1

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s26_a_started_job_whose_code_did_not_run_is_charged_nothing(self, at: Scene) -> None:
        jobs = await ahead(at)
        before = [await at.row(job.id) for job in jobs]
        await begin(at, jobs[1])
        assert set(await at.settle(*map(released, jobs))) == {Answer.APPLIED}
        for row, job in zip(before, jobs, strict=True):
            after = await at.row(job.id)
            assert (after.state, after.attempt, after.attempts) == (State.AVAILABLE, 0, ())
            assert (after.available_at, after.failures, after.crashes) == (row.available_at, 0, 0)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s26_a_rescue_charges_what_was_started_and_frees_the_rest(self, at: Scene) -> None:
        for on_crash, state in ((CrashPolicy.RETRY, State.AVAILABLE), (CrashPolicy.HOLD, State.HELD)):
            jobs = await ahead(at, policy=Policy(on_crash=on_crash))
            await begin(at, jobs[1])
            await at.store.end_lease(jobs[0].lease, CRASH)
            held = await at.store.held(jobs[0].lease)
            assert set(await at.settle(*(rescued(job, CRASH) for job in held))) == {Answer.APPLIED}
            rows = [await at.row(job.id) for job in jobs]
            assert [(row.state, row.attempt, row.crashes) for row in rows] == [(state, 1, 1)] * 2 + [(State.AVAILABLE, 0, 0)] * 2
            assert [[each.outcome for each in row.attempts] for row in rows] == [[AttemptOutcome.CRASHED]] * 2 + [[]] * 2

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_the_clocks_of_a_started_job_run_since_its_claim(self, at: Scene) -> None:
        (other,) = await ahead(at, 1, policy=LIMITED)
        jobs = await ahead(at, 2, policy=LIMITED)
        await begin(at, jobs[0])
        view = await lease_of(at, jobs[0])
        at.advance(5.0 + view.timing.ttl + view.grace - 1.0)
        await at.store.beat([jobs[0].lease, other.lease])
        assert await at.store.overdue(10) == ()
        at.advance(2.0)
        (late,) = await at.store.overdue(10)
        assert (late.job.id, late.job.state, late.job.attempt) == (jobs[0].id, State.RUNNING, 1)
        moves = [deadline_exceeded_elsewhere(job, late.charge, jitter=0.0) for job in (jobs[1], late.job)]
        assert await at.settle(*moves) == (Answer.LOST, Answer.APPLIED)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_start_that_is_written_twice_takes_no_progress_back(self, at: Scene) -> None:
        (job,) = await ahead(at, 1, policy=Policy(progress_within=5.0))
        await begin(at, job)
        at.advance(4.0)
        await at.store.report([ProgressUpdate(job=job.id, token=job.token, stage="s")])
        assert await at.store.start([(job.id, job.token)]) == frozenset()
        view = await lease_of(at, job)
        at.advance(5.0 + view.timing.ttl + view.grace - 1.0)
        await at.store.beat([job.lease])
        assert await at.store.overdue(10) == ()
        at.advance(2.0)
        assert [late.job.id for late in await at.store.overdue(10)] == [job.id]

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_start_on_one_lease_starts_no_job_of_another(self, at: Scene) -> None:
        (other,), (job,) = await ahead(at, 1), await ahead(at, 1)
        assert await begin(at, job)
        assert not await begin(at, other, voids=1)
        assert await states(at, [other, job]) == [State.CLAIMED, State.RUNNING]
        for _ in range(2):
            views = {each.id: each.claimed for each in (*await at.store.workers(), *await at.store.expired(10))}
            assert [views[each.lease] for each in (other, job)] == [1, 0]
            for each in (other, job):
                await at.store.end_lease(each.lease, CRASH)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_job_that_ran_before_does_not_expire_after_a_free_release(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(expires_in=5.0))
        (first,) = await at.claim(await at.lease(), 0, prefetch=1)
        await begin(at, first.job)
        await at.settle(answered(first.job, Retry(after="0s")))
        (again,) = await at.claim(await at.lease(), 0, prefetch=1)
        await begin(at, again.job)
        await at.settle(released(again.job))
        at.advance(6.0)
        assert await at.store.expire(10) == ()
        assert [claim.job.id for claim in await at.claim(await at.lease())] == [job]

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_job_that_never_ran_expires_after_a_free_release(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(expires_in=5.0))
        (claim,) = await at.claim(await at.lease(), 0, prefetch=1)
        await begin(at, claim.job)
        await at.settle(released(claim.job))
        at.advance(6.0)
        assert [each.job for each in await at.store.expire(10)] == [job]

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_the_starts_of_an_ended_lease_are_pruned_with_it(self, at: Scene) -> None:
        (job,), (other,), idle = await ahead(at, 1), await ahead(at, 1), await at.lease()
        assert await begin(at, job)
        assert await begin(at, other)
        await at.settle(done(job))
        for lease in (job.lease, idle):
            await at.store.end_lease(lease, CRASH)
        at.advance(RETENTION_FLOOR + 1.0)
        assert (await at.store.prune(10)).leases == 2
        assert (await at.store.prune(10)).leases == 0
        assert await at.state(other.id) is State.RUNNING

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_lease_that_ends_starts_all_or_nothing(self, at: Scene) -> None:
        owner, judge = at.another(), at.another()
        for _ in range(10):
            jobs = await ahead(at, 3)
            is_begun, _ = await asyncio.gather(begin_through(owner, jobs[-1]), judge.end_lease(jobs[0].lease, CRASH))
            assert await states(at, jobs) == [State.RUNNING if is_begun else State.CLAIMED] * 3


async def begin_through(store: Store, job: ActiveJob) -> bool:
    """Start the jobs of its lease through this one, from this store."""
    return await verbs(store).start_through(job.lease, job.token.number, 0)

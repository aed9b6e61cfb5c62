"""Limits: jobs that do not move, or run too long, judged by supervisors long after their owner should have acted."""

from msgspec import structs

from holdfast._core.answers import Answer, OverdueJob
from holdfast._core.job import ActiveJob, AttemptOutcome, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Precondition, Transition, deadline_exceeded_elsewhere
from holdfast._core.policy import Backoff, Policy
from holdfast._core.requests import ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast.testing.contracts.scene import EARLY, TTL, Part, Scene, done, raised, released, stale, story

GRACE, LIMIT = 7.0, 60.0
LATEST = LIMIT + TTL + GRACE
LIMITS = {
    RescueReason.STALLED: Policy(progress_within=LIMIT, backoff=Backoff.fixed("5s")),
    RescueReason.TIMED_OUT: Policy(timeout=LIMIT, backoff=Backoff.fixed("5s")),
}


async def started(at: Scene, policy: Policy, *, grace: float = GRACE, worker: str = "worker") -> ActiveJob:
    """Start a job under a new lease with that grace. No supervisor judges this lease: only the test ends it."""
    lease = structs.replace(at.new_lease(worker=worker), grace=grace)
    await at.store.open_lease(lease)
    job = at.new(queue=str(lease.id))
    await at.enqueue(job)
    (claim,) = await at.claim(lease.id, queues=(job.queue,), policy=policy)
    return claim.job


def seen(job: ActiveJob, charge: RescueReason) -> Transition:
    """Make the transition by which another supervisor rescues a job that has passed this limit."""
    return deadline_exceeded_elsewhere(job, charge, jitter=0.0)


async def overdue(at: Scene) -> list[tuple[ActiveJob, RescueReason]]:
    """List the overdue jobs, each with the limit that it passed."""
    return [(each.job, each.charge) for each in await at.store.overdue(100)]


class LimitContract(Part):
    """What ``progress_within`` and ``timeout`` promise to the supervisors that judge."""

    @story
    async def test_a_job_is_overdue_once_ttl_and_grace_of_its_lease_have_passed_after_its_limit(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job = await started(at, policy, worker="web-1-42-0000abcd")
            at.advance(LATEST)
            assert await at.store.overdue(10) == ()
            at.advance(EARLY)
            assert await at.store.overdue(10) == (OverdueJob(job, "web-1-42-0000abcd", charge, LeaseTiming.of(TTL)),)
            await at.settle(done(job))
            assert await at.store.overdue(10) == ()

    @story
    async def test_grace_and_ttl_are_those_of_its_lease(self, at: Scene) -> None:
        patient = await started(at, LIMITS[RescueReason.TIMED_OUT], grace=100.0)
        hasty = await started(at, LIMITS[RescueReason.TIMED_OUT], grace=0.0)
        at.advance(LIMIT + TTL + EARLY)
        assert await overdue(at) == [(hasty, RescueReason.TIMED_OUT)]
        at.advance(100.0)
        assert await overdue(at) == [(hasty, RescueReason.TIMED_OUT), (patient, RescueReason.TIMED_OUT)]

    @story
    async def test_a_task_without_limits_is_never_overdue(self, at: Scene) -> None:
        job = await started(at, Policy())
        at.advance(1e6)
        assert await at.store.overdue(10) == ()
        for charge in LIMITS:
            assert await at.settle(seen(job, charge)) == (Answer.LOST,)
        assert await at.state(job.id) is State.RUNNING

    @story
    async def test_every_report_is_a_sign_of_progress_and_no_beat_is(self, at: Scene) -> None:
        job, limited = await started(at, LIMITS[RescueReason.STALLED]), await started(at, LIMITS[RescueReason.TIMED_OUT])
        at.advance(LATEST)
        update = ProgressUpdate(job=job.id, token=job.token)
        for report in (update, structs.replace(update, stage="walk"), structs.replace(update, checkpoint=b"1")):
            await at.store.report([report, structs.replace(report, job=limited.id, token=limited.token)])
            assert job.id not in [each.job.id for each in await at.store.overdue(10)]
            at.advance(LATEST)
            await at.store.beat([job.lease, limited.lease])
        assert await overdue(at) == [(limited, RescueReason.TIMED_OUT)]
        at.advance(EARLY)
        assert await overdue(at) == [(limited, RescueReason.TIMED_OUT), (job, RescueReason.STALLED)]

    @story
    async def test_a_report_that_was_lost_does_not_count_as_progress(self, at: Scene) -> None:
        job = await started(at, LIMITS[RescueReason.STALLED])
        at.advance(LATEST)
        await at.store.report([ProgressUpdate(job=job.id, token=stale(job.token), stage="walk")])
        at.advance(EARLY)
        assert await overdue(at) == [(job, RescueReason.STALLED)]

    @story
    async def test_each_attempt_counts_from_zero(self, at: Scene) -> None:
        for policy in LIMITS.values():
            job = await started(at, policy)
            at.advance(LATEST - 1.0)
            await at.settle(raised(job))
            at.advance(10.0)
            await at.store.beat([job.lease])
            (claim,) = await at.claim(job.lease, policy=policy)
            assert claim.job.id == job.id
            at.advance(LATEST)
            assert await at.store.overdue(10) == ()
            at.advance(EARLY)
            assert [each.job for each in await at.store.overdue(10)] == [claim.job]
            await at.settle(done(claim.job))

    @story
    async def test_a_prefetched_job_counts_from_its_start(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            lease = structs.replace(at.new_lease(), grace=GRACE)
            await at.store.open_lease(lease)
            (job,) = await at.enqueue(at.new())
            (claim,) = await at.claim(lease.id, 0, prefetch=1, policy=policy)
            await at.store.report([ProgressUpdate(job=job, token=claim.job.token, stage="s")])
            at.advance(2 * LATEST)
            assert await at.store.overdue(10) == ()
            assert await at.settle(seen(claim.job, charge)) == (Answer.LOST,)
            await at.store.start([(job, claim.job.token)])
            at.advance(LATEST)
            await at.store.start([(job, claim.job.token)])
            assert await at.store.overdue(10) == ()
            at.advance(EARLY)
            (active,) = await at.store.held(lease.id)
            assert await overdue(at) == [(active, charge)]
            await at.settle(done(active))

    @story
    async def test_a_judge_asks_the_lease_of_the_job_and_no_less_patient_one(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job, _ = await started(at, policy, grace=10 * GRACE), await started(at, policy)
            at.advance(LATEST + EARLY)
            assert await at.settle(seen(job, charge)) == (Answer.LOST,)
            at.advance(9 * GRACE)
            assert await at.settle(seen(job, charge)) == (Answer.APPLIED,)

    @story
    async def test_a_start_that_comes_again_takes_no_progress_back(self, at: Scene) -> None:
        job = await started(at, LIMITS[RescueReason.STALLED])
        at.advance(LATEST / 2)
        await at.store.report([ProgressUpdate(job=job.id, token=job.token)])
        assert await at.store.start([(job.id, job.token)]) == frozenset()
        at.advance(LATEST)
        assert await at.store.overdue(10) == ()
        at.advance(EARLY)
        assert await overdue(at) == [(job, RescueReason.STALLED)]

    @story
    async def test_a_report_that_arrives_late_does_not_count_as_progress(self, at: Scene) -> None:
        job = await started(at, LIMITS[RescueReason.STALLED])
        await at.store.report([ProgressUpdate(job=job.id, token=job.token, order=2)])
        at.advance(LATEST)
        await at.store.report([ProgressUpdate(job=job.id, token=job.token, order=1)])
        at.advance(EARLY)
        assert await overdue(at) == [(job, RescueReason.STALLED)]

    @story
    async def test_no_wall_clock_decides_about_a_limit(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job = await started(at, policy)
            at.clock.step_wall(1e6)
            assert await at.store.overdue(10) == ()
            assert await at.settle(seen(job, charge)) == (Answer.LOST,)
            at.clock.step_wall(-2e6)
            at.advance(LATEST + EARLY)
            assert await overdue(at) == [(job, charge)]
            assert await at.settle(seen(job, charge)) == (Answer.APPLIED,)

    @story
    async def test_one_past_both_limits_is_charged_with_the_one_it_is_longer_past(self, at: Scene) -> None:
        job = await started(at, Policy(progress_within=LIMIT, timeout=LIMIT))
        at.advance(10.0)
        await at.store.report([ProgressUpdate(job=job.id, token=job.token)])
        slow = await started(at, Policy(progress_within=LIMIT, timeout=LIMIT + 50.0))
        at.advance(200.0)
        assert await overdue(at) == [(job, RescueReason.TIMED_OUT), (slow, RescueReason.STALLED)]

    @story
    async def test_overdue_jobs_are_listed_longest_first_up_to_the_limit(self, at: Scene) -> None:
        jobs = []
        for _ in range(4):
            jobs.append(await started(at, LIMITS[RescueReason.STALLED]))
            at.advance(1.0)
        await at.store.report([ProgressUpdate(job=jobs[0].id, token=jobs[0].token)])
        at.advance(LATEST)
        expected = [*jobs[1:], jobs[0]]
        assert [each.job for each in await at.store.overdue(10)] == expected[:3]
        at.advance(EARLY)
        assert [each.job for each in await at.store.overdue(10)] == expected
        assert [each.job for each in await at.store.overdue(2)] == expected[:2]
        assert await at.store.overdue(0) == ()

    @story
    async def test_a_lease_that_has_ended_is_judged_by_its_end(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job = await started(at, policy)
            await at.store.end_lease(job.lease, LeaseEnd(RescueReason.CRASHED))
            at.advance(2 * LATEST)
            assert await at.store.overdue(10) == ()
            assert await at.settle(seen(job, charge)) == (Answer.LOST,)
            assert await at.state(job.id) is State.RUNNING

    @story
    async def test_a_lease_that_only_ran_out_is_living(self, at: Scene) -> None:
        job = await started(at, LIMITS[RescueReason.STALLED])
        at.advance(LATEST + EARLY)
        assert [view.id for view in await at.store.expired(10)] == [job.lease]
        assert await overdue(at) == [(job, RescueReason.STALLED)]

    @story
    async def test_an_overdue_job_is_a_failed_attempt(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job = await started(at, policy)
            at.advance(LATEST + EARLY)
            (found,) = await at.store.overdue(10)
            assert await at.settle(seen(found.job, charge)) == (Answer.APPLIED,)
            row = await at.row(job.id)
            assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 1, 0)
            (record,) = row.attempts
            assert (record.outcome, record.token) == (AttemptOutcome(charge.value), job.token)
            assert record.error == row.error is not None

    @story
    async def test_an_overdue_job_without_attempts_left_fails_for_it(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job = await started(at, structs.replace(policy, max_attempts=1))
            at.advance(LATEST + EARLY)
            assert await at.settle(seen(job, charge)) == (Answer.APPLIED,)
            row = await at.row(job.id)
            assert (row.state, row.reason) == (State.FAILED, Reason[charge.name])
            assert await at.settle(seen(job, charge), done(job)) == (Answer.APPLIED, Answer.LOST)

    @story
    async def test_a_judge_is_judged_again_in_the_write(self, at: Scene) -> None:
        moving, patient = await started(at, LIMITS[RescueReason.STALLED]), await started(at, LIMITS[RescueReason.TIMED_OUT])
        at.advance(LATEST)
        rows = [await at.row(job.id) for job in (moving, patient)]
        assert await at.settle(seen(moving, RescueReason.STALLED), seen(patient, RescueReason.TIMED_OUT)) == (Answer.LOST,) * 2
        assert [await at.row(job.id) for job in (moving, patient)] == rows
        at.advance(EARLY)
        assert len(await at.store.overdue(10)) == 2
        await at.store.report([ProgressUpdate(job=job.id, token=job.token) for job in (moving, patient)])
        answers = await at.settle(seen(moving, RescueReason.STALLED), seen(patient, RescueReason.TIMED_OUT))
        assert answers == (Answer.LOST, Answer.APPLIED)
        assert await at.state(moving.id) is State.RUNNING

    @story
    async def test_a_charge_of_one_kind_is_not_judged_by_the_other(self, at: Scene) -> None:
        for charge, other in ((RescueReason.STALLED, RescueReason.TIMED_OUT), (RescueReason.TIMED_OUT, RescueReason.STALLED)):
            job = await started(at, LIMITS[charge])
            at.advance(LATEST + EARLY)
            assert await at.settle(seen(job, other)) == (Answer.LOST,)
            assert await at.settle(seen(job, charge)) == (Answer.APPLIED,)

    @story
    async def test_one_overdue_job_does_not_make_others_overdue(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            late = await started(at, policy)
            at.advance(1.0)
            other = await started(at, policy)
            at.advance(LATEST - 1.0 + EARLY)
            assert await overdue(at) == [(late, charge)]
            before = await at.row(other.id)
            assert await at.settle(seen(other, charge), seen(late, charge)) == (Answer.LOST, Answer.APPLIED)
            assert await at.row(other.id) == before
            await at.settle(done(other))

    @story
    async def test_a_judge_moves_nothing_without_the_token(self, at: Scene) -> None:
        job = await started(at, LIMITS[RescueReason.STALLED])
        at.advance(LATEST + EARLY)
        move = seen(job, RescueReason.STALLED)
        assert await at.settle(structs.replace(move, token=stale(job.token))) == (Answer.LOST,)
        await at.settle(released(job, code_ran=True))
        assert await at.settle(move) == (Answer.LOST,)
        assert await at.state(job.id) is State.AVAILABLE

    @story
    async def test_owner_and_judge_say_the_same_so_either_is_the_others_copy(self, at: Scene) -> None:
        for charge, policy in LIMITS.items():
            job = await started(at, policy)
            at.advance(LATEST + EARLY)
            others = seen(job, charge)
            owners = structs.replace(others, precondition=Precondition.TOKEN)
            assert await at.settle(owners, others) == (Answer.APPLIED, Answer.APPLIED)
            assert (await at.row(job.id)).failures == 1

    @story
    async def test_a_marked_job_that_is_overdue_ends_cancelled(self, at: Scene) -> None:
        job = await started(at, LIMITS[RescueReason.TIMED_OUT])
        await at.store.request_cancel([job.id])
        at.advance(LATEST + EARLY)
        (found,) = await at.store.overdue(10)
        assert found.job.cancel_requested
        await at.settle(seen(found.job, RescueReason.TIMED_OUT))
        assert await at.state(job.id) is State.CANCELLED

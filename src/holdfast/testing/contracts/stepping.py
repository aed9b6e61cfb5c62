"""Durable steps: their records are written once, by the owner of the job, and live as long as the job needs them."""

from functools import partial
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, AttemptOutcome, Failure, HeldFor, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Fail, Snooze, StepsChanged, Suspend
from holdfast._core.policy import RETENTION_FLOOR, Backoff, ChangePolicy, CrashPolicy, Policy
from holdfast._core.requests import JobFilter, ProgressUpdate, Steer, SteerVerb
from holdfast._core.steps import Signal, SignalTaken, StepRecord
from holdfast._engine import store_defaults
from holdfast._ports.steps import Steps
from holdfast._ports.store import Store
from holdfast.errors import Unsupported
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, in_threads, needs, raised, rescued, stale, story

FIRST = StepRecord(name="charge", nth=1, place=0, is_sequential=True, result=b'{"id":1}')
SECOND = StepRecord(name="charge", nth=2, place=1, is_sequential=False, result=b"null")
CHANGED = Failure("StepsChanged", "the code asks for step 'b'", key="0123456789abcdef")
RESTARTED = StepsChanged(CHANGED, ChangePolicy.RESTART)


async def no_steps(at: Scene) -> None:
    """Check that a store without these verbs is known as such."""
    try:
        store_defaults.steps(at.store)
    except Unsupported:
        return
    raise AssertionError("a store without steps offers them")


def verbs(store: Store) -> Steps:
    """Return the verbs of steps."""
    return store_defaults.steps(store)


async def recorded(at: Scene, job: ActiveJob, *records: StepRecord) -> None:
    """Record steps of a job that is running."""
    for record in records:
        assert await verbs(at.store).record_step(job.id, job.token, record)


async def kept(at: Scene, job: UUID) -> tuple[StepRecord, ...]:
    """Return the records of a job's steps."""
    return (await verbs(at.store).steps(job)).records


async def again(at: Scene, job: ActiveJob) -> ActiveJob:
    """Claim a job once more."""
    queue = (await at.row(job.id)).queue
    (claim,) = await at.claim(await at.lease(), queues=(queue,))
    return claim.job


class StepContract(Part):
    """What the records of steps promise."""

    @story
    @needs(Steps, no_steps)
    async def test_s22_a_step_is_recorded_once_by_the_holder_of_the_token_and_read_back_equal(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        await recorded(at, job, SECOND, FIRST)
        await recorded(at, other, structs.replace(FIRST, result=b"2"))
        found = await verbs(at.store).steps(job.id)
        assert found.records == (FIRST, SECOND)
        assert abs((found.now - at.now).total_seconds()) < 60.0
        await recorded(at, job, structs.replace(FIRST, result=b"9", place=7))
        assert await kept(at, job.id) == (FIRST, SECOND)
        assert await kept(at, at.chance.uuid7()) == ()

    @story
    @needs(Steps, no_steps)
    async def test_s22_a_step_under_another_token_is_not_recorded(self, at: Scene) -> None:
        job = await at.running()
        other = structs.replace(job.token, claim=at.chance.uuid4())
        for token in (stale(job.token), stale(job.token, -1), other):
            assert not await verbs(at.store).record_step(job.id, token, FIRST)
        assert not await verbs(at.store).record_step(at.chance.uuid7(), job.token, FIRST)
        assert await kept(at, job.id) == ()
        await at.settle(done(job))
        assert not await verbs(at.store).record_step(job.id, job.token, FIRST)
        assert await kept(at, job.id) == ()

    @story
    @needs(Steps, no_steps)
    async def test_s22_after_a_rescue_only_the_new_owner_records_and_it_reads_what_the_old_one_did(self, at: Scene) -> None:
        job = await at.running()
        await recorded(at, job, FIRST)
        await at.store.end_lease(job.lease, why := LeaseEnd(RescueReason.CRASHED))
        await at.settle(rescued(job, why))
        assert not await verbs(at.store).record_step(job.id, job.token, SECOND)
        owner = await again(at, job)
        assert not await verbs(at.store).record_step(job.id, job.token, SECOND)
        assert await kept(at, job.id) == (FIRST,)
        await recorded(at, owner, SECOND)
        await at.settle(raised(owner))
        assert not await verbs(at.store).record_step(
            job.id, owner.token, StepRecord(name="x", nth=1, place=2, is_sequential=True)
        )
        assert await kept(at, job.id) == (FIRST, SECOND)

    @story
    @needs(Steps, no_steps)
    async def test_s22_of_two_copies_at_once_one_is_recorded(self, at: Scene) -> None:
        job = await at.running()
        copies = [structs.replace(FIRST, result=b"%d" % n) for n in range(4)]
        acts = [partial(verbs(at.another()).record_step, job.id, job.token, copy) for copy in copies]
        assert in_threads(*acts) == (True,) * 4
        (record,) = await kept(at, job.id)
        assert record in copies

    @story
    @needs(Steps, no_steps)
    async def test_steps_are_forgotten_when_the_job_completes_and_are_kept_while_it_has_failed(self, at: Scene) -> None:
        good, bad = await at.running(), await at.running(policy=Policy(max_attempts=1))
        await recorded(at, good, FIRST)
        await recorded(at, bad, FIRST)
        moves = [structs.replace(done(good), forgets_steps=True), raised(bad)]
        assert await at.settle(*moves) == (Answer.APPLIED,) * 2
        assert await kept(at, good.id) == ()
        assert await kept(at, bad.id) == (FIRST,)
        await at.store.reopen([bad.id])
        assert await kept(at, bad.id) == (FIRST,)
        owner = await again(at, bad)
        lost = structs.replace(done(bad), forgets_steps=True)
        assert await at.settle(lost) == (Answer.LOST,)
        assert await kept(at, bad.id) == (FIRST,)
        assert await at.settle(structs.replace(done(owner), forgets_steps=True)) == (Answer.APPLIED,)
        assert await kept(at, bad.id) == ()
        assert await at.settle(structs.replace(done(owner), forgets_steps=True)) == (Answer.APPLIED,)

    @story
    @needs(Steps, no_steps)
    async def test_steps_are_forgotten_by_a_settle_that_claims_too_beside_jobs_that_keep_theirs(self, at: Scene) -> None:
        job, other, next_one = await at.running(), await at.running(), at.new()
        await recorded(at, job, FIRST)
        await recorded(at, other, FIRST)
        await at.enqueue(next_one)
        lease = await at.lease()
        answer = await at.store.exchange([structs.replace(done(job), forgets_steps=True), done(other)], at.request(lease))
        assert answer.answers == (Answer.APPLIED,) * 2
        assert await kept(at, job.id) == ()
        assert await kept(at, other.id) == (FIRST,)

    @story
    @needs(Steps, no_steps)
    async def test_a_fresh_retry_forgets_steps_and_checkpoint_and_a_plain_one_keeps_both(self, at: Scene) -> None:
        job, scheduled, running = await at.running(policy=Policy(max_attempts=1)), await at.running(), await at.running()
        for each in (job, scheduled, running):
            await recorded(at, each, FIRST)
            await at.store.report([ProgressUpdate(job=each.id, token=each.token, checkpoint=b"7")])
        await at.settle(raised(job), answered(scheduled, Snooze(for_="1h")))
        ids = [job.id, scheduled.id, running.id]
        await at.store.reopen([job.id])
        assert (await at.row(job.id)).checkpoint == b"7"
        owner = await again(at, job)
        await at.settle(answered(owner, Fail("no")))
        await at.store.reopen(ids, is_fresh=True)
        assert [await kept(at, each) for each in ids] == [(), (), (FIRST,)]
        assert [(await at.row(each)).checkpoint for each in ids] == [None, None, b"7"]

    @story
    @needs(Steps, no_steps)
    async def test_a_job_whose_code_was_changed_is_held_for_its_steps_until_it_is_retried(self, at: Scene) -> None:
        job = await at.running()
        await recorded(at, job, FIRST)
        assert await at.settle(answered(job, StepsChanged(CHANGED))) == (Answer.APPLIED,)
        assert await at.settle(answered(job, StepsChanged(CHANGED))) == (Answer.APPLIED,)
        row = await at.row(job.id)
        assert (row.state, row.held_for, row.error, row.failures) == (State.HELD, HeldFor.STEPS, CHANGED, 0)
        assert [record.outcome for record in row.attempts] == [AttemptOutcome.FAILED]
        assert await at.claim(await at.lease(), queues=(row.queue,)) == ()
        await at.store.reopen([job.id])
        row = await at.row(job.id)
        assert (row.state, row.held_for, row.error) == (State.AVAILABLE, None, None)
        assert (await again(at, job)).attempt == 2

    @story
    @needs(Steps, no_steps)
    async def test_a_restart_forgets_steps_and_checkpoint_in_the_write_that_moves_the_job(self, at: Scene) -> None:
        policy = Policy(backoff=Backoff.fixed("0s"))
        job, other, stranger = await at.running(policy=policy), await at.running(policy=policy), await at.running(policy=policy)
        for each in (job, other, stranger):
            await recorded(at, each, FIRST)
            await at.store.report([ProgressUpdate(job=each.id, token=each.token, checkpoint=b"7")])
        lost = structs.replace(answered(stranger, RESTARTED), token=stale(stranger.token))
        assert await at.settle(lost, answered(job, RESTARTED)) == (Answer.LOST, Answer.APPLIED)
        row = await at.row(job.id)
        assert (row.state, row.error, row.failures, row.checkpoint) == (State.AVAILABLE, CHANGED, 1, None)
        assert [await kept(at, each.id) for each in (job, other, stranger)] == [(), (FIRST,), (FIRST,)]
        assert [(await at.row(each.id)).checkpoint for each in (other, stranger)] == [b"7", b"7"]
        owner = await again(at, job)
        await recorded(at, owner, SECOND)
        assert await at.settle(answered(job, RESTARTED)) == (Answer.APPLIED,)
        assert await kept(at, job.id) == (SECOND,)

    @story
    @needs(Steps, no_steps)
    async def test_a_restart_that_is_claimed_in_the_same_exchange_starts_without_a_checkpoint(self, at: Scene) -> None:
        job = await at.running(policy=Policy(backoff=Backoff.fixed("0s")))
        await recorded(at, job, FIRST)
        await at.store.report([ProgressUpdate(job=job.id, token=job.token, checkpoint=b"7")])
        queue = (await at.row(job.id)).queue
        answer = await at.store.exchange([answered(job, RESTARTED)], at.request(await at.lease(), queues=(queue,)))
        (claim,) = answer.claims or await at.claim(await at.lease(), queues=(queue,))
        assert (claim.job.id, claim.checkpoint) == (job.id, None)
        assert await kept(at, job.id) == ()

    @story
    @needs(Steps, no_steps)
    async def test_a_restart_that_a_cancellation_or_the_last_attempt_ends_keeps_the_steps(self, at: Scene) -> None:
        doomed, spent = await at.running(), await at.running(policy=Policy(max_attempts=1))
        for each in (doomed, spent):
            await recorded(at, each, FIRST)
            await at.store.report([ProgressUpdate(job=each.id, token=each.token, checkpoint=b"7")])
        await verbs(at.store).signal(doomed.id, Signal(at.chance.uuid4(), "go", b"1"))
        await at.store.request_cancel([doomed.id])
        await at.settle(answered(doomed, RESTARTED), answered(spent, RESTARTED))
        rows = [await at.row(each.id) for each in (doomed, spent)]
        assert [(row.state, row.reason) for row in rows] == [
            (State.CANCELLED, Reason.BY_OPERATOR),
            (State.FAILED, Reason.STEPS_CHANGED),
        ]
        assert [row.checkpoint for row in rows] == [b"7", b"7"]
        assert [await kept(at, each.id) for each in (doomed, spent)] == [(FIRST,), (FIRST,)]
        await at.store.reopen([doomed.id])
        owner = await again(at, doomed)
        assert await verbs(at.store).take_signal(owner.id, owner.token, "go", SECOND) == SignalTaken(b"1")

    @story
    @needs(Steps, no_steps)
    async def test_a_job_is_held_for_a_crash_and_a_cancelled_one_for_nothing(self, at: Scene) -> None:
        job = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
        await at.store.end_lease(job.lease, why := LeaseEnd(RescueReason.CRASHED))
        await at.settle(rescued(job, why))
        assert (await at.row(job.id)).held_for is HeldFor.CRASH
        await at.store.request_cancel([job.id])
        row = await at.row(job.id)
        assert (row.state, row.held_for) == (State.CANCELLED, None)
        doomed = await at.running()
        await at.store.request_cancel([doomed.id])
        await at.settle(answered(doomed, StepsChanged(CHANGED)))
        row = await at.row(doomed.id)
        assert (row.state, row.held_for, row.awaits) == (State.CANCELLED, None, None)

    @story
    @needs(Steps, no_steps)
    async def test_a_deleted_or_purged_job_leaves_no_steps(self, at: Scene) -> None:
        deleted, purged, left = [await at.running() for _ in range(3)]
        for each in (deleted, purged, left):
            await recorded(at, each, FIRST)
            await at.settle(answered(each, Suspend(60.0)))
        await at.store.delete([deleted.id])
        await store_defaults.purge(at.store, (await at.row(purged.id)).queue, 10)
        assert [await kept(at, each.id) for each in (deleted, purged, left)] == [(), (), (FIRST,)]

    @story
    @needs(Steps, no_steps)
    async def test_steps_of_failed_jobs_are_pruned_with_them(self, at: Scene) -> None:
        policies = [Policy(retention=retention, max_attempts=1) for retention in (0.0, RETENTION_FLOOR, 10 * RETENTION_FLOOR)]
        jobs = [await at.running(policy=policy) for policy in policies]
        for job in jobs:
            await recorded(at, job, FIRST)
        await at.settle(*map(raised, jobs))
        await at.store.prune(1000)
        assert [await kept(at, job.id) for job in jobs] == [(FIRST,)] * 3
        at.advance(RETENTION_FLOOR + EARLY)
        await at.store.prune(1000)
        assert [await kept(at, job.id) for job in jobs] == [(), (), (FIRST,)]

    @story
    @needs(Steps, no_steps)
    async def test_a_retry_of_chosen_jobs_may_be_fresh(self, at: Scene) -> None:
        job, other = await at.running(policy=Policy(max_attempts=1)), await at.running(policy=Policy(max_attempts=1))
        for each in (job, other):
            await recorded(at, each, FIRST)
            await at.settle(raised(each))
        which = JobFilter(state=State.FAILED)
        await store_defaults.steer(at.store, Steer(SteerVerb.REOPEN, is_fresh=True), [job.id], which)
        await store_defaults.steer(at.store, Steer(SteerVerb.REOPEN), [other.id], which)
        assert [await at.state(each.id) for each in (job, other)] == [State.AVAILABLE] * 2
        assert [await kept(at, each.id) for each in (job, other)] == [(), (FIRST,)]

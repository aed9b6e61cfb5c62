"""Cancel, reopen, reschedule and delete: what operators do to jobs in every state."""

from datetime import UTC, datetime, timedelta, timezone

from msgspec import structs

from holdfast._core.answers import Answer, ReopenAnswer
from holdfast._core.job import ActiveJob, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Fail
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.requests import ProgressUpdate
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, raised, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)


async def held_back(at: Scene) -> ActiveJob:
    """Make a job that waits for an operator's decision."""
    job = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
    await at.store.end_lease(job.lease, CRASH)
    await at.settle(rescued(job, CRASH))
    return job


class OperateContract(Part):
    """What operators are promised."""

    @story
    async def test_waiting_jobs_are_cancelled_at_once(self, at: Scene) -> None:
        available, scheduled = await at.enqueue(at.new(), at.new(delay=60.0))
        held = (await held_back(at)).id
        at.advance(1.0)
        ids = [available, scheduled, held]
        assert await at.store.request_cancel(ids) == dict.fromkeys(ids, State.CANCELLED)
        for job in ids:
            row = await at.row(job)
            assert (row.state, row.reason, row.result) == (State.CANCELLED, Reason.BY_OPERATOR, None)
            assert row.finished_at == datetime.fromtimestamp(at.clock.wall(), UTC)
            assert row.token.claim is None
        at.advance(100.0)
        assert await at.claim(await at.lease(), 10) == ()
        assert await at.store.next_due(["task"]) is None

    @story
    async def test_a_job_that_runs_is_only_marked(self, at: Scene) -> None:
        running, prefetched = await at.running(), await at.prefetched()
        answer = await at.store.request_cancel([running.id, prefetched.id])
        assert answer == {running.id: State.RUNNING, prefetched.id: State.CLAIMED}
        for job in (running, prefetched):
            row = await at.row(job.id)
            assert (row.state, row.token, row.cancel_requested) == (job.state, job.token, True)
            assert (row.reason, row.finished_at) == (None, None)
            assert (await at.store.held(job.lease))[0].cancel_requested

    @story
    async def test_what_is_finished_stays_as_it_is(self, at: Scene) -> None:
        completed, failed = await at.running(), await at.running()
        await at.settle(done(completed), answered(failed, Fail("no")))
        rows = [await at.row(job.id) for job in (completed, failed)]
        answer = await at.store.request_cancel([completed.id, failed.id])
        assert answer == {completed.id: State.COMPLETED, failed.id: State.FAILED}
        assert [await at.row(job.id) for job in (completed, failed)] == rows

    @story
    async def test_unknown_jobs_are_absent_and_copies_change_nothing(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        unknown = at.chance.uuid7()
        assert await at.store.request_cancel([unknown, job, job]) == {job: State.CANCELLED}
        row = await at.row(job)
        at.advance(1.0)
        assert await at.store.request_cancel([job]) == {job: State.CANCELLED}
        assert await at.row(job) == row
        assert await at.store.reopen([unknown]) == await at.store.reopen([]) == ReopenAnswer({})
        assert await at.store.request_cancel([]) == {}

    @story
    async def test_a_cancellation_does_not_outlive_a_reopening(self, at: Scene) -> None:
        job = await at.running()
        await at.store.request_cancel([job.id])
        await at.settle(raised(job))
        assert await at.state(job.id) is State.CANCELLED
        await at.store.reopen([job.id])
        (claim,) = await at.claim(job.lease)
        assert not claim.job.cancel_requested
        await at.settle(raised(claim.job))
        assert await at.state(job.id) is State.SCHEDULED

    @story
    async def test_finished_held_and_scheduled_jobs_are_due_again_with_fresh_budgets(self, at: Scene) -> None:
        completed, failed, retried = await at.running(), await at.running(), await at.running()
        await at.store.report([ProgressUpdate(job=failed.id, token=failed.token, checkpoint=b"7", stage="half")])
        await at.settle(done(completed, b"1"), answered(failed, Fail("no")), raised(retried))
        held, (cancelled,) = await held_back(at), await at.enqueue(at.new())
        other = await at.running()
        await at.settle(done(other))
        untouched = await at.row(other.id)
        await at.store.request_cancel([cancelled])
        at.advance(0.5)
        jobs = [completed.id, failed.id, retried.id, held.id, cancelled]
        numbers = [(await at.row(job)).token.number for job in jobs]
        attempts = [(await at.row(job)).attempt for job in jobs]
        assert await at.store.reopen(jobs) == ReopenAnswer(dict.fromkeys(jobs, State.AVAILABLE))
        for job, number, attempt in zip(jobs, numbers, attempts, strict=True):
            row = await at.row(job)
            assert (row.state, row.token, row.attempt) == (State.AVAILABLE, Token(None, number), attempt)
            assert (row.failures, row.crashes, row.reason, row.error, row.result) == (0, 0, None, None, None)
            assert (row.finished_at, row.started_at, row.claimed_at, row.worker, row.lease) == (None,) * 5
            assert row.available_at == datetime.fromtimestamp(at.clock.wall(), UTC)
        row = await at.row(failed.id)
        assert (row.checkpoint, row.stage) == (b"7", "half")
        assert await at.row(other.id) == untouched
        claims = await at.claim(await at.lease(), 10)
        assert {claim.job.id: claim.job.attempt for claim in claims} == dict(zip(jobs, [n + 1 for n in attempts], strict=True))
        assert min(claim.job.token.number for claim in claims) > max(numbers)

    @story
    async def test_jobs_in_line_and_jobs_that_run_are_not_reopened(self, at: Scene) -> None:
        (waiting,) = await at.enqueue(at.new(priority=1))
        running, prefetched = await at.running(), await at.prefetched()
        jobs = [waiting, running.id, prefetched.id]
        rows = [await at.row(job) for job in jobs]
        at.advance(1.0)
        states = {waiting: State.AVAILABLE, running.id: State.RUNNING, prefetched.id: State.CLAIMED}
        assert await at.store.reopen(jobs) == ReopenAnswer(states)
        assert [await at.row(job) for job in jobs] == rows
        at.step_wall(-60.0)  # now they run although they are not due
        await at.store.reopen([running.id, prefetched.id])
        assert [await at.row(job) for job in jobs[1:]] == rows[1:]

    @story
    async def test_a_token_of_before_the_reopening_moves_nothing(self, at: Scene) -> None:
        job = await at.running()
        await at.settle(answered(job, Fail("no")))
        await at.store.reopen([job.id, job.id])
        assert await at.settle(done(job)) == (Answer.LOST,)
        assert await at.state(job.id) is State.AVAILABLE

    @story
    async def test_waiting_jobs_become_due_when_an_operator_reschedules_them(self, at: Scene) -> None:
        zone = timezone(timedelta(hours=5))
        now, later, moved = await at.enqueue(at.new(delay=60.0), at.new(), at.new(delay=60.0))
        rows = {job: await at.row(job) for job in (now, later, moved)}
        at.advance(1.0)
        assert await at.store.reschedule([now]) == {now: State.AVAILABLE}
        assert await at.store.reschedule([later], delay=7.5) == {later: State.SCHEDULED}
        moment = (at.now + timedelta(seconds=20)).astimezone(zone)
        assert await at.store.reschedule([moved, moved], run_at=moment, delay=1.0) == {moved: State.SCHEDULED}
        for job, due in ((now, at.now), (later, at.now + timedelta(seconds=7.5)), (moved, moment)):
            row = await at.row(job)
            assert row.available_at == due
            assert row == structs.replace(rows[job], state=row.state, available_at=due)
        lease = await at.lease()
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [now]
        at.advance(7.5)
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [later]
        due_in = await at.store.next_due(["task"])
        assert due_in is not None
        assert abs(due_in - 12.5) < EARLY

    @story
    async def test_a_retry_may_be_sooner_and_keeps_its_budgets(self, at: Scene) -> None:
        job = await at.running()
        await at.settle(raised(job))
        row = await at.row(job.id)
        assert await at.store.reschedule([job.id], run_at=at.now - timedelta(days=1)) == {job.id: State.AVAILABLE}
        assert await at.row(job.id) == structs.replace(row, state=State.AVAILABLE, available_at=at.now - timedelta(days=1))
        (claim,) = await at.claim(job.lease)
        assert (claim.job.attempt, claim.job.failures) == (2, 1)

    @story
    async def test_only_jobs_in_line_are_rescheduled(self, at: Scene) -> None:
        running, prefetched, held, finished = await at.running(), await at.prefetched(), await held_back(at), await at.running()
        await at.settle(done(finished))
        jobs = [running.id, prefetched.id, held.id, finished.id]
        rows = [await at.row(job) for job in jobs]
        answer = await at.store.reschedule([*jobs, at.chance.uuid7()], delay=60.0)
        states = (State.RUNNING, State.CLAIMED, State.HELD, State.COMPLETED)
        assert answer == dict(zip(jobs, states, strict=True))
        assert [await at.row(job) for job in jobs] == rows
        assert await at.store.reschedule([]) == {}

    @story
    async def test_a_job_without_an_owner_is_deleted_without_a_trace(self, at: Scene) -> None:
        available, scheduled = await at.enqueue(at.new(payload=b"x" * 5000), at.new(delay=60.0))
        held, retried, finished, other = await held_back(at), await at.running(), await at.running(), await at.running()
        await at.settle(raised(retried), raised(other), answered(finished, Fail("no")))
        jobs = [available, scheduled, held.id, retried.id, finished.id]
        assert await at.store.delete([*jobs, jobs[0], at.chance.uuid7()]) == {}
        assert [await at.store.get(job) for job in jobs] == [None] * 5
        assert await at.store.request_cancel(jobs) == await at.store.delete(jobs) == {}
        assert await at.store.reopen(jobs) == ReopenAnswer({})
        assert await at.settle(raised(retried), done(finished), rescued(held, CRASH)) == (Answer.MISSING,) * 3
        assert [row.id for row in await at.store.list(at.everything)] == [other.id]
        assert len((await at.row(other.id)).attempts) == 1
        assert await at.claim(await at.lease(), 10) == ()

    @story
    async def test_the_long_payload_of_a_deleted_job_never_shows_in_another_job(self, at: Scene) -> None:
        gone, kept = await at.enqueue(at.new(payload=b"x" * 5000), at.new(payload=b"y" * 5000))
        await at.store.delete([gone])
        (claim,) = await at.claim(await at.lease(), 10)
        assert (claim.job.id, claim.payload) == (kept, b"y" * 5000)

    @story
    async def test_a_job_with_an_owner_is_not_deleted(self, at: Scene) -> None:
        running, prefetched, (waiting,) = await at.running(), await at.prefetched(), await at.enqueue(at.new())
        rows = [await at.row(job.id) for job in (running, prefetched)]
        answer = await at.store.delete([running.id, waiting, prefetched.id])
        assert answer == {running.id: State.RUNNING, prefetched.id: State.CLAIMED}
        assert [await at.row(job.id) for job in (running, prefetched)] == rows
        await at.store.end_lease(running.lease, CRASH)
        assert await at.store.delete([running.id]) == {running.id: State.RUNNING}
        assert await at.settle(done(running)) == (Answer.APPLIED,)

    @story
    async def test_a_delete_of_what_waits_leaves_all_others(self, at: Scene) -> None:
        running, prefetched, finished = await at.running(), await at.prefetched(), await at.running()
        held = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
        await at.settle(done(finished))
        await at.store.end_lease(held.lease, CRASH)
        await at.settle(rescued(held, CRASH))
        waiting = await at.enqueue(at.new(), at.new(delay=60.0), at.new(payload=b"x" * 5000, key="k"))
        left = {
            running.id: State.RUNNING,
            prefetched.id: State.CLAIMED,
            finished.id: State.COMPLETED,
            held.id: State.HELD,
        }
        assert await at.store.delete([*waiting, *left, at.chance.uuid7()], only_waiting=True) == left
        assert {row.id: row.state for row in await at.store.list(at.everything)} == left
        await at.enqueue(at.new(key="k"))
        assert await at.store.delete([finished.id, held.id]) == {}

    @story
    async def test_a_copy_of_its_call_does_not_bring_a_deleted_job_back(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        await at.store.enqueue(call, [job])
        await at.store.delete([job.id])
        await at.store.enqueue(call, [job])
        assert await at.store.get(job.id) is None
        await at.enqueue(structs.replace(job, payload=b"[]"))
        assert (await at.row(job.id)).payload == b"[]"

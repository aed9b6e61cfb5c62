"""Cancel and reopen: what operators do to jobs wherever they are."""

from datetime import UTC, datetime

from holdfast._core.job import Hold, Reason, State, Token
from holdfast._core.lifecycle import End, LeaseEnd
from holdfast._core.outcome import Fail
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._ports.store import Answer, Update
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, rescued, story

CRASH = LeaseEnd(End.CRASHED)


async def held_back(at: Scene) -> Hold:
    """A job that waits for an operator's decision."""
    hold = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
    await at.store.end_lease(hold.lease, CRASH)
    await at.settle(rescued(hold, CRASH))
    return hold


class OperateContract(Part):
    """What operators are promised."""

    @story
    async def test_waiting_jobs_are_cancelled_at_once(self, at: Scene) -> None:
        available, scheduled = await at.enqueue(at.new(), at.new(delay=60.0))
        held = (await held_back(at)).job
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
        answer = await at.store.request_cancel([running.job, prefetched.job])
        assert answer == {running.job: State.RUNNING, prefetched.job: State.CLAIMED}
        for hold in (running, prefetched):
            row = await at.row(hold.job)
            assert (row.state, row.token, row.cancel_requested) == (hold.state, hold.token, True)
            assert (row.reason, row.finished_at) == (None, None)
            assert (await at.store.held(hold.lease))[0].cancel_requested

    @story
    async def test_what_is_finished_stays_as_it_is(self, at: Scene) -> None:
        completed, failed = await at.running(), await at.running()
        await at.settle(done(completed), answered(failed, Fail("no")))
        rows = [await at.row(hold.job) for hold in (completed, failed)]
        answer = await at.store.request_cancel([completed.job, failed.job])
        assert answer == {completed.job: State.COMPLETED, failed.job: State.FAILED}
        assert [await at.row(hold.job) for hold in (completed, failed)] == rows

    @story
    async def test_unknown_jobs_are_absent_and_copies_change_nothing(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        unknown = at.chance.uuid7()
        assert await at.store.request_cancel([unknown, job, job]) == {job: State.CANCELLED}
        row = await at.row(job)
        at.advance(1.0)
        assert await at.store.request_cancel([job]) == {job: State.CANCELLED}
        assert await at.row(job) == row
        assert await at.store.reopen([unknown]) == {}
        assert await at.store.request_cancel([]) == await at.store.reopen([]) == {}

    @story
    async def test_a_mark_does_not_outlive_a_reopening(self, at: Scene) -> None:
        hold = await at.running()
        await at.store.request_cancel([hold.job])
        await at.settle(raised(hold))
        assert await at.state(hold.job) is State.CANCELLED
        await at.store.reopen([hold.job])
        (claim,) = await at.claim(hold.lease)
        assert not claim.hold.cancel_requested
        await at.settle(raised(claim.hold))
        assert await at.state(hold.job) is State.SCHEDULED

    @story
    async def test_finished_held_and_scheduled_jobs_are_due_again_with_fresh_budgets(self, at: Scene) -> None:
        completed, failed, retried = await at.running(), await at.running(), await at.running()
        await at.store.report([Update(job=failed.job, token=failed.token, checkpoint=b"7", stage="half")])
        await at.settle(done(completed, b"1"), answered(failed, Fail("no")), raised(retried))
        held, (cancelled,) = await held_back(at), await at.enqueue(at.new())
        other = await at.running()
        await at.settle(done(other))
        untouched = await at.row(other.job)
        await at.store.request_cancel([cancelled])
        at.advance(0.5)
        jobs = [completed.job, failed.job, retried.job, held.job, cancelled]
        numbers = [(await at.row(job)).token.number for job in jobs]
        attempts = [(await at.row(job)).attempt for job in jobs]
        assert await at.store.reopen(jobs) == dict.fromkeys(jobs, State.AVAILABLE)
        for job, number, attempt in zip(jobs, numbers, attempts, strict=True):
            row = await at.row(job)
            assert (row.state, row.token, row.attempt) == (State.AVAILABLE, Token(None, number), attempt)
            assert (row.failures, row.crashes, row.reason, row.error, row.result) == (0, 0, None, None, None)
            assert (row.finished_at, row.started_at, row.claimed_at, row.worker, row.lease) == (None,) * 5
            assert row.available_at == datetime.fromtimestamp(at.clock.wall(), UTC)
        row = await at.row(failed.job)
        assert (row.checkpoint, row.stage) == (b"7", "half")
        assert await at.row(other.job) == untouched
        claims = await at.claim(await at.lease(), 10)
        assert {claim.hold.job: claim.hold.attempt for claim in claims} == dict(zip(jobs, [n + 1 for n in attempts], strict=True))
        assert min(claim.hold.token.number for claim in claims) > max(numbers)

    @story
    async def test_jobs_in_line_and_jobs_that_run_are_not_reopened(self, at: Scene) -> None:
        (waiting,) = await at.enqueue(at.new(priority=1))
        running, prefetched = await at.running(), await at.prefetched()
        jobs = [waiting, running.job, prefetched.job]
        rows = [await at.row(job) for job in jobs]
        at.advance(1.0)
        answer = await at.store.reopen(jobs)
        assert answer == {waiting: State.AVAILABLE, running.job: State.RUNNING, prefetched.job: State.CLAIMED}
        assert [await at.row(job) for job in jobs] == rows

    @story
    async def test_a_token_of_before_the_reopening_moves_nothing(self, at: Scene) -> None:
        hold = await at.running()
        await at.settle(answered(hold, Fail("no")))
        await at.store.reopen([hold.job, hold.job])
        assert await at.settle(done(hold)) == (Answer.LOST,)
        assert await at.state(hold.job) is State.AVAILABLE

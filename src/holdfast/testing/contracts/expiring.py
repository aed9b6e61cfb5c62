"""Expiry: a first attempt that would come too late is not made."""

from datetime import timedelta
from uuid import UUID

from holdfast._core.answers import Answer, ExpiredJob, ReopenAnswer
from holdfast._core.job import Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import CrashPolicy, Policy
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, raised, released, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)


async def expired(at: Scene, limit: int = 100) -> list[UUID]:
    """Expire jobs, and return which are failed for it now."""
    return [each.job for each in await at.store.expire(limit)]


class ExpiryContract(Part):
    """What ``expires_in`` promises."""

    @story
    async def test_the_time_of_expiry_is_read(self, at: Scene) -> None:
        soon, never = await at.enqueue(at.new(expires_in=2.5), at.new())
        assert (await at.row(soon)).expires_at == at.now + timedelta(seconds=2.5)
        assert (await at.row(never)).expires_at is None

    @story
    async def test_a_job_is_claimed_until_it_expires_and_not_after(self, at: Scene) -> None:
        await at.enqueue(at.new(expires_in=10.0, priority=-2), at.new(expires_in=10.0, priority=-1))
        (other,) = await at.enqueue(at.new())
        lease = await at.lease()
        at.advance(10.0 - EARLY)
        assert len(await at.claim(lease)) == 1
        at.advance(EARLY)
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [other]

    @story
    async def test_expired_jobs_hide_no_others_in_their_line(self, at: Scene) -> None:
        await at.enqueue(*(at.new(expires_in=1.0) for _ in range(5)))
        late = await at.enqueue(at.new(), at.new(delay=2.0))
        at.advance(2.0)
        assert [claim.job.id for claim in await at.claim(await at.lease(), 2)] == list(late)

    @story
    async def test_next_due_ignores_expired_jobs(self, at: Scene) -> None:
        await at.enqueue(at.new(expires_in=1.0))
        assert await at.store.next_due(["task"]) == 0.0
        at.advance(1.0)
        assert await at.store.next_due(["task"]) is None
        await at.enqueue(at.new(delay=7.0))
        due = await at.store.next_due(["task"])
        assert due is not None
        assert abs(due - 7.0) < EARLY

    @story
    async def test_a_job_that_was_not_started_in_time_fails(self, at: Scene) -> None:
        job, scheduled, later, never = await at.enqueue(
            at.new(task="mail", expires_in=5.0),
            at.new(expires_in=5.0, delay=60.0),
            at.new(expires_in=5.0 + EARLY),
            at.new(),
        )
        at.advance(5.0 - EARLY)
        assert await at.store.expire(10) == ()
        at.advance(EARLY)
        assert sorted(await at.store.expire(10), key=lambda each: each.job) == [
            ExpiredJob(job, "mail"),
            ExpiredJob(scheduled, "task"),
        ]
        for each in (job, scheduled):
            row = await at.row(each)
            assert (row.state, row.reason, row.result, row.attempt) == (State.FAILED, Reason.EXPIRED, None, 0)
            assert (row.finished_at, row.token, row.attempts) == (at.now, Token(None, 0), ())
        assert [await at.state(each) for each in (later, never)] == [State.AVAILABLE] * 2
        assert await at.store.expire(10) == ()

    @story
    async def test_jobs_expire_in_the_order_of_their_times_up_to_the_limit(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(expires_in=wait, delay=60.0) for wait in (4.0, 1.0, 3.0, 2.0)))
        at.advance(10.0)
        assert await expired(at, 0) == []
        assert await expired(at, 2) == [jobs[1], jobs[3]]
        assert await expired(at, 2) == [jobs[2], jobs[0]]
        assert await expired(at, 2) == []

    @story
    async def test_a_job_that_was_started_once_never_expires(self, at: Scene) -> None:
        await at.enqueue(*(at.new(expires_in=10.0) for _ in range(3)))
        lease = await at.lease()
        retried, released_, crashed = (claim.job for claim in await at.claim(lease, 3))
        at.advance(20.0)
        assert await expired(at) == []
        await at.store.end_lease(lease, CRASH)
        await at.settle(raised(retried), released(released_, code_ran=True), rescued(crashed, CRASH))
        at.advance(20.0)
        assert await expired(at) == []
        claims = await at.claim(await at.lease(), 3)
        assert {claim.job.id for claim in claims} == {job.id for job in (retried, released_, crashed)}

    @story
    async def test_a_claim_that_was_never_started_goes_back_and_expires(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(expires_in=10.0))
        lease = await at.lease()
        (claim,) = await at.claim(lease, 0, prefetch=1)
        at.advance(10.0)
        assert await expired(at) == []
        await at.settle(released(claim.job))
        assert await at.claim(lease) == ()
        assert await expired(at) == [job]
        assert await at.settle(done(claim.job)) == (Answer.LOST,)
        assert (await at.row(job)).token == Token(None, claim.job.token.number)

    @story
    async def test_a_held_job_does_not_expire(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(expires_in=10.0))
        (claim,) = await at.claim(await at.lease(), policy=Policy(on_crash=CrashPolicy.HOLD))
        await at.store.end_lease(claim.job.lease, CRASH)
        await at.settle(rescued(claim.job, CRASH))
        at.advance(10.0)
        assert await expired(at) == []
        assert await at.state(job) is State.HELD

    @story
    async def test_what_an_operator_asks_for_expires_no_more(self, at: Scene) -> None:
        late, scheduled = await at.enqueue(at.new(expires_in=5.0), at.new(expires_in=5.0, delay=60.0))
        at.advance(1.0)
        await at.store.reopen([scheduled])
        at.advance(5.0)
        assert await expired(at) == [late]
        assert await at.store.reopen([late]) == ReopenAnswer({late: State.AVAILABLE})
        row = await at.row(late)
        assert (row.expires_at, row.reason, row.finished_at) == (None, None, None)
        at.advance(100.0)
        assert await expired(at) == []
        assert {claim.job.id for claim in await at.claim(await at.lease(), 2)} == {late, scheduled}

    @story
    async def test_a_new_time_to_run_changes_nothing_about_expiry(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(expires_in=5.0))
        await at.store.reschedule([job], delay=10.0)
        at.advance(5.0)
        assert await expired(at) == [job]

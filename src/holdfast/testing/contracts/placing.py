"""Positions in a queue: a job that is taken back without an intended wait keeps its position, and a claim whose code never
ran leaves no trace on it."""

from collections.abc import Callable

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, Failure, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition, release, runner_crashed
from holdfast._core.outcome import Retry, Snooze
from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast._engine import store_defaults
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, released, rescued, story

CRASHED = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
EXPIRED = LeaseEnd(RescueReason.EXPIRED)
DRAINED = LeaseEnd(RescueReason.CLOSED, is_free=True)
AT_ONCE = Policy(max_crashes=9, max_attempts=9, backoff=Backoff.fixed("0s"))
FAST = 300  # jobs claimed in a row, after which a store may look only where it found some

Move = Callable[[ActiveJob], Transition]
BACK: dict[str, Move] = {
    "released before its code ran": released,
    "released": lambda job: released(job, code_ran=True),
    "first crash of its runner": lambda job: runner_crashed(job, "SIGSEGV", jitter=0.0),
}
WAITS: dict[str, Move] = {
    "raised": raised,
    "retry": lambda job: answered(job, Retry(after="0s")),
    "snooze": lambda job: answered(job, Snooze(for_="0s")),
}


async def crash(at: Scene, job: ActiveJob, why: LeaseEnd) -> None:
    """End its lease and take the job."""
    await at.store.end_lease(job.lease, why)
    assert await at.settle(rescued(job, why)) == (Answer.APPLIED,)


async def oldest(at: Scene, *, prefetch: bool = False, policy: Policy = AT_ONCE) -> ActiveJob:
    """Claim a job behind which others wait since a little later."""
    (job,) = await at.enqueue(at.new())
    at.advance(1.0)
    await at.enqueue(*(at.new() for _ in range(3)))
    (claim,) = await at.claim(await at.lease(), 0 if prefetch else 1, prefetch=int(prefetch), policy=policy)
    assert claim.job.id == job
    at.advance(1.0)
    return claim.job


async def next_claimed(at: Scene) -> ActiveJob:
    """Claim one more job."""
    (claim,) = await at.claim(await at.lease(), policy=AT_ONCE)
    return claim.job


async def clear(at: Scene, job: ActiveJob) -> None:
    """Complete this job and delete those that wait."""
    assert await at.settle(done(job)) == (Answer.APPLIED,)
    await store_defaults.purge(at.store, "default", 100)


class PlaceContract(Part):
    """What a job is promised that waited, was claimed, and did not end."""

    @story
    async def test_l10_a_job_that_is_released_is_the_next_one_claimed(self, at: Scene) -> None:
        for move in BACK.values():
            job = await oldest(at)
            assert await at.settle(move(job)) == (Answer.APPLIED,)
            row = await at.row(job.id)
            assert (row.state, row.available_at) == (State.AVAILABLE, row.created_at)
            again = await next_claimed(at)
            assert again.id == job.id
            await clear(at, again)

    @story
    async def test_l10_a_job_on_its_first_rescue_is_the_next_one_claimed(self, at: Scene) -> None:
        for why in (CRASHED, EXPIRED, DRAINED):
            for prefetch in (False, True):
                job = await oldest(at, prefetch=prefetch)
                await crash(at, job, why)
                row = await at.row(job.id)
                assert (row.state, row.available_at) == (State.AVAILABLE, row.created_at)
                again = await next_claimed(at)
                assert again.id == job.id
                await clear(at, again)

    @story
    async def test_l10_a_wait_that_is_meant_gives_a_new_place_even_if_it_is_zero(self, at: Scene) -> None:
        for move in WAITS.values():
            job = await oldest(at)
            assert await at.settle(move(job)) == (Answer.APPLIED,)
            row = await at.row(job.id)
            assert row.available_at > row.created_at
            after = await next_claimed(at)
            assert after.id != job.id
            await clear(at, after)

    @story
    async def test_l10_from_the_second_crash_on_a_job_waits_its_backoff(self, at: Scene) -> None:
        job = await oldest(at)
        await crash(at, job, CRASHED)
        again = await next_claimed(at)
        at.advance(1.0)
        await crash(at, again, CRASHED)
        row = await at.row(job.id)
        assert (row.crashes, row.available_at > row.created_at) == (2, True)
        assert (await next_claimed(at)).id != job.id

    @story
    async def test_l10_a_claim_that_never_started_keeps_the_place_that_a_wait_has_given(self, at: Scene) -> None:
        job = await oldest(at)
        await at.settle(answered(job, Snooze(for_="0s")))
        place = await at.row(job.id)
        for _ in range(3):
            await at.settle(done(await next_claimed(at)))
        (later,) = await at.enqueue(at.new())
        again = await next_claimed(at)
        assert again.id == job.id
        await crash(at, again, CRASHED)
        row = await at.row(job.id)
        assert row.available_at - row.created_at == place.available_at - place.created_at
        assert [(await next_claimed(at)).id for _ in range(2)] == [job.id, later]

    @story
    async def test_l10_an_operator_who_reopens_a_job_enqueues_it_again(self, at: Scene) -> None:
        job = await oldest(at)
        await at.settle(done(job))
        await at.store.reopen([job.id])
        row = await at.row(job.id)
        assert row.available_at > row.created_at
        assert (await next_claimed(at)).id != job.id

    @story
    async def test_l10_a_job_that_comes_back_is_found_by_who_claims_a_long_line(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(FAST + 10)))
        at.advance(1.0)
        lease = await at.lease()
        claims = [claim for _ in range(FAST // 50) for claim in await at.claim(lease, 50)]
        assert tuple(claim.job.id for claim in claims) == jobs[:FAST]
        await at.settle(released(claims[7].job), released(claims[3].job, code_ran=True))
        assert [claim.job.id for claim in await at.claim(lease, 3)] == [jobs[3], jobs[7], jobs[FAST]]
        await crash(at, claims[5].job, CRASHED)
        assert [claim.job.id for claim in await at.claim(await at.lease(), 2)] == [jobs[5], jobs[FAST + 1]]

    @story
    async def test_a_claim_whose_code_never_ran_gives_its_attempt_back(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        lease = await at.lease()
        for _ in range(3):
            (claim,) = await at.claim(lease, policy=AT_ONCE)
            assert claim.job.attempt == 1
            await at.settle(released(claim.job))
            assert (await at.row(job)).attempt == 0
        (claim,) = await at.claim(lease, policy=AT_ONCE)
        await at.settle(raised(claim.job))
        (second,) = await at.claim(lease, policy=AT_ONCE)
        assert second.job.attempt == 2
        await at.settle(released(second.job))
        row = await at.row(job)
        assert (row.attempt, row.lease, row.worker, row.claimed_at, row.started_at) == (1, None, None, None, None)
        assert [record.attempt for record in row.attempts] == [1]
        (again,) = await at.claim(lease, policy=AT_ONCE)
        assert again.job.attempt == 2
        await at.settle(release(again.job, code_ran=False, unavailable="no memory"))
        row = await at.row(job)
        assert (row.state, row.attempt, row.error) == (State.AVAILABLE, 1, Failure("RUNNER_UNAVAILABLE", "no memory"))

    @story
    async def test_an_attempt_that_did_start_keeps_its_number(self, at: Scene) -> None:
        for move in (*BACK.values(), *WAITS.values()):
            if move is released:
                continue
            (job,) = await at.enqueue(at.new())
            (claim,) = await at.claim(await at.lease(), policy=AT_ONCE)
            await at.settle(move(claim.job))
            assert (await at.row(job)).attempt == 1
            again = await next_claimed(at)
            assert again.attempt == 2
            await clear(at, again)

    @story
    async def test_a_claim_whose_code_never_ran_does_not_void_the_expiry(self, at: Scene) -> None:
        for move in (released, lambda active: rescued(active, CRASHED)):
            (job,) = await at.enqueue(at.new(expires_in=60.0))
            (claim,) = await at.claim(await at.lease(), int(move is released), prefetch=int(move is not released))
            if move is not released:
                await at.store.end_lease(claim.job.lease, CRASHED)
            assert await at.settle(move(claim.job)) == (Answer.APPLIED,)
            at.advance(61.0)
            assert await at.claim(await at.lease()) == ()
            assert [expired.job for expired in await at.store.expire(10)] == [job]

    @story
    async def test_a_marked_job_whose_code_never_ran_ends_without_an_attempt(self, at: Scene) -> None:
        for on_crash in CrashPolicy:
            job = await at.running(policy=Policy(on_crash=on_crash))
            await at.store.request_cancel([job.id])
            assert await at.settle(released(job)) == (Answer.APPLIED,)
            row = await at.row(job.id)
            assert (row.state, row.attempt) == (State.CANCELLED, 0)

    @story
    async def test_a_release_sent_again_gives_nothing_back_twice(self, at: Scene) -> None:
        job = await at.running(policy=AT_ONCE)
        await at.settle(raised(job))
        row = await at.row(job.id)
        (claim,) = await at.claim(await at.lease(), queues=(row.queue,), policy=AT_ONCE)
        for _ in range(2):
            assert await at.settle(released(claim.job)) == (Answer.APPLIED,)
            assert (await at.row(job.id)).attempt == 1

"""Settle: under the token, once, and recognised when it comes again."""

from datetime import UTC, datetime, timedelta

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, AttemptOutcome, Failure, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition, cancelled
from holdfast._core.outcome import Cancel, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.requests import ProgressUpdate
from holdfast.testing.contracts.scene import (
    BOOM,
    TTL,
    Part,
    Scene,
    answered,
    done,
    raised,
    released,
    rescued,
    stale,
    story,
)

CRASH = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL", stacks="Thread 1 …")
BUSY = ("Retry", "busy")
OUTCOMES: tuple[Outcome, ...] = (
    Raised(BOOM),
    Raised(BOOM, is_final=True),
    Retry(after="5s", reason="busy"),
    Snooze(for_="1m"),
    Cancel("no need"),
    Fail("no way"),
    Invalid(Reason.PAYLOAD_INVALID, BOOM),
)


def settles(job: ActiveJob) -> list[Transition]:
    """List every kind of settle that an owner sends."""
    return [done(job), *(answered(job, outcome) for outcome in OUTCOMES), released(job, code_ran=True), cancelled(job)]


class SettleContract(Part):
    """What settling promises."""

    @story
    async def test_a_success_is_finished_with_its_result_and_keeps_its_token(self, at: Scene) -> None:
        job = await at.running()
        at.advance(4.0)
        assert await at.settle(done(job, b'{"sum": 3}')) == (Answer.APPLIED,)
        row, now = await at.row(job.id), datetime.fromtimestamp(at.clock.wall(), UTC)
        assert (row.state, row.result, row.token, row.attempt) == (State.COMPLETED, b'{"sum": 3}', job.token, 1)
        began = now - timedelta(seconds=4)
        assert (row.available_at, row.claimed_at, row.started_at, row.finished_at) == (began, began, began, now)
        assert (row.lease, row.worker, row.reason, row.error) == (None, "worker", None, None)
        assert row.attempts == ()
        assert await at.store.held(job.lease) == ()

    @story
    async def test_a_failed_attempt_waits_in_its_queue_with_its_record(self, at: Scene) -> None:
        job = await at.running()
        await at.store.report([ProgressUpdate(job=job.id, token=job.token, stage="half", checkpoint=b"1")])
        at.advance(4.0)
        assert await at.settle(answered(job, Retry(after="5s", reason="busy"))) == (Answer.APPLIED,)
        row, now = await at.row(job.id), datetime.fromtimestamp(at.clock.wall(), UTC)
        assert (row.state, row.token, row.failures, row.attempt) == (State.SCHEDULED, Token(None, job.token.number), 1, 1)
        assert row.available_at == now + timedelta(seconds=5)
        assert (row.lease, row.worker, row.claimed_at, row.started_at, row.finished_at) == (None,) * 5
        assert (row.stage, row.checkpoint) == ("half", b"1")
        (record,) = row.attempts
        assert (record.job, record.token, record.attempt, record.worker) == (job.id, job.token, 1, "worker")
        assert (record.outcome, record.error) == (AttemptOutcome.FAILED, row.error)
        assert row.error is not None
        assert (row.error.type, row.error.message) == BUSY
        assert (record.started_at, record.ended_at) == (now - timedelta(seconds=4), now)

    @story
    async def test_every_outcome_leads_to_its_state(self, at: Scene) -> None:
        for settle in settles(await at.running()):
            job = await at.running()
            move = structs.replace(settle, job=job.id, token=job.token)
            assert await at.settle(move) == (Answer.APPLIED,)
            row = await at.row(job.id)
            state = State.SCHEDULED if move.to is State.AVAILABLE and move.delay else move.to
            assert (row.state, row.reason, row.result) == (state, move.reason, move.result)
            assert (row.failures, row.crashes, row.error) == (move.failures, move.crashes, move.error)
            assert [record.outcome for record in row.attempts] == ([] if move.record is None else [move.record])

    @story
    async def test_the_last_error_stays_until_the_job_ends_well(self, at: Scene) -> None:
        job = await at.running()
        await at.settle(raised(job))
        at.advance(10.0)
        (claim,) = await at.claim(job.lease)
        await at.settle(answered(claim.job, Snooze(for_="1s")))
        assert (await at.row(job.id)).error == BOOM
        at.advance(1.0)
        (claim,) = await at.claim(job.lease)
        await at.settle(done(claim.job))
        row = await at.row(job.id)
        assert row.error is None
        outcomes = [AttemptOutcome.FAILED, AttemptOutcome.SNOOZED, AttemptOutcome.COMPLETED]
        assert [record.outcome for record in row.attempts] == outcomes
        assert [record.attempt for record in row.attempts] == [1, 2, 3]

    @story
    async def test_nothing_moves_without_the_token(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        before = await at.row(job.id)
        wrong = [
            Token(at.chance.uuid4(), job.token.number),
            stale(job.token),
            stale(job.token, -1),
            other.token,
            Token(None, job.token.number),
        ]
        for token in wrong:
            for settle in settles(job):
                assert await at.settle(structs.replace(settle, token=token)) == (Answer.LOST,)
        assert await at.row(job.id) == before
        assert await at.settle(done(job)) == (Answer.APPLIED,)

    @story
    async def test_a_job_without_a_trace_is_missing(self, at: Scene) -> None:
        job = await at.running()
        assert await at.settle(structs.replace(done(job), job=at.chance.uuid7())) == (Answer.MISSING,)
        assert await at.state(job.id) is State.RUNNING

    @story
    async def test_a_waiting_job_has_no_owner(self, at: Scene) -> None:
        job = await at.running()
        await at.settle(raised(job))
        pending = (await at.row(job.id)).token
        assert await at.settle(structs.replace(done(job), token=pending)) == (Answer.LOST,)
        assert await at.state(job.id) is State.SCHEDULED

    @story
    async def test_only_the_very_token_recalls_what_was_settled(self, at: Scene) -> None:
        active, free, other = await at.running(), await at.prefetched(), await at.running()
        await at.settle(raised(active), released(free))
        for move, token in ((raised(active), active.token), (released(free), free.token)):
            assert await at.settle(move) == (Answer.APPLIED,)
            for wrong in (Token(at.chance.uuid4(), token.number), stale(token), Token(None, token.number)):
                assert await at.settle(structs.replace(move, token=wrong)) == (Answer.LOST,)
            for job, answer in ((other.id, Answer.LOST), (at.chance.uuid7(), Answer.MISSING)):
                assert await at.settle(structs.replace(move, job=job)) == (answer,)

    @story
    async def test_the_same_settle_sent_again_gets_the_same_answer(self, at: Scene) -> None:
        for settle in settles(await at.running()):
            job = await at.running()
            move = structs.replace(settle, job=job.id, token=job.token)
            assert await at.settle(move) == (Answer.APPLIED,)
            row = await at.row(job.id)
            at.advance(1.0)
            assert await at.settle(move) == (Answer.APPLIED,)
            assert structs.replace(await at.row(job.id), state=row.state) == row

    @story
    async def test_another_settle_under_a_spent_token_is_lost(self, at: Scene) -> None:
        kinds = settles(await at.running())
        for first in range(len(kinds)):
            job = await at.running()
            moves = [structs.replace(kind, job=job.id, token=job.token) for kind in kinds]
            assert await at.settle(moves[first]) == (Answer.APPLIED,)
            others = [move for number, move in enumerate(moves) if number != first]
            assert set(await at.settle(*others)) == {Answer.LOST}
        job = await at.running()
        assert await at.settle(done(job, b"1"), done(job, b"2")) == (Answer.APPLIED, Answer.LOST)
        assert (await at.row(job.id)).result == b"1"

    @story
    async def test_a_settle_is_recognised_after_the_job_ran_again(self, at: Scene) -> None:
        for settle in settles(await at.running()):
            job = await at.running()
            move = structs.replace(settle, job=job.id, token=job.token)
            await at.settle(move)
            await at.store.reopen([job.id])
            lease = await at.lease()
            (claim,) = await at.claim(lease)
            assert claim.job.id == job.id
            assert await at.settle(move) == (Answer.APPLIED,)
            other = raised(job, Failure("OSError", "else"))
            assert await at.settle(other) == (Answer.LOST,)
            assert await at.settle(done(claim.job)) == (Answer.APPLIED,)
            assert await at.settle(move, other) == (Answer.APPLIED, Answer.LOST)
            assert await at.state(job.id) is State.COMPLETED

    @story
    async def test_a_first_success_that_is_reopened_is_remembered_as_an_attempt(self, at: Scene) -> None:
        job = await at.running()
        at.advance(2.0)
        await at.settle(done(job))
        finished = (await at.row(job.id)).finished_at
        at.advance(2.0)
        await at.store.reopen([job.id])
        (record,) = (await at.row(job.id)).attempts
        assert (record.token, record.attempt, record.outcome) == (job.token, 1, AttemptOutcome.COMPLETED)
        assert (record.worker, record.ended_at) == ("worker", finished)
        assert record.started_at is not None

    @story
    async def test_a_free_release_leaves_no_record_and_is_still_recognised(self, at: Scene) -> None:
        job = await at.prefetched()
        assert await at.settle(released(job)) == (Answer.APPLIED,)
        row = await at.row(job.id)
        assert (row.state, row.attempt, row.attempts) == (State.AVAILABLE, 0, ())
        assert await at.settle(released(job), done(job), raised(job)) == (Answer.APPLIED, Answer.LOST, Answer.LOST)
        (claim,) = await at.claim(job.lease)
        assert await at.settle(released(job)) == (Answer.APPLIED,)
        assert await at.settle(done(claim.job)) == (Answer.APPLIED,)

    @story
    async def test_a_transition_twice_in_one_call_moves_once(self, at: Scene) -> None:
        for settle in settles(await at.running()):
            job = await at.running()
            move = structs.replace(settle, job=job.id, token=job.token)
            assert await at.settle(move, move) == (Answer.APPLIED, Answer.APPLIED)
            row = await at.row(job.id)
            assert (row.failures, len(row.attempts)) == (move.failures, 0 if move.record is None else 1)

    @story
    async def test_of_two_outcomes_in_one_call_the_first_counts(self, at: Scene) -> None:
        job = await at.running()
        assert await at.settle(raised(job), done(job)) == (Answer.APPLIED, Answer.LOST)
        assert await at.state(job.id) is State.SCHEDULED

    @story
    async def test_a_refused_transition_does_not_speak_for_the_next_under_its_token(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        answer = await at.store.exchange(
            [rescued(job, CRASH), done(other), done(job), done(job)], at.request(job.lease, queues=())
        )
        assert answer.answers == (Answer.LOST, Answer.APPLIED, Answer.APPLIED, Answer.APPLIED)
        assert await at.state(job.id) is State.COMPLETED

    @story
    async def test_one_that_is_refused_does_not_hold_up_its_neighbours(self, at: Scene) -> None:
        first, second, third = await at.running(), await at.running(), await at.running()
        lost = structs.replace(raised(second), token=stale(second.token))
        missing = structs.replace(done(second), job=at.chance.uuid7())
        answers = await at.settle(done(first), lost, missing, raised(third))
        assert answers == (Answer.APPLIED, Answer.LOST, Answer.MISSING, Answer.APPLIED)
        states = [await at.state(job.id) for job in (first, second, third)]
        assert states == [State.COMPLETED, State.RUNNING, State.SCHEDULED]

    @story
    async def test_a_rescue_needs_a_lease_that_has_ended(self, at: Scene) -> None:
        job = await at.running()
        await at.lease()  # another worker's, alive all the time
        before = await at.row(job.id)
        assert await at.settle(rescued(job, CRASH)) == (Answer.LOST,)
        at.advance(TTL + 1.0)
        assert await at.settle(rescued(job, CRASH)) == (Answer.LOST,)
        assert await at.row(job.id) == before
        assert await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        row = await at.row(job.id)
        assert (row.state, row.crashes, row.failures) == (State.AVAILABLE, 1, 0)
        (record,) = row.attempts
        assert (record.outcome, record.signal, record.stacks) == (AttemptOutcome.CRASHED, "SIGKILL", "Thread 1 …")

    @story
    async def test_a_prefetched_job_of_an_ended_lease_goes_back_free(self, at: Scene) -> None:
        job = await at.prefetched()
        assert await at.settle(rescued(job, CRASH)) == (Answer.LOST,)
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        row = await at.row(job.id)
        assert (row.state, row.crashes, row.attempts) == (State.AVAILABLE, 0, ())

    @story
    async def test_a_rescue_may_hold_or_fail_the_job(self, at: Scene) -> None:
        for policy, state in ((CrashPolicy.HOLD, State.HELD), (CrashPolicy.FAIL, State.FAILED)):
            job = await at.running(policy=Policy(on_crash=policy))
            await at.store.end_lease(job.lease, CRASH)
            move = rescued(job, CRASH)
            assert await at.settle(move, move) == (Answer.APPLIED, Answer.APPLIED)
            assert await at.state(job.id) is state
            assert await at.claim(await at.lease(), 10) == ()

    @story
    async def test_a_zombie_cannot_settle_what_was_rescued(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        await at.settle(rescued(job, CRASH))
        row = await at.row(job.id)
        for settle in settles(job):
            assert await at.settle(settle) == (Answer.LOST,)
        assert await at.row(job.id) == row
        (claim,) = await at.claim(await at.lease())
        assert claim.job.id == job.id
        for settle in settles(job):
            assert await at.settle(settle) == (Answer.LOST,)
        assert await at.store.held(claim.job.lease) == (claim.job,)

    @story
    async def test_an_owner_whose_lease_has_ended_settles_until_a_move_takes_the_job(self, at: Scene) -> None:
        job = await at.running()
        await at.store.end_lease(job.lease, CRASH)
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await at.settle(rescued(job, CRASH)) == (Answer.LOST,)
        assert await at.state(job.id) is State.COMPLETED

    @story
    async def test_a_cancelled_job_that_does_not_complete_ends_cancelled_under_every_settle(self, at: Scene) -> None:
        for settle in [*settles(await at.running()), rescued(await at.running(), CRASH), released(await at.running())]:
            job = await at.running()
            await at.store.request_cancel([job.id])
            await at.store.end_lease(job.lease, CRASH)
            before = await at.row(job.id)
            at.advance(1.0)
            move = structs.replace(settle, job=job.id, token=job.token)
            assert await at.settle(move) == (Answer.APPLIED,)
            assert await at.settle(move) == (Answer.APPLIED,)
            row = await at.row(job.id)
            ends = {State.COMPLETED: None, State.CANCELLED: settle.reason}
            state = move.to if move.to in ends else State.CANCELLED
            assert (row.state, row.reason) == (state, ends.get(move.to, Reason.BY_OPERATOR))
            assert (row.token, row.failures, row.error) == (job.token, move.failures, move.error)
            assert row.cancel_requested
            assert row.finished_at == datetime.fromtimestamp(at.clock.wall(), UTC)
            assert (row.worker, row.available_at, row.claimed_at) == (before.worker, before.available_at, before.claimed_at)
            assert row.started_at == before.started_at is not None

    @story
    async def test_a_job_that_ends_before_its_code_ran_never_started(self, at: Scene) -> None:
        for is_by_ids in (False, True):
            (job,) = await at.enqueue(at.new())
            (claim,) = await at.claim(await at.lease(), 0, prefetch=1, ids=[job] if is_by_ids else None)
            await at.store.request_cancel([job])
            await at.settle(released(claim.job))
            row = await at.row(job)
            assert (row.state, row.claimed_at is None, row.started_at) == (State.CANCELLED, False, None)

    @story
    async def test_a_cancelled_job_that_is_released_ends_without_the_error_of_an_earlier_attempt(self, at: Scene) -> None:
        job = await at.running()
        await at.settle(raised(job))
        at.advance(10.0)
        (claim,) = await at.claim(job.lease)
        assert (await at.row(job.id)).error == BOOM
        await at.store.request_cancel([job.id])
        await at.settle(released(claim.job, code_ran=True))
        row = await at.row(job.id)
        assert (row.state, row.error) == (State.CANCELLED, None)

    @story
    async def test_results_and_errors_come_back_as_they_were(self, at: Scene) -> None:
        for result in (b"null", b'"\\u0000"', '{"ä": "🎁"}'.encode(), b'"%s"' % (b"x" * 200_000), b'[1, 2.5e300, "\'"]'):
            job = await at.running()
            await at.settle(done(job, result))
            assert (await at.row(job.id)).result == result
            assert await at.settle(done(job, result)) == (Answer.APPLIED,)
        for text in ("", "\x00 zero", "'; DROP TABLE jobs; --", "ä🎁\n\t\\", "x" * 16_000):
            job, failure = await at.running(), Failure("E", text, text, key=BOOM.key)
            await at.settle(raised(job, failure))
            row = await at.row(job.id)
            assert (row.error, row.attempts[0].error) == (failure, failure)

    @story
    async def test_an_error_that_no_encoding_can_say_does_not_stop_its_batch(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        unsayable = Failure("FileNotFoundError", "\udcff.txt")
        assert await at.settle(raised(job, unsayable), done(other)) == (Answer.APPLIED, Answer.APPLIED)
        assert (await at.row(job.id)).error is not None

    @story
    async def test_hundreds_of_mixed_outcomes_are_one_write(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(300)))
        claims = await at.claim(await at.lease(), 300)
        moves = []
        for number, claim in enumerate(claims):
            kinds = settles(claim.job)
            moves.append(kinds[number % len(kinds)] if number % 3 == 0 else done(claim.job, b"%d" % number))
        assert set(await at.settle(*moves)) == {Answer.APPLIED}
        for number, move in enumerate(moves):
            row = await at.row(move.job)
            assert (row.result, row.failures, row.reason) == (move.result, move.failures, move.reason), number

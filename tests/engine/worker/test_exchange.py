"""The exchange makes every claim and settle of a worker; after an unknown result it asks the store and never guesses."""

import asyncio
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import AttemptOutcome, NewJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.outcome import Retry, Snooze
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.requests import ClaimRequest
from holdfast._engine.service import Service
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import define
from holdfast._ports.transport import Hint
from holdfast.errors import JobLost, StoreUnavailable
from tests.engine.support import LEASE, OTHER, TIMING, Bench, forever, turns

NOTHING = b"{}"


async def quick() -> str:
    return "done"


async def again() -> None:
    raise Retry(after=0)


async def later() -> None:
    raise Snooze(0.25)


async def take(bench: Bench, job: UUID) -> None:
    """End the worker's lease, rescue this job and let another worker claim it."""
    await bench.memory.end_lease(LEASE.id, LeaseEnd(RescueReason.EXPIRED))
    for active in await bench.memory.held(LEASE.id):
        if active.id == job:
            await bench.memory.exchange([rescue(active, LeaseEnd(RescueReason.EXPIRED), jitter=0.0)])
    await bench.memory.open_lease(OTHER)
    request = ClaimRequest(lease=OTHER.id, claim=UUID(int=99), tasks=bench.registry.policies(), limit=1)
    assert (await bench.memory.exchange([], request)).claims


# claiming and settling


async def test_a_step_claims_and_starts_a_job_and_the_next_one_settles_it() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    assert (await bench.row(job)).state is State.RUNNING
    assert bench.log.of("job.claimed") == [{"job": job, "task": "quick", "attempt": 1, "worker": "worker-1", "via": "poll"}]
    await bench.until_ended()
    await bench.exchange.step()
    row = await bench.row(job)
    assert (row.state, row.result) == (State.COMPLETED, b'"done"')
    assert bench.log.of("job.completed") == [
        {"job": job, "task": "quick", "attempt": 1, "worker": "worker-1", "reason": None, "error": None, "delay": None}
    ]


async def test_outcomes_and_claims_share_one_write() -> None:
    bench = Bench(quick, slots=1)
    await bench.open(("quick", NOTHING), ("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.store.calls.clear()
    await bench.exchange.step()
    assert bench.store.calls.count("exchange") == 1
    await bench.until_ended(2)


@pytest.mark.parametrize("jobs", [0, 1, 5])
async def test_l6_the_pause_after_a_step_depends_on_due_jobs_and_free_slots(jobs: int) -> None:
    bench = Bench(forever, slots=2)
    await bench.open(*[("forever", NOTHING)] * jobs)
    wait = await bench.exchange.step()
    # The store gave out as many as asked: there may be more. With all slots taken or nothing due: one poll.
    assert wait == (0.0 if jobs >= 2 else 1.0)
    if jobs == 5:
        assert await bench.exchange.step() == 1.0


async def test_the_pause_ends_when_a_job_becomes_due_within_the_poll_interval() -> None:
    bench = Bench(later)
    await bench.open(("later", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    await bench.exchange.step()
    assert await bench.exchange.step() == pytest.approx(0.25)


async def test_a_due_job_that_the_store_does_not_give_out_does_not_make_the_worker_spin() -> None:
    bench = Bench(quick)
    await bench.open(("quick", NOTHING))
    await bench.memory.end_lease(LEASE.id, LeaseEnd(RescueReason.EXPIRED))
    assert 0.02 <= await bench.exchange.step() <= 0.1


async def test_no_more_jobs_are_claimed_than_there_are_slots() -> None:
    bench = Bench(forever, slots=3)
    await bench.open(*[("forever", NOTHING)] * 8)
    for _ in range(4):
        await bench.exchange.step()
    assert len(bench.executor.running) == 3
    assert len(await bench.memory.held(LEASE.id)) == 3


async def test_claims_beyond_the_requested_number_are_released_unrun() -> None:
    bench = Bench(forever, slots=1)
    jobs = await bench.open(("forever", NOTHING), ("forever", NOTHING))
    exchange = bench.memory.exchange

    async def generous(moves: object, request: ClaimRequest | None = None) -> ExchangeAnswer:
        return await exchange(moves, request and structs.replace(request, limit=2))  # type: ignore[arg-type]

    bench.memory.exchange = generous  # type: ignore[assignment, method-assign]
    await bench.exchange.step()
    assert len(bench.executor.running) == 1
    bench.memory.exchange = exchange  # type: ignore[method-assign]
    await bench.settle()
    rows = [await bench.row(job) for job in jobs]
    assert [row.state for row in rows] == [State.RUNNING, State.AVAILABLE]
    assert rows[1].attempts == ()


async def test_nothing_is_claimed_after_closing_and_outcomes_are_still_settled() -> None:
    bench = Bench(quick, slots=1)
    jobs = await bench.open(("quick", NOTHING), ("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.exchange.close()
    await bench.exchange.step()
    assert [(await bench.row(job)).state for job in jobs] == [State.COMPLETED, State.AVAILABLE]
    assert bench.exchange.is_delivered


async def test_a_claim_answered_after_closing_is_released_not_run() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    gate = bench.store.hold("exchange", is_back=True)
    step = asyncio.ensure_future(bench.exchange.step())
    await gate.entered.wait()
    bench.exchange.close()
    gate.opened.set()
    await step
    await bench.settle()
    assert (await bench.row(job)).state is State.AVAILABLE
    assert not bench.ended


# the deadline


async def test_s8_nothing_is_claimed_past_the_deadline() -> None:
    bench = Bench(quick)
    await bench.open(("quick", NOTHING))
    bench.clock.advance(TIMING.ttl - TIMING.margin)
    await bench.exchange.step()
    assert "exchange" not in bench.store.calls


async def test_s8_claims_answered_after_the_deadline_are_released_not_run() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    gate = bench.store.hold("exchange", is_back=True)
    step = asyncio.ensure_future(bench.exchange.step())
    await gate.entered.wait()
    bench.clock.advance(TIMING.ttl - TIMING.margin)
    gate.opened.set()
    assert await step == 0.0
    assert bench.executor.running == {}
    await bench.settle()
    row = await bench.row(job)
    assert (row.state, row.crashes, row.failures, row.attempts) == (State.AVAILABLE, 0, 0, ())


async def test_l8_an_outcome_is_delivered_past_the_deadline_and_a_renewed_lease_resumes_work() -> None:
    bench = Bench(quick, slots=1)
    jobs = await bench.open(("quick", NOTHING), ("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.store.is_out = True
    for _ in range(3):
        bench.clock.advance(10.0)
        with pytest.raises(StoreUnavailable):
            await bench.exchange.step()
    assert len(bench.exchange.undelivered) == 1
    bench.store.is_out = False
    await bench.exchange.step()
    assert [(await bench.row(job)).state for job in jobs] == [State.COMPLETED, State.AVAILABLE]
    await bench.memory.beat([LEASE.id])
    bench.beat()
    await bench.exchange.step()
    await bench.until_ended(2)


# unknown results


async def test_s15_a_claim_whose_answer_was_lost_is_released_free_and_run_later() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    bench.store.lose_answer("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    assert (await bench.row(job)).state is State.RUNNING
    bench.store.calls.clear()
    bench.exchange.close()
    await bench.exchange.step()
    assert bench.store.calls[:2] == ["held", "exchange"]
    row = await bench.row(job)
    assert (row.state, row.crashes, row.failures, row.attempts) == (State.AVAILABLE, 0, 0, ())
    assert not bench.ended


async def test_s15_a_claim_that_arrives_after_its_audit_is_found_by_the_next() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    bench.store.delay("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    bench.exchange.close()
    await bench.exchange.audit()
    assert bench.exchange.is_delivered
    await bench.store.arrive()
    assert (await bench.row(job)).state is State.RUNNING
    bench.exchange.request_audit()
    await bench.exchange.step()
    assert (await bench.row(job)).state is State.AVAILABLE


async def test_s15_the_first_code_after_a_lost_claim_answer_is_the_first_attempt() -> None:
    bench = Bench(forever)
    await bench.memory.open_lease(LEASE)
    job = NewJob(id=bench.chance.uuid7(), task="forever", payload=NOTHING, policy=Policy(), expires_in=60.0)
    await bench.memory.enqueue(bench.chance.uuid4(), [job])
    unclaimed = await bench.row(job.id)
    bench.clock.advance(1.0)
    bench.store.lose_answer("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    bench.exchange.close()
    await bench.exchange.step()
    assert await bench.row(job.id) == structs.replace(unclaimed, token=Token(None, 1)), "as if it had never been claimed"
    bench.exchange.is_closed = False
    await bench.exchange.step()
    assert bench.executor.running[job.id].claim.job.attempt == 1


async def test_s15_an_audit_waits_until_the_claim_in_flight_is_answered() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    gate = bench.store.hold("exchange", is_back=True)
    service = Service("exchange", bench.exchange.step, events=bench.log.events, chance=bench.chance, longest_pause=1.0)
    running = asyncio.ensure_future(service.run())
    await gate.entered.wait()
    bench.exchange.request_audit()
    service.wake.set()
    await turns()
    assert "held" not in bench.store.calls
    gate.opened.set()
    await turns()
    assert bench.store.calls.count("held") == 1
    assert bench.exchange.is_delivered
    assert list(bench.executor.running) == [job]
    running.cancel()


async def test_s10_after_an_unknown_settle_the_same_outcome_is_sent_again_and_applied_once() -> None:
    bench = Bench(again)
    (job,) = await bench.open(("again", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.exchange.close()
    bench.store.lose_answer("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    await bench.exchange.step()
    assert bench.exchange.is_delivered
    row = await bench.row(job)
    assert (row.state, row.failures, len(row.attempts)) == (State.AVAILABLE, 1, 1)
    assert bench.log.names().count("job.retried") == 1
    assert "job.lost" not in bench.log.names()


async def test_s15_a_settle_that_arrives_late_does_not_touch_the_next_attempt() -> None:
    bench = Bench(again)
    (job,) = await bench.open(("again", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.exchange.close()
    bench.store.delay("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    await bench.exchange.step()
    bench.exchange.is_closed = False
    await bench.exchange.step()
    second = (await bench.row(job)).token
    await bench.store.arrive()
    row = await bench.row(job)
    assert (row.state, row.token, row.failures) == (State.RUNNING, second, 1)
    await bench.until_ended(2)


async def test_l4_a_worker_that_receives_no_answers_claims_nothing_until_one_arrives() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    for _ in range(3):
        bench.store.lose_answer("exchange")
        with pytest.raises(StoreUnavailable):
            await bench.exchange.step()
    row = await bench.row(job)
    assert (row.state, row.attempt, row.token.number) == (State.AVAILABLE, 0, 1), "claimed once, released, and left to others"
    assert await bench.exchange.step() == 0.0
    await bench.exchange.step()
    assert list(bench.executor.running) == [job]


async def test_a_failed_audit_is_repeated_before_anything_else() -> None:
    bench = Bench(quick)
    await bench.open()
    bench.exchange.request_audit()
    bench.store.fail("held")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    await bench.exchange.step()
    assert bench.store.calls[:3] == ["held", "held", "exchange"]


async def test_an_audit_requested_during_another_one_is_not_forgotten() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    await bench.exchange.step()
    bench.exchange.request_audit()
    gate = bench.store.hold("held", is_back=True)
    step = asyncio.ensure_future(bench.exchange.step())
    await gate.entered.wait()
    await bench.memory.request_cancel([job])
    bench.exchange.request_audit()
    gate.opened.set()
    await step
    assert bench.ended == []
    await bench.exchange.step()
    await bench.until_ended()


# lost


async def test_s3_the_audit_stops_a_job_that_the_store_records_for_another_worker() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    await bench.exchange.step()
    await take(bench, job)
    bench.exchange.request_audit()
    await bench.exchange.step()
    await bench.until_ended()
    assert bench.ended[0].transition is None
    await bench.exchange.step()
    row = await bench.row(job)
    assert (row.state, row.worker) == (State.RUNNING, "worker-2")
    assert [fields["job"] for fields in bench.log.of("job.lost")] == [job]


async def test_s3_a_job_claimed_during_an_audit_is_not_taken_for_lost() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    gate = bench.store.hold("held", is_back=True)
    audit = asyncio.ensure_future(bench.exchange.audit())
    await gate.entered.wait()
    await bench.exchange.step()
    gate.opened.set()
    await audit
    await turns()
    assert list(bench.executor.running) == [job]
    assert not bench.ended


async def test_s15_a_job_claimed_and_started_during_an_audit_is_not_released() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    gate = bench.store.hold("held")
    audit = asyncio.ensure_future(bench.exchange.audit())
    await gate.entered.wait()
    await bench.exchange.step()
    gate.opened.set()
    await audit
    assert bench.exchange.is_delivered
    assert list(bench.executor.running) == [job]


async def test_a_job_settled_during_an_audit_is_neither_lost_nor_released() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    gate = bench.store.hold("held", is_back=True)
    audit = asyncio.ensure_future(bench.exchange.audit())
    await gate.entered.wait()
    await bench.until_ended()
    await bench.exchange.step()
    gate.opened.set()
    await audit
    await bench.settle()
    assert (await bench.row(job)).state is State.COMPLETED
    assert "job.lost" not in bench.log.names()


@pytest.mark.parametrize("fails", [False, True])
async def test_an_outcome_that_comes_too_late_is_kept_on_its_own_attempt(fails: bool) -> None:
    async def handler() -> str:
        if fails:
            raise ValueError("too late as well")
        return "late"

    bench = Bench(handler)
    (job,) = await bench.open(("handler", NOTHING))
    await bench.exchange.step()
    await take(bench, job)
    await bench.until_ended()
    await bench.settle()
    row = await bench.row(job)
    assert (row.state, row.worker, row.result) == (State.RUNNING, "worker-2", None)
    (attempt,) = row.attempts
    assert (attempt.worker, attempt.outcome) == ("worker-1", AttemptOutcome.CRASHED)
    if fails:
        assert str(attempt.error) == "ValueError: too late as well"
    else:
        assert attempt.late_result == b'"late"'
    assert len(bench.log.of("job.lost")) == 1


async def test_a_late_outcome_is_applied_while_its_job_has_not_been_rescued() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    await bench.memory.end_lease(LEASE.id, LeaseEnd(RescueReason.EXPIRED))
    await bench.until_ended()
    await bench.exchange.step()
    assert (await bench.row(job)).state is State.COMPLETED


async def test_a_late_result_whose_note_had_no_answer_is_noted_again_and_delays_no_claim() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    await take(bench, job)
    await bench.until_ended()
    bench.store.fail("annotate", times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await bench.exchange.step()
        assert not bench.exchange.is_delivered
    assert bench.store.calls.count("exchange") == 3, "claiming went on"
    await bench.exchange.step()
    assert (await bench.row(job)).attempts[0].late_result == b'"done"'


async def test_the_outcome_of_a_missing_job_is_dropped_and_not_reported_as_lost() -> None:
    bench = Bench(quick)
    empty = bench.memory.snapshot()
    (job,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.memory.restore(empty)
    bench.exchange.close()
    await bench.exchange.step()
    assert bench.exchange.is_delivered
    assert [fields["job"] for fields in bench.log.of("job.missing")] == [job]
    assert "job.lost" not in bench.log.names()


@pytest.mark.parametrize(("policy", "state"), [(CrashPolicy.RETRY, State.AVAILABLE), (CrashPolicy.HOLD, State.HELD)])
async def test_a_job_given_up_wrongly_is_released_as_code_that_ran(policy: CrashPolicy, state: State) -> None:
    async def handler(job: Job) -> None:
        raise JobLost("of another job, as it happens")

    bench = Bench(define(handler, on_crash=policy))
    (job,) = await bench.open(("handler", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.exchange.close()
    bench.exchange.request_audit()
    await bench.exchange.step()
    row = await bench.row(job)
    assert (row.state, [attempt.outcome for attempt in row.attempts]) == (state, [AttemptOutcome.RELEASED])


async def test_s2_a_claim_of_a_job_whose_former_attempt_still_runs_here_is_released_not_run() -> None:
    bench = Bench(forever)
    await bench.memory.open_lease(LEASE)
    (job,) = await bench.open(("forever", NOTHING))
    unclaimed = bench.memory.snapshot()
    await bench.exchange.step()
    first = (await bench.row(job)).token
    bench.memory.restore(unclaimed)
    bench.exchange.hinted(Hint())
    await bench.exchange.step()
    assert bench.executor.running[job].claim.job.token == first
    second = (await bench.row(job)).token
    assert second.number == first.number, "the restored store has forgotten the first claim"
    assert second != first
    bench.clock.advance(0.5)
    bench.exchange.request_audit()
    await bench.exchange.step()
    assert (await bench.row(job)).token == second, "kept: if released, the worker would claim it again at once"
    bench.exchange.close()
    await bench.exchange.step()
    await bench.until_ended()
    assert bench.ended[0].transition is None
    row = await bench.row(job)
    assert (row.state, row.available_at) == (State.AVAILABLE, row.created_at), "it keeps its position in the queue"


# cancelling


async def test_an_operators_cancellation_found_by_the_audit_stops_the_handler_and_ends_the_job() -> None:
    bench = Bench(forever)
    (job,) = await bench.open(("forever", NOTHING))
    await bench.exchange.step()
    await bench.memory.request_cancel([job])
    bench.exchange.request_audit()
    await bench.exchange.step()
    await bench.until_ended()
    await bench.settle()
    row = await bench.row(job)
    assert (row.state, row.failures) == (State.CANCELLED, 0)
    assert len(bench.log.of("job.cancelled")) == 1


async def test_the_exchange_is_idle_only_when_nothing_runs_and_nothing_waits_now_or_later() -> None:
    bench = Bench(again)
    await bench.open(("again", NOTHING))
    assert not bench.exchange.is_idle
    await bench.exchange.step()
    assert not bench.exchange.is_idle, "it runs"
    await bench.until_ended()
    retried = bench.ended[0].transition
    assert retried is not None
    bench.exchange.add(structs.replace(bench.ended[0], transition=structs.replace(retried, delay=3600.0)))
    await bench.exchange.step()
    await bench.exchange.step()
    assert not bench.exchange.is_idle, "it is due later"
    bench.clock.advance(3600.0)
    await bench.memory.beat([LEASE.id])
    bench.beat()
    for attempts in (2, 3):
        await bench.exchange.step()
        await bench.until_ended(attempts)
    await bench.exchange.step()
    await bench.exchange.step()
    assert bench.exchange.is_idle


async def test_the_exchange_is_not_idle_while_a_claim_is_in_flight() -> None:
    bench = Bench(forever)
    await bench.open()
    await bench.exchange.step()
    assert bench.exchange.is_idle
    await bench.open(("forever", NOTHING))
    bench.exchange.hinted(Hint("default"))
    gate = bench.store.hold("exchange", is_back=True)
    step = asyncio.ensure_future(bench.exchange.step())
    await gate.entered.wait()
    assert not bench.exchange.is_idle
    gate.opened.set()
    await step

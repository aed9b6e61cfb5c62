"""Stopping a handler: once for each reason, free of charge, and never for a reason that concerns another attempt."""

import asyncio
from uuid import UUID

import pytest

from holdfast._core.job import AttemptOutcome, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import CrashPolicy
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import RunnerKind, TaskDefinition, define
from holdfast.errors import JobLost
from tests.engine.support import JOB, TIMING, Bench, claim, forever, turns


async def stopped(task: TaskDefinition, *reasons: Stop) -> Transition | None:
    """Start a job, let its handler come to its first wait, stop it; return its transition."""
    bench = Bench(task)
    bench.executor.start(claim(task))
    await turns()
    for why in reasons:
        bench.executor.stop(JOB, why)
    await bench.until_ended()
    return bench.ended[0].transition


@pytest.mark.parametrize(
    ("why", "to", "record"),
    [
        (Stop.CANCELLED, State.CANCELLED, AttemptOutcome.CANCELLED),
        (Stop.LATE, State.AVAILABLE, AttemptOutcome.RELEASED),
        (Stop.DRAINED, State.AVAILABLE, AttemptOutcome.RELEASED),
    ],
)
async def test_a_stopped_handler_moves_as_the_reason_requires_free_of_charge(
    why: Stop, to: State, record: AttemptOutcome
) -> None:
    moved = await stopped(define(forever), why)
    assert moved is not None
    assert (moved.to, moved.record, moved.failures, moved.crashes, moved.delay) == (to, record, 0, 0, None)


@pytest.mark.parametrize(("policy", "to"), [(CrashPolicy.HOLD, State.HELD), (CrashPolicy.FAIL, State.FAILED)])
async def test_interrupted_code_is_not_run_again_when_on_crash_forbids_it(policy: CrashPolicy, to: State) -> None:
    moved = await stopped(define(forever, on_crash=policy), Stop.DRAINED)
    assert moved is not None
    assert (moved.to, moved.crashes) == (to, 0)


async def test_s3_a_handler_stopped_because_its_job_was_lost_moves_nothing() -> None:
    assert await stopped(define(forever), Stop.LOST) is None
    assert await stopped(define(forever), Stop.CANCELLED, Stop.LOST) is None


@pytest.mark.parametrize("why", list(Stop))
@pytest.mark.parametrize("policy", list(CrashPolicy))
async def test_l2_a_handler_stopped_before_its_first_line_ends_without_having_run(why: Stop, policy: CrashPolicy) -> None:
    async def handler() -> None:
        raise AssertionError("it ran")

    task = define(handler, on_crash=policy)
    bench = Bench(task)
    bench.executor.start(claim(task))
    bench.executor.stop(JOB, why)
    await bench.until_ended()
    assert bench.executor.running == {}
    assert bench.reports.code_running == [True, False]
    moved = bench.ended[0].transition
    if why is Stop.LOST:
        assert moved is None
    elif why is Stop.CANCELLED:
        assert moved is not None
        assert moved.to is State.CANCELLED
    else:
        assert moved is not None
        assert (moved.to, moved.record) == (State.AVAILABLE, None)


async def test_a_handler_that_completes_in_spite_of_being_stopped_has_completed() -> None:
    async def handler() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "done anyway"
        return ""

    for why in (Stop.CANCELLED, Stop.LATE, Stop.DRAINED):
        moved = await stopped(define(handler), why)
        assert moved is not None
        assert (moved.to, moved.result) == (State.COMPLETED, b'"done anyway"')


async def test_the_result_of_a_lost_job_is_sent_and_the_store_decides() -> None:
    async def handler() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "late"
        return ""

    moved = await stopped(define(handler), Stop.LOST)
    assert moved is not None
    assert moved.result == b'"late"'


@pytest.mark.parametrize("why", [Stop.LATE, Stop.DRAINED])
async def test_l7_an_error_caused_by_the_workers_cancellation_costs_no_attempt(why: Stop) -> None:
    async def handler() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            raise ConnectionError("the connection was closed in the middle of a query") from None

    async def in_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(handler())

    for task in (define(handler), define(in_group)):
        moved = await stopped(task, why)
        assert moved is not None
        assert (moved.to, moved.failures, moved.record) == (State.AVAILABLE, 0, AttemptOutcome.RELEASED)


async def test_a_handlers_error_long_after_a_swallowed_cancellation_is_a_failure() -> None:
    going = asyncio.Event()

    async def handler() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            pass
        await going.wait()
        raise KeyError("x")

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await turns()
    bench.executor.stop(JOB, Stop.LATE)
    await turns()
    going.set()
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert (moved.failures, moved.record) == (1, AttemptOutcome.FAILED)


async def test_repeated_stops_do_not_interrupt_the_cleanup_of_a_handler() -> None:
    cleaning, cleaned = asyncio.Event(), list[str]()

    async def handler() -> None:
        try:
            await forever()
        finally:
            await cleaning.wait()
            cleaned.append("all")

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await turns()
    for _ in range(5):
        bench.executor.stop_all(Stop.DRAINED)
        await turns()
    cleaning.set()
    await bench.until_ended()
    assert cleaned == ["all"]


async def test_another_reason_stops_a_handler_that_ignored_the_first() -> None:
    async def handler() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            await forever()

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await turns()
    bench.executor.stop(JOB, Stop.CANCELLED)
    await turns()
    assert not bench.ended
    bench.executor.stop(JOB, Stop.DRAINED)
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert moved.to is State.CANCELLED


async def test_s3_a_stop_for_an_earlier_attempt_does_not_stop_this_one() -> None:
    task = define(forever)
    bench = Bench(task)
    bench.executor.start(claim(task, number=2))
    await turns()
    bench.executor.stop(JOB, Stop.LOST, token=Token(UUID(int=5), 1))
    await turns()
    assert not bench.ended
    bench.executor.stop(JOB, Stop.LOST, token=Token(UUID(int=5), 2))
    await bench.until_ended()


async def test_stopping_a_job_that_does_not_run_here_does_nothing() -> None:
    bench = Bench()
    bench.executor.stop(JOB, Stop.CANCELLED)
    assert bench.ended == []


async def test_every_call_of_a_handler_whose_job_was_lost_raises_job_lost() -> None:
    raised = list[str]()

    async def handler(job: Job) -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            pass
        for call in (job.progress(fraction=1.0), job.alive(), job.checkpoint(1)):
            try:
                await call
            except JobLost as error:
                raised.append(type(error).__name__)
        assert job.is_cancelled

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await turns()
    bench.executor.stop(JOB, Stop.LOST)
    await bench.until_ended()
    assert raised == ["JobLost"] * 3
    assert "report" not in bench.store.calls


async def test_s8_code_is_not_started_when_the_loop_was_blocked_past_the_deadline_since_its_claim() -> None:
    async def blocking() -> None:
        bench.clock.advance(TIMING.ttl)

    async def late() -> None:
        raise AssertionError("it ran")

    bench = Bench(blocking, late)
    await bench.open(("blocking", b"{}"), ("late", b"{}"))
    await bench.exchange.step()
    await bench.until_ended(2)
    moves = {each.claim.job.task: each.transition for each in bench.ended}
    assert moves["late"] is not None
    assert (moves["late"].to, moves["late"].record) == (State.AVAILABLE, None)


@pytest.mark.parametrize("why", list(Stop))
async def test_is_cancelled_is_true_for_every_reason_to_stop(why: Stop) -> None:
    seen = list[bool]()

    async def handler(job: Job) -> None:
        seen.append(job.is_cancelled)
        try:
            await forever()
        finally:
            seen.append(job.is_cancelled)

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await turns()
    bench.executor.stop(JOB, why)
    await bench.until_ended()
    assert seen == [False, True]


async def test_the_guard_still_knows_that_code_runs_when_one_of_several_handlers_ends() -> None:
    task = define(forever)
    bench = Bench(task)
    bench.executor.start(claim(task))
    bench.executor.start(claim(task, job=UUID(int=78)))
    await turns()
    bench.executor.stop(JOB, Stop.CANCELLED)
    await bench.until_ended()
    assert bench.reports.code_running == [True]
    bench.executor.stop_all(Stop.CANCELLED)
    await bench.until_ended(2)
    assert bench.reports.code_running == [True, False]
    assert bench.executor.count(RunnerKind.LOOP) == 0

"""Handlers in threads: a worker can only ask them to stop, and their code runs until they return."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast._core.job import AttemptOutcome, State
from holdfast._engine.runners.running import Stop
from holdfast._engine.runners.threads import ThreadRunner
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.tasks.job_context import JobContext
from holdfast._engine.tasks.registry import RunnerKind, define
from holdfast.errors import JobLost
from tests.engine.support import JOB, Bench, Held, claim, turns, until


async def test_a_handler_in_a_thread_gets_its_payload_and_its_result_completes_the_job() -> None:
    def add(job: SyncJob, a: int, b: int = 2) -> list[Any]:
        return [a + b, job.attempt]

    task = define(add)
    bench = Bench(task)
    bench.executor.start(claim(task, b'{"a": 40}'))
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert (moved.to, moved.result) == (State.COMPLETED, b"[42,1]")


@pytest.mark.parametrize(
    ("why", "to"), [(Stop.CANCELLED, State.CANCELLED), (Stop.LATE, State.AVAILABLE), (Stop.DRAINED, State.AVAILABLE)]
)
async def test_a_thread_that_saw_its_cancellation_and_returns_nothing_has_not_completed(why: Stop, to: State) -> None:
    held = Held()

    def handler(job: SyncJob) -> None:
        held.wait_here()
        assert job.is_cancelled

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await until(held.come.is_set)
    bench.executor.stop(JOB, why)
    await turns()
    assert not bench.ended, "its code has not stopped"
    held.set()
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert (moved.to, moved.failures, moved.crashes) == (to, 0, 0)


@pytest.mark.parametrize("looks", [True, False])
async def test_a_thread_that_completes_in_spite_of_its_cancellation_has_completed(looks: bool) -> None:
    held = Held()

    def handler(job: SyncJob) -> str | None:
        held.wait_here()
        return "done" if looks and job.is_cancelled else None

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await until(held.come.is_set)
    bench.executor.stop(JOB, Stop.CANCELLED)
    held.set()
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert (moved.to, moved.result) == (State.COMPLETED, b'"done"' if looks else b"null")


@pytest.mark.parametrize(("looks", "failures"), [(True, 0), (False, 1)])
async def test_l7_an_error_of_a_thread_that_saw_that_it_should_stop_costs_no_attempt(looks: bool, failures: int) -> None:
    held = Held()

    def handler(job: SyncJob) -> None:
        held.wait_here()
        if not looks or job.is_cancelled:
            raise OSError("interrupted")

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await until(held.come.is_set)
    bench.executor.stop(JOB, Stop.DRAINED)
    held.set()
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert moved.failures == failures


async def test_s8_the_job_of_a_thread_does_not_move_before_its_code_has_stopped() -> None:
    held = Held()

    def handler() -> None:
        held.wait_here()

    bench = Bench(handler)
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    await until(held.come.is_set)
    for why in (Stop.CANCELLED, Stop.DRAINED, Stop.LATE):
        bench.executor.stop(job, why)
        await turns()
        await bench.exchange.step()
    assert (await bench.row(job)).state is State.RUNNING
    assert bench.reports.code_running == [True]
    held.set()
    await bench.until_ended()
    await bench.settle()
    assert (await bench.row(job)).state is State.COMPLETED
    assert bench.reports.code_running == [True, False]


async def test_progress_and_checkpoints_of_a_thread_reach_the_store() -> None:
    saved = Held()

    def handler(job: SyncJob) -> object:
        job.progress(stage="walk", fraction=0.5, message="half")
        job.alive()
        job.checkpoint({"next": 3})
        saved.wait_here()
        return job.checkpoint_value

    bench = Bench(handler)
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    while not saved.come.is_set():
        await bench.writer.step()
        await turns(1)
    row = await bench.row(job)
    assert (row.stage, row.fraction, row.message, row.checkpoint) == ("walk", 0.5, "half", b'{"next":3}')
    saved.set()
    await bench.until_ended()
    moved = bench.ended[0].transition
    assert moved is not None
    assert moved.result == b'{"next":3}'


async def test_every_call_of_a_thread_whose_job_was_lost_raises_job_lost() -> None:
    held, raised = Held(), list[str]()

    def handler(job: SyncJob) -> str:
        held.wait_here()
        for call in (lambda: job.progress(fraction=1.0), job.alive, lambda: job.checkpoint(1)):
            try:
                call()
            except JobLost as error:
                raised.append(type(error).__name__)
        assert job.is_cancelled
        return "late"

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await until(held.come.is_set)
    bench.executor.stop(JOB, Stop.LOST)
    held.set()
    await bench.until_ended()
    assert raised == ["JobLost"] * 3


@pytest.mark.parametrize(("why", "error"), [(Stop.LATE, "CancelledError"), (Stop.LOST, "JobLost")])
async def test_l8_a_thread_that_waits_for_a_checkpoint_in_an_outage_can_be_stopped(why: Stop, error: str) -> None:
    raised = list[str]()

    def handler(job: SyncJob) -> None:
        try:
            job.checkpoint(1)
        except BaseException as seen:
            raised.append(type(seen).__name__)
            raise

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await until(lambda: bench.writer._waiters)
    bench.executor.stop(JOB, why)
    await bench.until_ended()
    assert raised == [error]
    moved = bench.ended[0].transition
    assert moved is None if why is Stop.LOST else moved is not None and moved.record is AttemptOutcome.RELEASED


async def test_threads_that_wait_do_not_hold_up_the_loop_or_each_other() -> None:
    held = [Held(), Held()]

    def handler(n: int) -> int:
        held[n].wait_here()
        return n

    bench = Bench(handler, threads=2)
    jobs = await bench.open(("handler", b'{"n": 0}'), ("handler", b'{"n": 1}'))
    await bench.exchange.step()
    await until(lambda: all(each.come.is_set() for each in held))
    assert bench.executor.count(RunnerKind.THREAD) == 2
    held[1].set()
    await bench.until_ended()
    await bench.settle()
    assert [(await bench.row(job)).state for job in jobs] == [State.RUNNING, State.COMPLETED]
    held[0].set()
    await bench.until_ended(2)


async def test_an_exit_out_of_a_thread_reaches_its_job_only() -> None:
    def handler() -> None:
        raise SystemExit(1)

    task = define(handler)
    bench = Bench(task)
    bench.executor.start(claim(task))
    await bench.until_ended()
    assert asyncio.get_running_loop().is_running()


async def test_calls_that_no_thread_took_end_when_the_threads_are_closed_and_later_ones_at_once() -> None:
    held, threads = Held(), ThreadRunner(1)
    context = cast(JobContext, SimpleNamespace(mark_cancelled=lambda: None, saw_cancellation=False))
    calls = [asyncio.ensure_future(threads.run_call(context, held.wait_here)) for _ in range(3)]
    await until(held.come.is_set)
    threads.close()
    calls.append(asyncio.ensure_future(threads.run_call(context, held.wait_here)))
    held.set()
    await asyncio.wait(calls)
    assert [call.cancelled() for call in calls] == [False, True, True, True]
    assert threads.unbegun == 0

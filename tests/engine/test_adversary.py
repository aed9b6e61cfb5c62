"""Attacks on the engine, and the promises that it must keep under each of them."""

import asyncio
import sys

import pytest
from msgspec import Struct

from holdfast import App
from holdfast._core import lifecycle
from holdfast._core.job import State
from holdfast._core.outcome import Done, Raised
from holdfast._core.payload import RESULT_LIMIT
from holdfast._core.policy import Backoff
from holdfast._engine import messages as messages_of_workers
from holdfast._engine.runners import messages
from holdfast._engine.runners.options import homes
from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import define
from holdfast._system.channel import MOST_UNSENT
from holdfast.errors import ConfigurationError, JobLost
from tests.engine.runners.test_process import Scene
from tests.engine.runners_support import RunnerBench, processed
from tests.engine.support import TIMING, Bench, Held, claim, forever, stubborn, turns, until
from tests.engine.worker.test_worker import Office, passing
from tests.event_loops import beside


async def test_code_that_a_handler_left_running_takes_no_job_from_the_next_attempt() -> None:
    attempts = list[Job]()

    async def handler(job: Job) -> None:
        attempts.append(job)
        if job.attempt == 1:
            raise ValueError("again, please")
        saving = asyncio.ensure_future(job.checkpoint(2))
        await turns(1)
        with pytest.raises(JobLost):
            await attempts[0].alive()  # a heartbeat of the first attempt, which no code ended
        await saving

    bench = Bench(handler)
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    await bench.until_ended()
    await bench.settle()
    bench.clock.advance(2.0)
    bench.beat()
    await bench.exchange.step()
    await until(lambda: bench.writer._waiters)
    await bench.writer.step()
    await bench.until_ended(2)
    await bench.settle()
    assert (await bench.row(job)).state is State.COMPLETED


@pytest.mark.virtual_time
async def test_the_latest_of_many_progress_reports_counts_when_a_job_is_judged() -> None:
    """A worker reports progress at most every 5 % of the limit: with one hour, every three minutes."""
    reported_at = list[float]()

    async def handler(job: Job) -> None:
        await job.alive()
        await passing(170)
        await job.alive()
        reported_at.append(asyncio.get_running_loop().time())
        await forever()

    office = Office(define(handler, progress_within="1h"))
    await office.enqueue("handler")
    await office.open()
    beside(office.keep_beating())
    await passing(170 + 2 * TIMING.beat)
    assert max(message.at for message in office.received(messages_of_workers.AttemptProgressed)) == reported_at[0]


@pytest.mark.parametrize("spread", [float("inf"), float("nan"), -0.1, 1.1])
def test_a_backoff_that_no_store_can_write_is_refused_where_it_is_defined(spread: float) -> None:
    """Without the check, the first failure of one job would keep its worker from settling any other job."""
    with pytest.raises(ConfigurationError, match="spread"):
        define(stubborn, backoff=Backoff.exponential("1s", spread=spread))
    with pytest.raises(ConfigurationError, match="backoff="):
        define(stubborn, backoff=Backoff("exponential", ()))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_a_payload_whose_constructor_exits_costs_its_job_an_attempt(error: BaseException) -> None:
    class Strange(Struct):
        n: int

        def __post_init__(self) -> None:
            raise error

    def handler(strange: Strange) -> None: ...

    handler.__annotations__ = {"strange": Strange, "return": None}
    async with Scene(handler) as scene:
        await scene.begin(b'{"strange": {"n": 1}}')
        outcome = await scene.outcome()
        assert isinstance(outcome, Raised)
        assert outcome.failure.type == type(error).__name__


async def test_a_job_whose_payload_kills_its_process_is_charged_for_it() -> None:
    """Without the charge, the job would be released free and kill one process after another."""
    held = Held()

    class Deadly(Struct):
        n: int

        def __post_init__(self) -> None:
            held.wait_here()

    def handler(deadly: Deadly) -> None: ...

    handler.__annotations__ = {"deadly": Deadly, "return": None}
    async with Scene(handler) as scene:
        try:
            await scene.begin(b'{"deadly": {"n": 1}}')  # the runner reports the start before it decodes the payload
            await until(held.come.is_set)
        finally:
            held.set()
        assert await scene.outcome() == Done(b"null")


async def test_the_clocks_of_a_job_do_not_run_while_its_runner_process_starts() -> None:
    bench = RunnerBench(processed(timeout="5s"))
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    child = await bench.child()
    assert bench.reports.begins == []
    child.say(messages.Ready())
    await child.next(messages.Run)
    assert bench.reports.begins == []
    child.say(messages.RunStarted(), messages.RunStarted(("new",)))
    await until(lambda: bench.reports.begins)
    child.say(messages.RunEnded(None, 1))
    await bench.until_ended()
    assert bench.reports.begins == [job]


async def test_s8_a_runner_that_gets_ready_past_the_deadline_starts_nothing() -> None:
    """Other code may have blocked the loop, so that the worker has not yet stopped its jobs."""
    bench = RunnerBench(processed())
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    child = await bench.child()
    bench.clock.advance(TIMING.ttl)
    child.say(messages.Ready())
    await bench.until_ended()
    assert child.received == []
    await bench.settle()
    row = await bench.row(job)
    assert (row.state, row.crashes, row.failures) == (State.AVAILABLE, 0, 0)


async def test_a_job_whose_last_attempt_still_runs_here_is_not_claimed_and_released_in_a_loop() -> None:
    async def handler() -> None:
        await stubborn()

    bench = Bench(handler)
    (job,) = await bench.open(("handler", b"{}"))
    await bench.exchange.step()
    await turns()
    active = bench.executor.running[job].claim.job
    await bench.memory.exchange([lifecycle.release(active, code_ran=True)])  # as the judgement of another supervisor does
    for _ in range(20):
        await bench.exchange.step()
    row = await bench.row(job)
    assert row.token.number == active.token.number + 1
    bench.clock.advance(1.0)
    bench.beat()
    for _ in range(20):
        await bench.exchange.step()
    assert (await bench.row(job)).token.number == active.token.number + 2


def test_l4_a_runner_of_an_embedded_worker_knows_the_handlers_of_all_modules() -> None:
    """A runner once knew only the first module: jobs of the second were released, unstarted, in a loop."""
    app = App("memory://")
    for name in ("one", "two"):

        def handler() -> None: ...

        handler.__name__, handler.__module__ = name, f"shop.{name}"
        app.task(process=True)(handler)
    assert homes(app.registry) == ("shop.one", "shop.two")


def test_a_handler_in_a_script_is_refused_though_its_app_is_in_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler() -> None: ...

    handler.__module__ = "__main__"
    app = App("memory://")
    app.task(process=True)(handler)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with pytest.raises(ConfigurationError, match="in a script"):
        homes(app.registry)


def test_l8_results_too_large_for_the_pipe_do_not_close_it_during_an_outage() -> None:
    active = claim(define(stubborn)).job
    large = lifecycle.finish(active, Done(b" " * RESULT_LIMIT), jitter=0.0)
    message = messages_of_workers.UndeliveredOutcomes.of([large] * 300)
    assert len(messages_of_workers.encode(message)) < MOST_UNSENT / 2
    assert len(message.transitions) == 64
    small = lifecycle.cancelled(active)
    assert messages_of_workers.UndeliveredOutcomes.of([small] * 300).transitions == (small,) * 300

"""Handlers in threads and in runners of simulated workers: they run beside the event loop, uninterrupted, and die with their process."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, cast

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Claim, State, Token
from holdfast._engine.worker.prefetch import Prefetch
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._ports.host import Exit
from holdfast.errors import JobLost
from proof.checker.history import CRASHED, Phase
from proof.simulator.loop import Process
from proof.simulator.plans import WATCHED, Mode, Plan, draw_for
from proof.simulator.profiles import Brand
from proof.simulator.programs import SCENE, Scene
from proof.simulator.simulation import perform
from proof.simulator.threads import PROCESSES, THREADED, SimThreads, ThreadJob
from tests.engine.worker.test_progress_writer import active_job
from tests.simulation.hand_made_histories import FIRST, JOB, WORKER, Tale
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_promises import OPEN, begun


class Reports:
    """A progress writer that records the times of reports."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.times: list[float] = []
        self._now = now

    def progress(self, *_: object, **__: object) -> None:
        self.times.append(self._now())


class ThreadProcess:
    """A worker's process whose threads run one handler: ``code``, awaited."""

    def __init__(self, stage: Stage, code: Callable[[Any], Coroutine[Any, Any, object]]) -> None:
        self.loop, self.process = stage.loop, stage.machine.process("worker")
        self.reports = Reports(stage.loop.time)
        self.threads = SimThreads(stage.loop, self.process, 1)
        claim = Claim(job=active_job(), payload=b"{}")
        self.job: ThreadJob = self.threads.context(claim, cast(ProgressWriter, self.reports))

        self._code = code

    def run(self) -> "asyncio.Task[Any]":
        context = self.loop.context_of(self.process)
        context.run(SCENE.set, cast(Scene, None))
        return self.loop.create_task(self.threads.run_call(self.job, lambda: self._code(self.job)), context=context)


def busy(process: Process, stage: Stage, seconds: float) -> None:
    """Block the event loop of the process for that many seconds."""
    process.freeze("busy")
    stage.loop.call_later(seconds, process.thaw, "busy", context=stage.loop.outside)


def test_a_thread_runs_while_the_event_loop_is_busy_and_its_reports_wait() -> None:
    async def play(stage: Stage) -> None:
        steps: list[float] = []

        async def code(job: ThreadJob) -> str:
            await stage.clock.sleep(1.0)
            steps.append(stage.loop.time() - began)
            await job.progress(stage="half")
            steps.append(stage.loop.time() - began)
            return "done"

        threaded, began = ThreadProcess(stage, code), stage.loop.time()
        running = threaded.run()
        await stage.clock.sleep(0.1)
        busy(threaded.process, stage, 4.9)
        assert await running == "done"
        assert steps == pytest.approx([1.0, 5.0])
        assert threaded.reports.times == pytest.approx([began + 5.0])

    on_stage(play)


def test_a_thread_asked_to_stop_is_awaited_and_reports_nothing_once_the_job_is_lost() -> None:
    async def play(stage: Stage) -> None:
        refused: list[BaseException] = []

        async def code(job: ThreadJob) -> None:
            await stage.clock.sleep(5.0)
            assert job.is_cancelled
            try:
                await job.progress(stage="half")
            except JobLost as error:
                refused.append(error)

        threaded, began = ThreadProcess(stage, code), stage.loop.time()
        running = threaded.run()
        await stage.clock.sleep(1.0)
        threaded.job.mark_lost()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.loop.time() - began == pytest.approx(5.0)
        assert len(refused) == 1
        assert not threaded.reports.times

    on_stage(play)


def test_a_thread_dies_with_its_process_and_is_stopped_with_it() -> None:
    async def play(stage: Stage) -> None:
        steps: list[float] = []

        async def code(job: ThreadJob) -> None:
            del job
            while True:
                await stage.clock.sleep(1.0)
                steps.append(stage.loop.time())

        threaded = ThreadProcess(stage, code)
        threaded.run()
        await stage.clock.sleep(1.5)
        threaded.process.freeze()
        await stage.clock.sleep(5.0)
        assert len(steps) == 1
        threaded.process.thaw()
        await stage.clock.sleep(0.5)
        assert len(steps) == 2
        threaded.process.end(Exit(signal="SIGKILL"))
        await stage.clock.sleep(5.0)
        assert len(steps) == 2

    on_stage(play)


@pytest.mark.parametrize("names", [THREADED, PROCESSES])
def test_some_safety_worlds_have_handlers_that_cannot_be_interrupted(names: tuple[str, ...]) -> None:
    plans = [draw_for(seed, Brand.MEMORY) for seed in range(400)]
    found = [plan for plan in plans if not {*names}.isdisjoint(plan.tasks)]
    assert 30 < len(found) < 150
    assert {plan.mode for plan in found} <= {*WATCHED}


def test_a_handler_in_a_runner_that_crashes_costs_its_worker_no_other_job_and_is_charged() -> None:
    outcome = perform(
        structs.replace(draw_for(2, Brand.MEMORY), tasks=("process_crashing", "quick"), strikes=(), mode=Mode.SAFETY), 2
    )
    assert outcome.is_clean, outcome.explain()
    crashed = {(event.job, event.token) for event in outcome.history if event.note == CRASHED}
    settled = {
        (event.job, event.by.token)
        for event in outcome.history
        if event.what == "job" and event.by is not None and event.by.record is AttemptOutcome.CRASHED
    }
    assert crashed
    assert crashed & settled


def test_a_crash_of_a_runner_is_charged_only_if_there_was_one() -> None:
    def tale(note: str) -> Tale:
        history = begun().say("handler.end", Phase.LIFE, WORKER, job=JOB, token=FIRST, note=note)
        return history.settle(
            state=State.AVAILABLE, token=Token(None, FIRST.number), lease=None, crashes=1, record=AttemptOutcome.CRASHED
        )

    assert tale(CRASHED).check(OPEN).verdict("S9")
    assert not tale("").check(OPEN).verdict("S9")


@pytest.mark.parametrize("kind", [THREADED, pytest.param(PROCESSES, marks=pytest.mark.prove)])
def test_workers_whose_handlers_all_run_in_threads_or_runners_claim_ahead_and_break_no_promise(
    kind: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, add = list[int](), Prefetch.add

    def counted(self: Prefetch, claims: Iterable[Claim], voids: int | None) -> None:
        taken.append(len(kept := list(claims)))
        add(self, kept, voids)

    monkeypatch.setattr(Prefetch, "add", counted)
    plain = [seed for seed in range(60) if _is_plain(draw_for(seed, Brand.MEMORY))]
    for seed in plain[:12]:
        outcome = perform(structs.replace(draw_for(seed, Brand.MEMORY), tasks=kind, ahead=3), seed)
        assert outcome.is_clean, outcome.explain()
    assert sum(taken) > 20


def _is_plain(plan: Plan) -> bool:
    return plan.mode in WATCHED and not (plan.rows or plan.flows or plan.schedules)

"""Handlers in threads and in runners of simulated workers: beside the event loop, asked and never interrupted, dead with their process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Claim, State, Token
from holdfast._engine.tasks.context import SyncJob
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._ports.host import Exit
from holdfast.errors import JobLost
from holdfast.testing.history import CRASHED, Phase
from proof.simulator.loop import Process
from proof.simulator.plans import WATCHED, Mode, draw_for
from proof.simulator.profiles import Brand
from proof.simulator.programs import SCENE, Scene
from proof.simulator.simulation import perform
from proof.simulator.threads import PROCESSES, THREADED, SimThreads, ThreadJob
from tests.engine.worker.test_progress_writer import active_job
from tests.simulation.hand_made_histories import FIRST, JOB, WORKER, Tale
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_promises import OPEN, begun


class Reports:
    """Notes when progress comes, on which clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.heard: list[float] = []
        self._now = now

    def progress(self, *_: object, **__: object) -> None:
        self.heard.append(self._now())


class Place:
    """A worker's process whose threads run one handler: ``code``, awaited."""

    def __init__(self, stage: Stage, code: Callable[[Any], Coroutine[Any, Any, object]]) -> None:
        self.loop, self.process = stage.loop, stage.machine.process("worker")
        self.reports = Reports(stage.loop.time)
        self.threads = SimThreads(stage.loop, self.process)
        claim = Claim(job=active_job(), payload=b"{}")
        self.job: ThreadJob = self.threads.context(claim, cast(ProgressWriter, self.reports))

        def handler(job: SyncJob) -> object:
            return code(job)

        self._task: TaskDefinition = define(handler, name="task")

    def run(self) -> "asyncio.Task[Any]":
        """As the worker would."""
        context = self.loop.context_of(self.process)
        context.run(SCENE.set, cast(Scene, None))
        return self.loop.create_task(self.threads.run(self._task, self.job, {}), context=context)


def busy(process: Process, stage: Stage, seconds: float) -> None:
    """Its event loop runs nothing for so long."""
    process.freeze("busy")
    stage.loop.call_later(seconds, process.thaw, "busy", context=stage.loop.outside)


def test_a_thread_goes_on_while_the_event_loop_is_busy_and_its_words_wait_for_it() -> None:
    async def play(stage: Stage) -> None:
        steps: list[float] = []

        async def code(job: ThreadJob) -> str:
            await stage.clock.sleep(1.0)
            steps.append(stage.loop.time() - began)
            await job.progress(stage="half")
            steps.append(stage.loop.time() - began)
            return "done"

        place, began = Place(stage, code), stage.loop.time()
        running = place.run()
        await stage.clock.sleep(0.1)
        busy(place.process, stage, 4.9)
        assert await running == "done"
        assert steps == pytest.approx([1.0, 5.0])
        assert place.reports.heard == pytest.approx([began + 5.0])

    on_stage(play)


def test_who_is_told_to_stop_is_waited_for_until_his_own_end_and_may_say_nothing_more_once_the_job_is_lost() -> None:
    async def play(stage: Stage) -> None:
        refused: list[BaseException] = []

        async def code(job: ThreadJob) -> None:
            await stage.clock.sleep(5.0)
            assert job.is_cancelled
            try:
                await job.progress(stage="half")
            except JobLost as error:
                refused.append(error)

        place, began = Place(stage, code), stage.loop.time()
        running = place.run()
        await stage.clock.sleep(1.0)
        place.job.mark_lost()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert stage.loop.time() - began == pytest.approx(5.0)
        assert len(refused) == 1
        assert not place.reports.heard

    on_stage(play)


def test_a_thread_dies_with_its_process_and_is_stopped_with_it() -> None:
    async def play(stage: Stage) -> None:
        steps: list[float] = []

        async def code(job: ThreadJob) -> None:
            del job
            while True:
                await stage.clock.sleep(1.0)
                steps.append(stage.loop.time())

        place = Place(stage, code)
        place.run()
        await stage.clock.sleep(1.5)
        place.process.freeze()
        await stage.clock.sleep(5.0)
        assert len(steps) == 1
        place.process.thaw()
        await stage.clock.sleep(0.5)
        assert len(steps) == 2
        place.process.end(Exit(signal="SIGKILL"))
        await stage.clock.sleep(5.0)
        assert len(steps) == 2

    on_stage(play)


@pytest.mark.parametrize("names", [THREADED, PROCESSES])
def test_some_worlds_in_which_anything_may_happen_have_handlers_that_nobody_can_interrupt(names: tuple[str, ...]) -> None:
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
        told = begun().say("handler.end", Phase.LIFE, WORKER, job=JOB, token=FIRST, note=note)
        return told.settle(
            state=State.AVAILABLE, token=Token(None, FIRST.number), lease=None, crashes=1, record=AttemptOutcome.CRASHED
        )

    assert tale(CRASHED).check(OPEN).verdict("S9")
    assert not tale("").check(OPEN).verdict("S9")

"""A job that goes to a runner at once, because one is ready: it is stopped, killed and charged as one whose runner starts for it."""

import asyncio

import pytest

from holdfast._core.job import AttemptOutcome, State
from holdfast._engine.runners import messages
from holdfast._engine.runners.options import Runners
from holdfast._engine.runners.running import Stop
from holdfast._ports.host import Exit
from tests.engine.runners.test_pool import OTHER_JOB, moved_in
from tests.engine.runners_support import DONE, GRACE, STACKS, FakeChild, RunnerBench, processed
from tests.engine.support import claim, turns

TASK = processed(progress_within="60s", timeout="600s")


async def ready(runners: Runners | None = None) -> tuple[RunnerBench, FakeChild]:
    """Return a worker with one runner, which has completed one job and runs another one."""
    bench = RunnerBench(TASK, runners=runners)
    bench.executor.start(claim(TASK))
    child = await bench.begun_child()
    child.say(DONE)
    await bench.until_ended()
    bench.executor.start(claim(TASK, job=OTHER_JOB))
    await child.next(messages.Run)
    return bench, child


@pytest.mark.virtual_time
async def test_s9_a_ready_runner_that_dies_charges_a_crash_only_once_code_has_begun() -> None:
    for has_begun in (True, False):
        bench, child = await ready()
        if has_begun:
            child.say(messages.RunStarted())
        child.die(Exit(signal="SIGSEGV"))
        await bench.until_ended(2)
        moved = moved_in(bench, 1)
        assert (moved.to, moved.crashes) == (State.AVAILABLE, int(has_begun))
        assert (moved.record is AttemptOutcome.CRASHED) is has_begun


@pytest.mark.virtual_time
async def test_code_in_a_ready_runner_that_does_not_stop_is_killed_after_the_grace_with_its_stacks() -> None:
    bench, child = await ready()
    child.say(messages.RunStarted())
    await turns()
    stopped_at = asyncio.get_running_loop().time()
    bench.executor.stop(OTHER_JOB, Stop.CANCELLED)
    await child.next(messages.CancelRequested)
    await bench.until_ended(2)
    assert child.is_killed
    assert GRACE <= asyncio.get_running_loop().time() - stopped_at <= GRACE + 0.01
    assert (moved_in(bench, 1).to, moved_in(bench, 1).stacks) == (State.CANCELLED, STACKS)


@pytest.mark.virtual_time
@pytest.mark.parametrize("late", range(6))
async def test_an_outcome_that_comes_with_the_request_to_stop_counts(late: int) -> None:
    bench, child = await ready()
    child.say(messages.RunStarted(), DONE)
    await turns(late)
    bench.executor.stop(OTHER_JOB, Stop.DRAINED)
    await bench.until_ended(2)
    assert moved_in(bench, 1).to is State.COMPLETED
    assert not child.is_killed


@pytest.mark.virtual_time
async def test_a_worn_runner_is_replaced_after_a_job_that_went_to_it_at_once() -> None:
    bench, child = await ready(Runners(kill_after=GRACE, max_jobs=2))
    child.say(messages.RunStarted(), DONE)
    await bench.until_ended(2)
    await child.next(messages.Shutdown)
    assert len(bench.host.children) == 2

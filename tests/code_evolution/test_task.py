"""The task as an application sees it."""

import asyncio
from pathlib import Path

import pytest
from analyzer.analysis import Reporter
from analyzer.errors import BadRepository, Unreachable
from analyzer.task import analyze, register

from holdfast import App, Job
from tests.code_evolution.support import FakeJob


def a_job_is_all_an_analysis_needs(job: Job) -> Reporter:
    """For the type checker."""
    return job


def test_it_registers_under_its_name() -> None:
    app = App("memory://")
    task = register(app)
    assert task.name == "analyze"
    definition = app.registry.get("analyze")
    assert definition is not None
    assert definition.fail_for == (BadRepository,)
    assert not issubclass(Unreachable, definition.fail_for)  # the network may come back


@pytest.mark.usefixtures("no_chart")
def test_called_it_runs_here_at_its_pace(sample: Path, tmp_path: Path) -> None:
    result = asyncio.run(analyze(FakeJob(), str(sample), str(tmp_path), batch=60, pace=0.001))  # type: ignore[arg-type]
    assert result["commits"] == 120


async def test_a_cancelled_wait_ends_at_once(sample: Path, tmp_path: Path) -> None:
    job = FakeJob()
    counted = asyncio.Event()

    def look(stage: str, fraction: float) -> bool:
        if fraction > 0.5:
            counted.set()
        return False

    job.cancel_at_progress = look
    task = asyncio.create_task(analyze(job, str(sample), str(tmp_path), batch=100, pace=200.0))  # type: ignore[arg-type]
    await counted.wait()
    while len(job.checkpoints) < 2:  # the wait begins after the checkpoint of the first batch
        await asyncio.wait((task,), timeout=0.01)
    task.cancel()
    await asyncio.wait((task,), timeout=5)
    assert task.cancelled()

"""Cancellation ends an analysis at once, wherever it is, and with it every process and thread."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.demo.analysis import Request, analyze_repository
from holdfast.demo.errors import ChartFailed
from holdfast.demo.processes import Children, Ended, Workshop
from tests.demo.support import FakeJob, analyze, at_once, children_of_this_process


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("holdfast-demo"):
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize("stage", ["clone", "walk", "count", "report"])
def test_in_every_stage_nothing_is_left_running(sample: Path, tmp_path: Path, stage: str) -> None:
    job = FakeJob(cancel_at_progress=lambda now, fraction: now == stage)
    with pytest.raises(asyncio.CancelledError):
        analyze(job, Request(str(sample), str(tmp_path), batch=7))
    assert children_of_this_process() == set()  # whatever the autouse fixture saw before


def test_a_server_which_never_answers_does_not_hold_a_cancelled_analysis(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        request = Request(f"http://127.0.0.1:{server.getsockname()[1]}/silent.git", str(tmp_path))

        async def main() -> None:
            analysis = asyncio.create_task(analyze_repository(FakeJob(), request, sleep=at_once))
            connection, _ = await asyncio.get_running_loop().run_in_executor(None, server.accept)
            assert children_of_this_process()
            analysis.cancel()
            done, _ = await asyncio.wait((analysis,), timeout=5)
            connection.close()
            assert done
            assert analysis.cancelled()

        asyncio.run(main())
    assert children_of_this_process() == set()


def test_cancelled_twice_it_still_tidies_up() -> None:
    async def main() -> None:
        started = threading.Event()
        release = threading.Event()

        def step() -> None:
            started.set()
            release.wait(5)

        async def work() -> None:
            async with Workshop() as workshop:
                await workshop.run(step)

        task = asyncio.create_task(work())
        await asyncio.get_running_loop().run_in_executor(None, started.wait)
        task.cancel()
        await asyncio.wait((task,), timeout=0.01)
        task.cancel()
        await asyncio.wait((task,), timeout=0.01)
        assert not task.done()  # its thread still works
        release.set()
        await asyncio.wait((task,), timeout=5)
        assert task.cancelled()

    asyncio.run(main())


def test_no_child_starts_after_the_end() -> None:
    children = Children()
    children.kill()
    with pytest.raises(Ended):
        children.start(["true"], environment={})


def test_a_chart_which_cannot_be_drawn_is_no_fault_of_the_repository(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.demo.analysis.sys.executable", "false")
    with pytest.raises(ChartFailed, match="exit code 1"):
        analyze(FakeJob(), Request(str(sample), str(tmp_path)))

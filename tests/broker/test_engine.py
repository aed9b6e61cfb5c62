"""An App on a broker does what it does on the broker's store: workers, workflows, steps, signals, events and checks."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast import App, Event, Job, Limit, Node, Unsupported, Workflow
from holdfast._system.clock import SystemClock
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from tests.broker.support import running


@pytest.fixture
def app() -> Iterator[App]:
    clock = SystemClock()
    settings = Settings.of("memory://", recovery_interval="0.1s")
    with running(MemoryStore(clock), clock, settings=settings, maintains=True) as broker:
        app = App(broker.url, poll_interval="1s")
        yield app
        app.close()


async def test_an_embedded_worker_runs_jobs_and_reports_the_end_of_a_workflow(app: App) -> None:
    ended: list[Event] = []
    app.on("workflow.completed")(ended.append)

    async def double(job: Job, number: int) -> int:
        assert await job.step("seen", lambda: number) == number
        return 2 * number

    task = app.task(double, limit=Limit(concurrency=2))

    def graph(w: Workflow, number: int) -> Node[int]:
        return w.add(task.bind(w.add(task.bind(number)).output))

    flow = app.workflow(graph)
    async with app.worker():
        handles = [await task.aenqueue(number) for number in range(5)]
        assert [await handle.aresult(timeout="30s") for handle in handles] == [0, 2, 4, 6, 8]
        workflow = await flow.aenqueue(3)
        assert await workflow.aresult(timeout="30s") == 12
    assert [event.fields["workflow"] for event in ended] == [workflow.id]


def test_what_is_due_runs_here(app: App) -> None:
    task = app.task(lambda: 7, name="seven")
    handle = task.enqueue()
    assert app.run_due() == 1
    assert handle.get().result == 7


def test_a_check_finds_nothing_wrong(app: App) -> None:
    app.task(lambda: 7, name="seven")
    assert [finding for finding in app.check() if finding.level == "error"] == []
    assert [finding.level for finding in app.check() if finding.name == "transport"] == ["ok"]


def test_what_needs_a_connection_to_the_database_is_refused(app: App) -> None:
    task = app.task(lambda: 7, name="seven")
    with pytest.raises(Unsupported, match="broker store has no transactions"):
        task.options(within=object()).enqueue()
    with pytest.raises(Unsupported, match="broker store has no users"):
        app.create_roles()
    assert app.jobs.counts()["available"] == 0


def test_calls_from_several_loops_and_threads_share_an_app(app: App) -> None:
    task = app.task(lambda: 7, name="seven")

    async def enqueue() -> None:
        await asyncio.gather(*(task.aenqueue() for _ in range(20)))

    asyncio.run(enqueue())
    task.enqueue()
    asyncio.run(enqueue())
    assert app.jobs.counts()["available"] == 41


def test_a_program_that_closes_nothing_ends_without_a_warning(app: App) -> None:
    program = f"from holdfast import App; print(App({app.settings.url!r}).enqueue('seven').get().state)"
    done = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("available\n", "")


def test_a_forked_child_and_its_parent_have_separate_connections(app: App) -> None:
    program = f"""
import os
from holdfast import App
app = App({app.settings.url!r})
app.enqueue("seven")
for _ in range(2):
    if not (child := os.fork()):
        app.enqueue("seven")
        app.close()
        app.enqueue("seven")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    app.enqueue("seven")
print(app.jobs.counts()["available"])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("7\n", "")

"""Jobs that wait for jobs that exist already, with a real App on each store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import App, AtLeast, ConfigurationError, Job, JobFailed, JobNotFound, Node, Workflow, every
from holdfast._core.job import State
from holdfast._engine.client.handle import Handle
from tests.stores.postgres_databases import Homes


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path / 'jobs.db'}"}.get(request.param)
    if url is None:
        homes: Homes = request.getfixturevalue("homes")
        url = homes.empty("18").dsn
    app = App(url)
    yield app
    app.close()


class Tasks:
    """A task that may fail, one that adds a child, and the runs of all of them in order."""

    def __init__(self, app: App) -> None:
        self.app, self.runs, self.broken = app, list[str](), set[str]()

        @app.task(max_attempts=1)
        def render(name: str) -> str:
            self.runs.append(name)
            if name in self.broken:
                raise RuntimeError("no")
            return name

        @app.workflow
        def release(w: Workflow, name: str) -> Node[str]:
            first = w.add(render.bind(f"{name}/first"))
            return w.add(render.bind(f"{name}/last"), after=[first])

        self.render, self.release = render, release

    def states(self, *handles: Handle) -> list[State]:
        return [handle.get().state for handle in handles]

    def run(self) -> list[str]:
        """Run all that is due; return what ran."""
        self.runs.clear()
        while self.app.run_due():
            pass
        return self.runs


def test_a_job_waits_for_handles_and_ids_of_any_kind(app: App) -> None:
    at = Tasks(app)
    first, second, workflow = at.render.enqueue("a"), at.render.enqueue("b"), at.release.enqueue("w")
    node = workflow.nodes()[0].job
    last = at.render.options(after=[first, second.id, str(workflow.id), node], tags=["x"]).enqueue("last")
    assert (last.created, at.states(last)) == (True, [State.BLOCKED])
    assert last.get().tags == ("x",)
    explained = app.jobs.explain(last.id)
    assert "it waits for" in explained.summary
    assert "holdfast jobs cancel" in explained.causes[0].remedy
    runs = at.run()
    assert sorted(runs[:-1]) == ["a", "b", "w/first", "w/last"]
    assert (runs[-1], last.result()) == ("last", "last")


async def test_a_job_is_enqueued_after_others_from_a_loop() -> None:
    app = App("memory://")
    at = Tasks(app)
    first = await at.render.aenqueue("a")
    many = await at.render.options(after=[first]).aenqueue_many([{"name": "b"}, {"name": "c"}])
    assert [(await each.aget()).state for each in many] == [State.BLOCKED] * 2
    assert await at.render.options(after=[first]).aenqueue_many([]) == []
    await app.aclose()


def test_joins_and_failures_of_parents(app: App) -> None:
    at = Tasks(app)
    at.broken = {"bad"}
    bad, good = at.render.enqueue("bad"), at.render.enqueue("good")
    both = [bad, good]
    needed = at.render.options(after=both).enqueue("needed")
    either = at.render.options(after=both, join="any").enqueue("either")
    one = at.render.options(after=both, join=AtLeast(1)).enqueue("one")
    late = at.render.options(after=both, when="finished").enqueue("late")
    assert sorted(at.run()) == ["bad", "either", "good", "late", "one"]
    assert at.states(needed, either, one, late) == [State.FAILED] + [State.COMPLETED] * 3
    with pytest.raises(JobFailed, match="render did not complete"):
        needed.result()
    assert f"holdfast jobs retry {bad.id}" in app.jobs.explain(needed.id).causes[0].remedy
    at.broken.clear()
    assert bad.retry() is State.AVAILABLE
    assert at.states(needed) == [State.BLOCKED]
    assert at.run() == ["bad", "needed"]


def test_a_parent_that_has_ended_is_counted_at_once(app: App) -> None:
    at = Tasks(app)
    at.broken = {"bad"}
    good, bad = at.render.enqueue("good"), at.render.enqueue("bad")
    at.run()
    now, lost = at.render.options(after=[good]).enqueue("now"), at.render.options(after=[good, bad]).enqueue("lost")
    assert at.states(now, lost) == [State.AVAILABLE, State.FAILED]
    assert at.run() == ["now"]


def test_a_parent_gets_a_dependent_while_it_runs_and_may_enqueue_jobs_as_before(app: App) -> None:
    at, children = Tasks(app), list[Handle]()

    @app.task
    async def parent(job: Job) -> None:
        children.append(await at.render.options(after=[job.id]).aenqueue("behind"))
        children.append(await job.enqueue(at.render.options(unique_key="k"), "beside"))

    handle = parent.enqueue()
    assert sorted(at.run()) == ["behind", "beside"]
    assert at.states(handle, *children) == [State.COMPLETED] * 3


def test_a_parent_that_waits_for_its_children_holds_its_dependents(app: App) -> None:
    at = Tasks(app)

    @app.task
    async def parent(job: Job) -> str:
        return await job.call(at.render.bind("child"))

    handle = parent.enqueue()
    last = at.render.options(after=[handle]).enqueue("last")
    assert at.run() == ["child", "last"]
    assert (handle.result(), last.result()) == ("child", "last")


def test_an_unknown_parent_is_named_and_nothing_is_enqueued(app: App) -> None:
    at = Tasks(app)
    gone = at.render.enqueue("a")
    app.jobs.delete(gone.id)
    with pytest.raises(JobNotFound, match=f"no job has the id {gone.id}"):
        at.render.options(after=[gone]).enqueue("b")
    assert app.jobs.list() == []


def test_where_after_does_not_fit_it_is_refused() -> None:
    app = App("memory://")
    at = Tasks(app)
    first = at.render.enqueue("a")
    behind = at.render.options(after=[first])

    @app.task(max_attempts=1)
    async def parent(job: Job) -> None:
        await job.enqueue(behind, "b")

    @app.workflow
    def wrong(w: Workflow) -> None:
        w.add(behind.bind("b"))

    handle = parent.enqueue()
    app.run_due()
    with pytest.raises(JobFailed, match="after: a child is written under its parent's token"):
        handle.result()
    with pytest.raises(ConfigurationError, match="after: give it to the node"):
        wrong.enqueue()
    with pytest.raises(ConfigurationError, match="after does not fit a schedule"):
        app.schedule(every("5m"), behind.bind("b"))
    with pytest.raises(ConfigurationError, match="for a node of a workflow use"):
        at.render.options(after=[object()])  # type: ignore[list-item]

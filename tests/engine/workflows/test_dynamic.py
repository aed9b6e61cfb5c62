"""Workflows that grow while they run: over lists, in each other, by name, and by handlers that wait for children."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import App, ConfigurationError, Failed, Job, JobCancelled, JobFailed, Node, SyncJob, Workflow, each, every
from holdfast._core.job import State
from holdfast._engine.client.handle import Handle
from holdfast._engine.workflows.handle import WorkflowHandle
from holdfast.sync import blocking
from tests.engine.workflows.stores import new_app


@dataclass
class Report:
    suite: str
    size: int


RUNS: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    RUNS.clear()


def run(app: App, times: int = 30) -> None:
    """Run all that is due, until nothing is left."""
    for _ in range(times):
        if not app.run_due():
            break


def names(handle: WorkflowHandle[Any]) -> dict[str, State]:
    return {node.name: node.state for node in handle.nodes()}


class Suites:
    """Tasks that make a list, run for each item of it, and take the list of their results."""

    def __init__(self) -> None:
        self.app = app = new_app()
        self.found = ["unit", "e2e", "docs"]
        self.broken = set[str]()

        @app.task
        def find(ref: str) -> list[str]:
            RUNS.append("find")
            return self.found

        @app.task(max_attempts=1)
        def test(ref: str, suite: str) -> Report:
            RUNS.append(suite)
            if suite in self.broken:
                raise ValueError(suite)
            return Report(suite, len(suite))

        @app.task
        def total(reports: list[Report]) -> int:
            return sum(each.size for each in reports)

        @app.task
        def tolerant(reports: Sequence[Report | Failed]) -> list[str]:
            return [each.reason if isinstance(each, Failed) else each.suite for each in reports]

        self.find, self.test, self.total, self.tolerant = find, test, total, tolerant


def test_l12_a_map_runs_a_job_for_each_item_and_gives_their_results_in_order() -> None:
    at = Suites()

    @at.app.workflow
    def check(w: Workflow, ref: str) -> Node[int]:
        suites = w.add(at.find.bind(ref=ref))
        tested = w.map(at.test.bind(ref=ref, suite=each(suites.output)))
        return w.add(at.total.bind(reports=tested.output))

    handle = check.enqueue("main")
    run(at.app)
    assert handle.result(timeout=1) == 11
    assert sorted(RUNS) == ["docs", "e2e", "find", "unit"]
    assert list(names(handle)) == ["find", "test", "total", "test[0]", "test[1]", "test[2]"]


def test_a_list_of_outputs_is_a_list_of_results_in_its_order() -> None:
    at = Suites()
    at.broken = {"e2e"}

    @at.app.workflow
    def check(w: Workflow, suites: list[str]) -> Node[int]:
        tested = [w.add(at.test.bind(ref="x", suite=suite)) for suite in reversed(suites)]
        return w.add(at.total.bind([each.output for each in tested]))

    @at.app.workflow
    def strict(w: Workflow) -> Node[list[str]]:
        tested = [w.add(at.test.bind(ref="x", suite=suite)) for suite in ("unit", "e2e", "docs")]
        return w.add(at.tolerant.bind(reports=tuple(each.output for each in tested)), when="finished")

    handles = check.enqueue(["unit", "docs"]), check.enqueue([]), strict.enqueue()
    run(at.app)
    assert [each.result(timeout=1) for each in handles] == [8, 0, ["unit", "HANDLER_ERROR", "docs"]]
    assert handles[0].nodes()[-1].after == ("test", "test-2")


def test_a_workflow_whose_result_did_not_complete_raises_its_failure_although_it_completed() -> None:
    at = Suites()
    at.broken = {"unit"}

    @at.app.workflow
    def check(w: Workflow) -> Node[Report]:
        tested = w.add(at.test.bind(ref="x", suite="unit"))
        w.add(at.tolerant.bind(reports=[tested.output]), when="finished")
        return tested

    handle = check.enqueue()
    run(at.app)
    assert handle.get().state is State.COMPLETED
    with pytest.raises(JobFailed, match="unit") as raised:
        handle.result(timeout=1)
    assert raised.value.reason == "HANDLER_ERROR"


def test_what_cannot_be_in_a_list_of_outputs_is_refused() -> None:
    at = Suites()

    @at.app.workflow
    def wrong(w: Workflow) -> None:
        suites = w.add(at.find.bind(ref="x"))
        tested = w.map(at.test.bind(ref="x", suite=each(suites.output)))
        one = w.add(at.test.bind(ref="x", suite="unit"))
        w.add(at.total.bind([suites.output]), name="type")  # type: ignore[list-item]
        w.add(at.total.bind([tested.output]), name="map")  # type: ignore[list-item]
        w.add(at.total.bind([one.output]), name="failed", when="finished")
        with pytest.raises(ConfigurationError, match="use outputs only"):
            at.total.bind([one.output, Report("unit", 4)])

    with pytest.raises(ConfigurationError) as raised:
        wrong.enqueue()
    problems = [problem.removeprefix("workflow wrong: ") for problem in raised.value.problems]
    assert problems == [
        "type: reports cannot have the result of 'find', which has the type list[str]: reports has items of the type Report",
        "map: reports: the list of 'test' in a list: give it a separate parameter",
        "failed: reports may be a Failed, because 'test-2' need not complete: annotate it with `Sequence[… | Failed]`",
    ]


def test_l12_a_map_can_be_the_result_of_its_workflow() -> None:
    at = Suites()

    @at.app.workflow
    def check(w: Workflow) -> Node[list[Report]]:
        suites = w.add(at.find.bind(ref="x"))
        return w.map(at.test.bind(ref="x", suite=each(suites.output)))

    handle = check.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == [Report("unit", 4), Report("e2e", 3), Report("docs", 4)]
    at.found = []
    empty = check.enqueue()
    run(at.app)
    assert empty.result(timeout=1) == []


def test_l12_a_map_over_a_map_runs_for_each_result() -> None:
    at = Suites()

    @at.app.task
    def again(report: Report) -> str:
        return report.suite.upper()

    @at.app.workflow
    def check(w: Workflow) -> Node[list[str]]:
        suites = w.add(at.find.bind(ref="x"))
        tested = w.map(at.test.bind(ref="x", suite=each(suites.output)))
        return w.map(again.bind(report=each(tested.output)))

    handle = check.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == ["UNIT", "E2E", "DOCS"]


def test_a_later_retry_of_a_map_runs_only_the_items_that_had_not_completed() -> None:
    at = Suites()
    at.broken = {"e2e"}

    @at.app.workflow
    def check(w: Workflow) -> Node[int]:
        suites = w.add(at.find.bind(ref="x"))
        return w.add(at.total.bind(reports=w.map(at.test.bind(ref="x", suite=each(suites.output))).output))

    handle = check.enqueue()
    run(at.app)
    with pytest.raises(JobFailed, match=r"DependencyFailed: test\[1\] did not complete"):
        handle.result(timeout=1)
    at.broken.clear()
    RUNS.clear()
    handle.retry()
    run(at.app)
    assert (RUNS, handle.result(timeout=1)) == (["e2e"], 11)


def test_items_of_a_map_that_continues_stand_in_its_list_as_failed() -> None:
    at = Suites()
    at.broken = {"unit", "docs"}

    @at.app.workflow
    def check(w: Workflow) -> Node[list[str]]:
        suites = w.add(at.find.bind(ref="x"))
        tested = w.map(at.test.bind(ref="x", suite=each(suites.output)), on_failure="continue")
        return w.add(at.tolerant.bind(reports=tested.output))

    handle = check.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == ["HANDLER_ERROR", "e2e", "HANDLER_ERROR"]


def test_a_map_needs_a_list_of_at_most_10000_items() -> None:
    at = Suites()

    @at.app.task
    def anything(kind: str) -> Any:
        return {"many": list(range(10_001)), "text": "unit"}[kind]

    @at.app.task
    def take(item: Any) -> None: ...

    for kind, message in (("text", "Expected `array`, got `str`"), ("many", "10,001 items, at most 10,000")):

        @at.app.workflow(name=f"check-{kind}")
        def check(w: Workflow, kind: str = kind) -> None:
            w.map(take.bind(item=each(w.add(anything.bind(kind=kind)).output)), name="mapped")

        handle = check.enqueue()
        run(at.app)
        (node,) = (node for node in handle.nodes() if node.name == "mapped")
        job = at.app.jobs.get(node.job)
        assert (job.state, job.reason) == (State.FAILED, "PAYLOAD_INVALID")
        assert message in str(job.error)


def test_a_map_is_checked_before_anything_is_stored() -> None:
    at = Suites()

    @at.app.workflow
    def wrong(w: Workflow) -> None:
        suites = w.add(at.find.bind(ref="x"))
        one = w.add(at.total.bind(reports=[]))
        w.add(at.test.bind(ref="x", suite=each(suites.output)), name="added")
        w.map(at.test.bind(ref="x", suite="unit"), name="no-list")
        w.map(at.test.bind(ref="x", suite=each(one.output)), name="number")  # type: ignore[arg-type]
        tested = w.map(at.test.bind(ref="x", suite=each(suites.output)), name="tested", on_failure="continue")
        w.add(at.total.bind(reports=tested.output), name="strict")

    with pytest.raises(ConfigurationError) as raised:
        wrong.enqueue()
    assert [problem.removeprefix("workflow wrong: ") for problem in raised.value.problems] == [
        "added: each(…) is for w.map, which runs it for each item",
        "no-list: w.map needs an argument each(node.output)",
        "number: each(…) takes a list, and 'total' returns int",
        "strict: reports may be a Failed, because 'tested' need not complete: annotate it with `Sequence[… | Failed]`",
    ]
    with pytest.raises(ConfigurationError, match="add a node for each item in a loop"):
        each(["a", "b"])


class Nested:
    """Workflows that are nodes of others."""

    def __init__(self) -> None:
        self.app = app = new_app()
        self.broken = set[str]()

        @app.task(max_attempts=1)
        def act(name: str, before: str | None = None) -> str:
            RUNS.append(name)
            if name in self.broken:
                raise ValueError(name)
            return f"{before or ''}{name}"

        @app.workflow
        def pair(w: Workflow, name: str, before: str | None = None) -> Node[str]:
            first = w.add(act.bind(name=f"{name}1"), name="first")
            return w.add(act.bind(name=f"{name}2", before=before), name="second", after=[first])

        self.act, self.pair = act, pair


def test_l12_a_workflow_in_a_workflow_has_its_members_in_the_same_flow_and_a_gate_for_its_end() -> None:
    at = Nested()

    @at.app.workflow
    def outer(w: Workflow) -> Node[str]:
        start = w.add(at.act.bind(name="a"), name="start")
        inner = w.add(at.pair.bind(name="b"), name="deploy", after=[start])
        return w.add(at.act.bind(name="c", before=inner.output), name="end")

    handle = outer.enqueue()
    assert names(handle) == {
        "start": State.AVAILABLE,
        "deploy": State.BLOCKED,
        "deploy/first": State.BLOCKED,
        "deploy/second": State.BLOCKED,
        "end": State.BLOCKED,
    }
    after = {node.name: set(node.after) for node in handle.nodes()}
    assert after == {
        "start": set(),
        "deploy": {"deploy/first", "deploy/second"},
        "deploy/first": {"start"},
        "deploy/second": {"deploy/first"},
        "end": {"deploy"},
    }
    run(at.app)
    assert (handle.result(timeout=1), RUNS) == ("b2c", ["a", "b1", "b2", "c"])


def test_an_output_of_the_outer_workflow_reaches_a_member_of_the_inner_one() -> None:
    at = Nested()

    @at.app.workflow
    def outer(w: Workflow) -> Node[str]:
        start = w.add(at.act.bind(name="a"), name="start")
        return w.add(at.pair.bind(name="b", before=start.output))

    handle = outer.enqueue()
    assert names(handle)["pair/first"] is State.AVAILABLE
    run(at.app)
    assert handle.result(timeout=1) == "ab2"


def test_s19_dependents_of_nested_workflows_start_after_all_of_them_to_depth_5() -> None:
    at = Nested()
    flows: list[Callable[..., Any]] = []
    for depth in range(5):
        inner = at.pair if not flows else flows[-1]

        @at.app.workflow(name=f"level-{depth}")
        def level(w: Workflow, inner: Any = inner) -> Node[str]:
            return w.add(inner.bind(**({"name": "x"} if inner is at.pair else {})), name="in")

        flows.append(level)

    @at.app.workflow
    def outer(w: Workflow) -> Node[str]:
        deep = w.add(flows[3].bind(), name="deep")  # type: ignore[attr-defined]
        return w.add(at.act.bind(name="end", before=deep.output), name="end")

    handle = outer.enqueue()
    assert names(handle)["end"] is State.BLOCKED
    run(at.app)
    assert (RUNS, handle.result(timeout=1)) == (["x1", "x2", "end"], "x2end")
    assert "deep/in/in/in/in/second" in names(handle)

    @at.app.workflow
    def too_deep(w: Workflow) -> None:
        w.add(flows[4].bind(), name="deep")  # type: ignore[attr-defined]

    with pytest.raises(ConfigurationError, match="workflows in workflows, 6 deep: at most 5"):
        too_deep.enqueue()


def test_a_workflow_that_adds_itself_is_refused_once_with_how_to_recurse() -> None:
    at = Nested()

    @at.app.workflow
    def tree(w: Workflow, name: str) -> Node[str]:
        left = w.add(forest.bind(name=name))  # type: ignore[attr-defined]
        return w.add(at.act.bind(name="end", before=left.output))

    @at.app.workflow
    def forest(w: Workflow, name: str) -> Node[str]:
        w.add(tree.bind(name=name))
        return w.add(tree.bind(name=name))

    for flow in (tree, forest):
        with pytest.raises(ConfigurationError) as raised:
            flow.enqueue(name="x")
        limit = f"{flow.name} adds itself, and workflows in workflows are at most 5 deep"
        remedy = f"for recursion, await job.call({flow.name}.bind(…)) in a task"
        assert raised.value.problems == [f"workflow {flow.name}: {limit}: {remedy}"]


def test_a_node_whose_workflow_has_a_problem_is_not_reported_as_that_of_another_workflow() -> None:
    at = Nested()

    @at.app.workflow
    def broken(w: Workflow) -> Node[str]:
        return w.add(at.act.bind(name="x"), when="done")  # type: ignore[call-overload, no-any-return]

    @at.app.workflow
    def outer(w: Workflow) -> Node[str]:
        inner = w.add(broken.bind())
        w.add(at.act.bind(name="y", before=inner.output), after=[inner])
        return inner

    with pytest.raises(ConfigurationError) as raised:
        outer.enqueue()
    assert raised.value.problems == ["workflow outer: broken: workflow broken: act: when='done': use 'succeeded' or 'finished'"]


def test_the_failure_of_an_inner_workflow_is_that_of_its_node() -> None:
    at = Nested()
    at.broken = {"b1"}

    @at.app.workflow
    def outer(w: Workflow) -> Node[str]:
        inner = w.add(at.pair.bind(name="b"), on_failure="pause")
        return w.add(at.act.bind(name="c"), after=[inner])

    handle = outer.enqueue()
    run(at.app)
    assert names(handle) == {
        "pair": State.FAILED,
        "pair/first": State.FAILED,
        "pair/second": State.FAILED,
        "act": State.BLOCKED,
    }
    at.broken.clear()
    handle.resume(failed="retry")
    run(at.app)
    assert (handle.result(timeout=1), RUNS) == ("c", ["b1", "b1", "b2", "c"])


def test_an_empty_inner_workflow_waits_for_what_its_node_waits_for() -> None:
    at = Nested()

    @at.app.workflow
    def nothing(w: Workflow) -> None: ...

    @at.app.workflow
    def outer(w: Workflow) -> None:
        inner = w.add(nothing.bind(), after=[w.add(at.act.bind(name="a"))])
        w.add(at.act.bind(name="b"), after=[inner])

    handle = outer.enqueue()
    assert names(handle) == {"act": State.AVAILABLE, "nothing": State.BLOCKED, "act-2": State.BLOCKED}
    run(at.app)
    assert (RUNS, handle.get().state) == (["a", "b"], State.COMPLETED)


def test_problems_of_an_inner_workflow_are_named_with_its_node() -> None:
    at = Nested()

    @at.app.workflow(deadline="1h", max_nodes=1)
    def inner(w: Workflow) -> None:
        w.add(at.act.bind(name="a"))
        w.add(at.act.bind(name="b"))

    @at.app.workflow
    def outer(w: Workflow) -> None:
        w.add(inner.bind(), name="in")

    with pytest.raises(ConfigurationError) as raised:
        outer.enqueue()
    assert raised.value.problems == [
        "workflow outer: in: deadline: a workflow that is a node has none; give it to the outer workflow",
        "workflow outer: in: workflow inner: 2 members, at most 1: raise max_nodes, or use fewer",
    ]


# without code


def test_l12_a_workflow_started_by_its_name_alone_is_built_by_the_worker_that_claims_it() -> None:
    at = Nested()
    bound = at.pair.options(tags=["nightly"], key="acme").bind(name="b")

    async def start() -> Handle:
        job = bound.new_job()
        await at.app._connections.client().enqueue([job])
        return Handle(job.id, job.queue, at.app._connections.client)

    handle = blocking(start)()
    assert (handle.get().state, handle.get().task) == (State.AVAILABLE, "pair")
    run(at.app)
    assert (handle.result(timeout=1), RUNS) == ("b2", ["b1", "b2"])
    flow = WorkflowHandle[str](handle.id, "default", at.app._connections.client)
    rows = {node.name: at.app.jobs.get(node.job) for node in flow.nodes()}
    assert [(row.tags, row.key) for row in rows.values()] == [(("nightly",), "acme")] * 2
    assert list(rows) == ["first", "second"]


def test_a_workflow_can_be_scheduled() -> None:
    at = Nested()
    at.app.schedule(every("5m"), at.pair.bind(name="b"), name="often")
    assert [declared.name for declared in at.app.registry.schedules()] == ["often"]


def test_a_graph_that_cannot_be_built_fails_its_job() -> None:
    at = Nested()

    @at.app.workflow
    def broken(w: Workflow) -> None:
        w.add(at.act.options(unique_key="k").bind(name="a"))

    @at.app.task(max_attempts=1)
    async def parent(job: Job) -> None:
        await job.call(broken.bind())

    handle = parent.enqueue()
    run(at.app)
    nodes = WorkflowHandle[None](handle.id, "default", at.app._connections.client).nodes()
    assert "unique_key: a member cannot have one" in str(at.app.jobs.get(nodes[0].job).error)


# children of a running job


class Calls:
    """A parent that calls and gathers, in a coroutine or in a thread."""

    def __init__(self, kind: str, **options: Any) -> None:
        self.app = app = new_app()
        self.broken = set[str]()
        self.seen = list[Any]()

        @app.task(max_attempts=1)
        async def fetch(name: str) -> Report:
            RUNS.append(name)
            if name in self.broken:
                raise ValueError(name)
            return Report(name, len(name))

        @app.task
        def size(report: Report) -> int:
            RUNS.append("size")
            return report.size

        self.fetch, self.size = fetch, size
        self.parent = app.task(name="parent", **options)(getattr(self, kind))

    async def called(self, job: Job) -> int:
        RUNS.append("parent")
        report = await job.call(self.fetch.bind(name="abc"))
        assert isinstance(report, Report)
        return await job.call(self.size.bind(report=report))

    def called_in_a_thread(self, job: SyncJob) -> int:
        RUNS.append("parent")
        return job.call(self.size.bind(report=job.call(self.fetch.bind(name="abc"))))

    async def gathered(self, job: Job) -> list[str]:
        RUNS.append("parent")
        return [each.suite for each in await job.gather([self.fetch.bind(name=name) for name in ("a", "b", "c")])]

    def gathered_in_a_thread(self, job: SyncJob) -> list[str]:
        RUNS.append("parent")
        return [each.suite for each in job.gather([self.fetch.bind(name=name) for name in ("a", "b", "c")])]

    async def together(self, job: Job) -> list[int]:
        """Wait for two children at once, and ask for them in another order in each attempt."""
        RUNS.append("parent")
        calls = {
            "fetch": lambda: job.call(self.fetch.bind(name="abc")),
            "size": lambda: job.call(self.size.bind(report=Report("x", 7))),
        }
        order = list(calls) if job.attempt % 2 else list(reversed(calls))
        found = dict(zip(order, await asyncio.gather(*(calls[each]() for each in order)), strict=True))
        return [found["fetch"].size, found["size"]]

    async def tolerant(self, job: Job) -> list[str]:
        found = await job.gather([self.fetch.bind(name=name) for name in ("a", "b")], return_exceptions=True)
        return [each.suite if isinstance(each, Report) else str(each) for each in found]

    async def catching(self, job: Job) -> str:
        try:
            return (await job.call(self.fetch.bind(name="a"))).suite
        except (JobFailed, JobCancelled) as error:
            return type(error).__name__

    async def mixed(self, job: Job) -> list[Any]:
        one = await job.step("one", RUNS.append, "one")
        reports = await job.gather([])
        report = await job.call(self.fetch.bind(name="a"))
        again = await job.call(self.fetch.bind(name="b"))
        await job.step("two", RUNS.append, "two")
        return [one, reports, report.suite, again.suite]


@pytest.mark.parametrize("kind", ["called", "called_in_a_thread"])
def test_s22_a_call_returns_what_its_child_returned_and_replays_equal(kind: str) -> None:
    at = Calls(kind)
    handle = at.parent.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == 3
    assert RUNS == ["parent", "abc", "parent", "size", "parent"]
    assert handle.get().attempt == 3


@pytest.mark.parametrize("kind", ["gathered", "gathered_in_a_thread"])
def test_s22_a_gather_runs_its_children_at_once_and_keeps_their_order(kind: str) -> None:
    at = Calls(kind)
    handle = at.parent.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == ["a", "b", "c"]
    assert (RUNS[0], sorted(RUNS[1:4]), RUNS[4:]) == ("parent", ["a", "b", "c"], ["parent"])


def test_s22_calls_that_wait_together_are_known_by_their_tasks_in_any_order() -> None:
    at = Calls("together")
    handle = at.parent.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == [3, 7]
    assert sorted(each for each in RUNS if each != "parent") == ["abc", "size"]


def test_a_failed_child_raises_in_the_handler_or_stands_in_the_list() -> None:
    at = Calls("gathered", max_attempts=1)
    at.broken = {"b"}
    handle = at.parent.enqueue()
    run(at.app)
    with pytest.raises(JobFailed, match=r"fetch: HANDLER_ERROR: ValueError: b"):
        handle.result(timeout=1)
    tolerant = Calls("tolerant")
    tolerant.broken = {"b"}
    handle = tolerant.parent.enqueue()
    run(tolerant.app)
    assert handle.result(timeout=1) == ["a", "fetch: HANDLER_ERROR: ValueError: b"]


def test_a_cancelled_child_raises_in_the_handler() -> None:
    at = Calls("catching")
    at.fetch = at.fetch.options(delay="1h")
    handle = at.parent.enqueue()
    run(at.app)
    assert handle.get().state is State.BLOCKED
    (child,) = WorkflowHandle[None](handle.id, "default", at.app._connections.client).nodes()
    at.app.jobs.cancel(child.job)
    run(at.app)
    assert handle.result(timeout=1) == "JobCancelled"


def test_s22_calls_and_steps_of_one_handler_keep_their_order() -> None:
    at = Calls("mixed")
    handle = at.parent.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == [None, [], "a", "b"]
    assert RUNS == ["one", "a", "b", "two"]
    nodes = WorkflowHandle[None](handle.id, "default", at.app._connections.client).nodes()
    assert [node.name for node in nodes] == ["fetch", "fetch-2"]


def test_a_retried_parent_keeps_the_children_that_completed() -> None:
    at = Calls("gathered", max_attempts=1)
    at.broken = {"b"}
    handle = at.parent.enqueue()
    run(at.app)
    at.broken.clear()
    RUNS.clear()
    handle.retry()
    run(at.app)
    assert (handle.result(timeout=1), RUNS.count("b"), RUNS.count("a")) == (["a", "b", "c"], 1, 0)


def test_a_child_can_be_a_workflow_and_have_children_itself() -> None:
    at = Nested()

    @at.app.task
    async def middle(job: Job) -> str:
        return await job.call(at.pair.bind(name="b"))

    @at.app.task
    async def parent(job: Job) -> str:
        return await job.call(middle.bind())

    handle = parent.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == "b2"
    nodes = WorkflowHandle[None](handle.id, "default", at.app._connections.client).nodes()
    assert {node.name for node in nodes} == {"middle", "middle/pair", "middle/pair/first", "middle/pair/second"}


def test_a_workflow_can_be_mapped() -> None:
    at = Nested()

    @at.app.task
    def find() -> list[str]:
        return ["x", "y"]

    @at.app.workflow
    def outer(w: Workflow) -> Node[list[str]]:
        return w.map(at.pair.bind(name=each(w.add(find.bind()).output)))

    handle = outer.enqueue()
    run(at.app)
    assert handle.result(timeout=1) == ["x2", "y2"]


def test_s19_what_a_member_enqueues_joins_its_workflow_unless_it_is_detached() -> None:
    at = Nested()

    @at.app.task
    async def parent(job: Job, detached: bool) -> None:
        await job.enqueue(at.act.options(detached=detached, delay="1h"), name="x")

    @at.app.workflow
    def outer(w: Workflow, detached: bool) -> None:
        w.add(parent.bind(detached=detached))

    joined, free = outer.enqueue(detached=False), outer.enqueue(detached=True)
    run(at.app)
    assert (joined.get().state, free.get().state) == (State.BLOCKED, State.COMPLETED)
    (name,) = set(names(joined)) - {"parent"}
    assert name.startswith("parent/act-")


def test_a_child_that_cannot_be_a_member_is_refused() -> None:
    at = Nested()
    refused = list[str]()

    @at.app.workflow(deadline="1h")
    def late(w: Workflow) -> None: ...

    @at.app.task
    async def parent(job: Job) -> None:
        for child in (at.act.options(unique_key="k").bind(name="x"), late.bind()):
            try:
                await job.call(child)
            except ConfigurationError as error:
                refused.append(str(error))

    handle = parent.enqueue()
    run(at.app)
    assert handle.get().state is State.COMPLETED
    assert [each.split(":")[1].strip() for each in refused] == ["unique_key", "deadline"]

"""``job.inputs``: a handler reads the outcomes of a node that it depends on, page by page."""

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Failed, Job, JobFailed, Node, PayloadInvalid, SyncJob, Workflow, each
from holdfast._core.parents import unknown_parent
from holdfast._engine.tasks.inputs import PAGE
from holdfast._engine.workflows.handle import WorkflowHandle
from tests.engine.workflows.stores import new_app


@dataclass
class Report:
    suite: str
    size: int


class Suites:
    """An App whose map has more items than one page; those in ``broken`` fail."""

    def __init__(self, count: int = 2 * PAGE + 3) -> None:
        self.app = app = new_app()
        self.broken = set[str]()
        self.seen = list[Any]()

        @app.task
        def find() -> list[str]:
            return [f"s{number}" for number in range(count)]

        @app.task(max_attempts=1)
        def test(suite: str) -> Report:
            if suite in self.broken:
                raise ValueError(suite)
            return Report(suite, len(suite))

        @app.task(max_attempts=1)
        async def collect(job: Job, node: str = "test") -> int:
            async for found in job.inputs(node, Report):
                self.seen.append(found)
            return len(self.seen)

        @app.task(max_attempts=1)
        def collect_plain(job: SyncJob, node: str) -> int:
            self.seen += job.inputs(node)
            return len(self.seen)

        self.find, self.test, self.collect, self.collect_plain = find, test, collect, collect_plain

    def run(self, handle: WorkflowHandle[Any]) -> Any:
        for _ in range(9):
            if not self.app.run_due(limit=1000):
                break
        return handle.result(timeout=1)

    def error_of(self, handle: WorkflowHandle[Any], node: str) -> str:
        """Return the error of a node that fails."""
        with pytest.raises(JobFailed):
            self.run(handle)
        (error,) = [each.error.message for each in handle.nodes() if each.name == node and each.error is not None]
        return error


def test_a_job_iterates_over_the_items_of_a_map_in_order_with_their_type() -> None:
    at = Suites()
    at.broken = {"s1", f"s{PAGE}"}

    @at.app.workflow
    def check(w: Workflow) -> Node[int]:
        tested = w.map(at.test.bind(each(w.add(at.find.bind()).output)), on_failure="continue")
        return w.add(at.collect.bind(), after=[tested])

    assert at.run(check.enqueue()) == 2 * PAGE + 3
    expected = [f"s{number}" for number in range(2 * PAGE + 3)]
    failed = [place for place, found in enumerate(at.seen) if isinstance(found, Failed)]
    assert failed == [1, PAGE]
    assert [each.suite if isinstance(each, Report) else expected[place] for place, each in enumerate(at.seen)] == expected


def test_a_plain_node_has_one_outcome_which_is_plain_data_without_a_type() -> None:
    at = Suites()

    @at.app.workflow
    def check(w: Workflow) -> Node[int]:
        tested = w.add(at.test.bind("unit"), name="units")
        return w.add(at.collect_plain.bind("units"), after=[tested])

    assert at.run(check.enqueue()) == 1
    assert at.seen == [{"suite": "unit", "size": 4}]


def test_a_parent_that_has_not_ended_is_a_failed() -> None:
    at = Suites()

    @at.app.workflow
    def check(w: Workflow) -> None:
        slow = w.add(at.test.options(delay="1h").bind("slow"), name="slow")
        fast = w.add(at.test.bind("fast"), name="fast")
        w.add(at.collect.bind("slow"), after=[slow, fast], join="any")

    check.enqueue()
    at.app.run_due()
    (found,) = at.seen
    assert isinstance(found, Failed)
    assert found.reason == "RESULT_NOT_AVAILABLE"


def test_a_workflow_in_another_one_knows_its_nodes_by_their_own_names_and_that_by_its_result() -> None:
    at = Suites(count=3)

    @at.app.workflow
    def inner(w: Workflow) -> Node[list[Report]]:
        tested = w.map(at.test.bind(each(w.add(at.find.bind()).output)))
        w.add(at.collect.bind(), after=[tested])
        return tested

    @at.app.workflow
    def outer(w: Workflow) -> None:
        w.add(at.collect.bind("inner"), after=[w.add(inner.bind())], name="behind")

    handle = outer.enqueue()
    at.run(handle)
    assert [each.suite for each in at.seen] == ["s0", "s1", "s2"] * 2


@pytest.mark.parametrize("node", ["tests", "test[0]", "collect", "find"])
def test_a_name_of_no_parent_is_refused_with_the_names_of_all(node: str) -> None:
    at = Suites(count=1)

    @at.app.workflow
    def check(w: Workflow) -> Node[int]:
        tested = w.map(at.test.bind(each(w.add(at.find.bind()).output)))
        units = w.add(at.test.bind("unit"), name="units")
        return w.add(at.collect.bind(node), after=[tested, units])

    error = at.error_of(check.enqueue(), "collect")
    assert error == f"job.inputs({node!r}): the job does not depend on a node of this name; it depends on test, units"


def test_the_error_of_a_job_that_depends_on_no_node_names_after() -> None:
    at = Suites()
    handle = at.collect.enqueue("test")
    at.app.run_due()
    with pytest.raises(JobFailed, match=r"it depends on none: add it to a workflow with after=\[…\]"):
        handle.result(timeout=1)


def test_a_result_of_another_type_names_the_node_and_the_item() -> None:
    at = Suites(count=2)

    @at.app.task(max_attempts=1)
    async def misread(job: Job) -> None:
        async for _ in job.inputs("find", list[int]):
            pass

    @at.app.workflow
    def check(w: Workflow) -> Node[None]:
        return w.add(misread.bind(), after=[w.add(at.find.bind())])

    assert at.error_of(check.enqueue(), "misread").startswith("job.inputs('find'), item 0: the result: Expected `int`")


def test_many_names_are_counted_instead() -> None:
    text = unknown_parent("x", [f"n{number:02}" for number in range(12)])
    assert text.endswith("it depends on n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more")


@pytest.mark.parametrize("kind", ["on_loop", "in_thread"])
def test_a_result_that_does_not_fit_is_reported_with_the_node_that_returned_it(kind: str) -> None:
    app = new_app()

    @app.task
    def anything(value: Any) -> Any:
        return value

    async def on_loop(value: int) -> None: ...

    def in_thread(value: int) -> None: ...

    double = app.task(name="double")(on_loop if kind == "on_loop" else in_thread)

    @app.task
    def total(values: list[int]) -> None: ...

    @app.workflow
    def check(w: Workflow) -> None:
        good, wrong = w.add(anything.bind(1), name="good"), w.add(anything.bind("text"), name="wrong")
        items = w.map(anything.bind(each(w.add(anything.bind([1, [2]]), name="find").output)), name="items")
        w.add(double.bind(value=wrong.output))
        w.add(total.bind(values=[good.output, wrong.output]))
        w.add(total.bind(values=items.output), name="mapped")

    handle = check.enqueue()
    while app.run_due():
        pass
    found = {node.name: node.error.message for node in handle.nodes() if node.error is not None}
    assert found == {
        "double": f"{kind}: value: the result of the node 'wrong' does not fit: Expected `int`, got `str`",
        "total": "total: values[1]: the result of the node 'wrong' does not fit: Expected `int`, got `str`",
        "mapped": "total: values[1]: the result of the node 'items' does not fit: Expected `int`, got `array`",
    }


def test_a_child_whose_result_does_not_fit_its_annotation_is_named_in_the_handler() -> None:
    app = new_app()

    @app.task
    def size() -> int:
        return "wide"  # type: ignore[return-value]

    @app.task(max_attempts=1)
    async def parent(job: Job) -> None:
        await job.call(size.bind())

    handle = parent.enqueue()
    while app.run_due():
        pass
    with pytest.raises(JobFailed, match="the result of size: Expected `int`, got `str`"):
        handle.result(timeout=1)


def test_the_result_of_a_workflow_that_does_not_fit_its_annotation_is_named() -> None:
    app = new_app()

    @app.task
    def size() -> int:
        return "wide"  # type: ignore[return-value]

    @app.workflow
    def measure(w: Workflow) -> Node[int]:
        return w.add(size.bind())

    handle = measure.enqueue()
    app.run_due()
    with pytest.raises(PayloadInvalid, match="the result of measure: Expected `int`, got `str`"):
        handle.result(timeout=1)

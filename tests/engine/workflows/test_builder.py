"""The builder of workflows: what it stores, and everything that it refuses before anything is stored."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import App
from holdfast._core.graph import Graph, Vertex, recount
from holdfast._core.job import Failed, NewJob, State
from holdfast._core.member import Input, OnFailure
from holdfast._core.policy import Policy
from holdfast._core.workflow import Flow, WorkflowSettings
from holdfast._engine.tasks.after import AtLeast
from holdfast._engine.tasks.task import Task
from holdfast._engine.workflows.builder import Workflow
from holdfast._engine.workflows.fitting import fits
from holdfast._engine.workflows.node import Node, each
from holdfast.errors import ConfigurationError, PayloadInvalid

app = App("memory://")


@pytest.fixture(autouse=True)
def any_store() -> None:
    """Run each test once: the builder uses no store."""


@dataclass
class Source:
    ref: str


@app.task
async def checkout(ref: str) -> Source:
    return Source(ref)


@app.task
def inspect(source: Source, level: int = 1) -> int:
    return level


@app.task
def report(source: Source | Failed, passed: int | Failed | None = None) -> str:
    return ""


@app.task
def find() -> list[str]:
    return []


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def store(anything: object) -> None: ...


@app.task(queue="slow", priority=5)
def shout(text: str) -> str:
    return text


def workflow(on_failure: str = "fail", deadline: float | None = None, max_nodes: int = 100) -> Workflow:
    root = NewJob(
        id=UUID(int=7), payload=b"{}", task="release", policy=Policy(), queue="ci", key="acme", priority=-3, tags=("nightly",)
    )
    settings = WorkflowSettings(on_failure=OnFailure(on_failure), deadline=deadline, max_nodes=max_nodes)
    return Workflow(root, settings)


def problems_of(w: Workflow, result: Node[object] | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        w.flow(result)
    return raised.value.problems


def test_a_graph_has_its_members_their_inputs_and_a_root_that_waits_for_all() -> None:
    w = workflow(deadline=7200.0)
    source = w.add(checkout.bind(ref="main"))
    tested = w.add(inspect.bind(source=source.output, level=2))
    published = w.add(report.bind(source=source.output), after=[tested], name="publish")
    flow = w.flow(published)
    assert [each.member.node for each in flow.members] == ["checkout", "inspect", "publish"]
    assert [each.job.payload for each in flow.members] == [b'{"ref":"main"}', b'{"level":2}', b"{}"]
    assert flow.members[1].member.inputs == (Input("source", source.job),)
    assert flow.root.member.inputs == (Input("", published.job),)
    assert [(each.parent, each.tolerates) for each in flow.edges if each.child == UUID(int=7)] == [
        (source.job, True),
        (tested.job, True),
        (published.job, False),
    ]
    assert [each.parent for each in flow.edges if each.child == published.job] == [tested.job, source.job]
    assert (flow.deadline, flow.root.member.is_gate, {each.member.flow for each in flow.members}) == (7200.0, True, {UUID(int=7)})


def test_members_are_named_as_their_tasks_and_counted_on() -> None:
    w = workflow()
    names = [w.add(checkout.bind(ref="a"), name=name).name for name in (None, None, "checkout-3", None)]
    assert names == ["checkout", "checkout-2", "checkout-3", "checkout-4"]


def test_members_take_from_the_workflow_what_they_do_not_have() -> None:
    w = workflow()
    w.add(checkout.bind(ref="a"))
    w.add(shout.options(key="other", tags=["loud"]).bind("b"))
    w.add(checkout.options(queue="default", priority=0).bind("c"))
    plain, own, chosen = (each.job for each in w.flow().members)
    assert (plain.queue, plain.key, plain.priority, plain.tags) == ("ci", "acme", -3, ("nightly",))
    assert (chosen.queue, chosen.priority) == ("default", 0)
    assert (own.queue, own.key, own.priority, own.tags) == ("slow", "other", 5, ("nightly", "loud"))


def test_members_take_delay_and_headers_from_the_workflow_unless_they_have_their_own() -> None:
    w = workflow()
    w.add(checkout.bind(ref="a"))
    w.add(checkout.options(delay="5s", headers={"a": "own"}).bind(ref="b"))
    root = structs.replace(w._root, delay=60.0, headers=(("a", "all"), ("b", "all")))
    plain, own = (each.job for each in w.flow(root=root).members)
    assert (plain.delay, own.delay) == (60.0, 5.0)
    assert (dict(plain.headers), dict(own.headers)) == ({"a": "all", "b": "all"}, {"a": "own", "b": "all"})


def test_a_member_follows_the_workflow_when_it_fails_unless_it_has_a_policy() -> None:
    w = workflow(on_failure="pause")
    w.add(checkout.bind(ref="a"))
    w.add(checkout.bind(ref="b"), on_failure="cancel")
    flow = w.flow()
    assert [each.member.on_failure for each in flow.members] == [OnFailure.PAUSE, OnFailure.CANCEL]
    assert flow.root.member.on_failure is OnFailure.FAIL


def test_joins_are_stored_as_the_number_of_parents_that_must_complete() -> None:
    w = workflow()
    parents = [w.add(checkout.bind(ref=each)) for each in "abc"]
    for join in ("all", "any", AtLeast(2)):
        w.add(shout.bind("x"), after=parents, join=join)  # type: ignore[arg-type]
    w.add(shout.bind("x"), join="any")
    assert [each.member.join for each in w.flow().members] == [None, None, None, None, 1, 2, None]


def test_a_stored_graph_starts_with_the_members_without_parents() -> None:
    w = workflow()
    source = w.add(checkout.bind(ref="a"))
    w.add(inspect.bind(source=source.output), when="finished", name="late", after=[w.add(shout.bind("x"))])
    w._problems.clear()
    flow = w.flow()
    members = [*flow.members, flow.root]
    graph = Graph((Vertex(id=each.job.id, state=State.BLOCKED, is_gate=each.member.is_gate) for each in members), flow.edges)
    released = recount(graph, Flow(id=UUID(int=7)), graph.blocked()).verdicts
    assert set(released) == {each.job.id for each in flow.members if each.member.node != "late"}


def test_all_problems_of_a_graph_are_reported_at_once() -> None:
    w, other = workflow(max_nodes=2), workflow()
    foreign = other.add(checkout.bind(ref="a"))
    w.add(shout.options(unique_key="k").bind("a"), name="same")
    w.add(shout.options(within=object()).bind("a"), name="same")
    w.add(inspect.bind(source=foreign.output), name="a b", after=[foreign], join=AtLeast(2))
    found = problems_of(w, foreign)
    words = ("unique_key", "within", "same", "'a b'", "another workflow", "AtLeast", "join='all'", "max_nodes", "is returned")
    assert [word for word in words if not any(word in problem for problem in found)] == []
    assert all(problem.startswith("workflow release: ") for problem in found)


def test_options_of_a_node_that_there_are_not_are_refused_with_those_that_there_are() -> None:
    w = workflow()
    before = w.add(checkout.bind(ref="a"))
    w.add(shout.bind("a"), after=[before], join="most", when="done", on_failure="ignore")  # type: ignore[call-overload]
    w.map(shout.bind("a"), name="mapped", when="done", on_failure="ignore")  # type: ignore[call-overload]
    policy = "on_failure='ignore': use one of 'fail', 'continue', 'pause', 'cancel'"
    assert problems_of(w) == [
        "workflow release: shout: join='most': use 'all', 'any' or AtLeast(2)",
        "workflow release: shout: when='done': use 'succeeded' or 'finished'",
        f"workflow release: shout: {policy}",
        "workflow release: mapped: when='done': use 'succeeded' or 'finished'",
        "workflow release: mapped: w.map needs an argument each(node.output)",
        f"workflow release: mapped: {policy}",
    ]


def test_what_is_not_a_bound_task_is_refused_with_how_to_bind_it() -> None:
    w = workflow()
    node = w.add(checkout.bind(ref="a"))
    for given, message in (
        (checkout, "w.add(checkout): bind the arguments first: w.add(checkout.bind(…))"),
        (checkout.options(key="k"), "w.add(task): bind the arguments first: w.add(task.bind(…))"),
        (node, "w.add(<node checkout>): bind the arguments first: w.add(task.bind(…))"),
    ):
        with pytest.raises(ConfigurationError) as raised:
            w.add(given)  # type: ignore[call-overload]
        assert raised.value.problems == [f"workflow release: {message}"]
    with pytest.raises(ConfigurationError, match=r"w.map\(checkout\): .* w.map\(checkout.bind"):
        w.map(checkout)  # type: ignore[call-overload]


def test_nodes_and_bound_tasks_are_not_arguments() -> None:
    node = workflow().add(checkout.bind(ref="a"))
    for given in (node, [node]):
        with pytest.raises(ConfigurationError, match=r"^source: a node has no value: .* node.output$"):
            inspect.bind(source=given)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^text: a bound task has no value: .* node = w.add\(.* node.output$"):
        shout.bind(checkout.bind(ref="a"))  # type: ignore[arg-type]


def test_parents_that_are_not_nodes_are_refused_with_what_to_use() -> None:
    w = workflow()
    node = w.add(checkout.bind(ref="a"))
    w.add(shout.bind("a"), after=node)  # type: ignore[call-overload]
    w.add(shout.bind("b"), after="checkout")  # type: ignore[call-overload]
    w.add(shout.bind("c"), after=["checkout", node])  # type: ignore[list-item]
    one, text, several = problems_of(w)
    assert one == "workflow release: shout: after=<node checkout>: use a list of nodes of this workflow: after=[node]"
    assert text == "workflow release: shout-2: after='checkout': use a list of nodes of this workflow: after=[node]"
    assert several.startswith(
        "workflow release: shout-3: after=['checkout']: use nodes of this workflow, as w.add(…) returns them"
    )
    assert several.endswith("task.options(after=[handle])")


def test_a_result_that_cannot_be_the_parameter_is_refused() -> None:
    w = workflow()
    source = w.add(checkout.bind(ref="a"))
    w.add(shout.bind(source.output))  # type: ignore[arg-type]
    problem = "shout: text cannot be the result of 'checkout', which has the type Source: text is of the type str"
    assert problems_of(w) == [f"workflow release: {problem}"]


def test_a_list_that_cannot_be_the_parameter_is_refused_with_both_types_and_the_way_to_its_items() -> None:
    w = workflow()
    found, source = w.add(find.bind()), w.add(checkout.bind(ref="a"))
    w.add(shout.bind(found.output))  # type: ignore[arg-type]
    w.add(total.bind([found.output, source.output]))  # type: ignore[list-item]
    w.map(inspect.bind(source=each(found.output)))  # type: ignore[arg-type]
    of_find = "of 'find', which has the type"
    assert [problem.removeprefix("workflow release: ") for problem in problems_of(w)] == [
        f"shout: text cannot be the result {of_find} list[str]: text is of the type str; for its items use w.map and each(node.output)",
        f"total: numbers cannot have the result {of_find} list[str]: numbers has items of the type int",
        "total: numbers cannot have the result of 'checkout', which has the type Source: numbers has items of the type int",
        f"inspect: source cannot be an item of the result {of_find} str: source is of the type Source",
    ]


@pytest.mark.parametrize("how", [{"when": "finished"}, {"parent": "continue"}])
def test_a_parameter_that_may_lack_its_result_must_accept_failed(how: dict[str, str]) -> None:
    w = workflow(on_failure=how.get("parent", "fail"))
    source = w.add(checkout.bind(ref="a"))
    w.add(inspect.bind(source=source.output), when=how.get("when", "succeeded"))  # type: ignore[call-overload]
    assert "inspect: source may be a Failed" in problems_of(w)[0]
    w = workflow(on_failure=how.get("parent", "fail"))
    source = w.add(checkout.bind(ref="a"))
    w.add(report.bind(source=source.output), when=how.get("when", "succeeded"))  # type: ignore[call-overload]
    assert len(w.flow().members) == 2


def test_arguments_beside_a_reference_are_checked_when_it_is_bound() -> None:
    source = workflow().add(checkout.bind(ref="a"))
    for wrong in ({"level": "x"}, {"depth": 1}):
        with pytest.raises(PayloadInvalid):
            inspect.bind(source=source.output, **wrong)  # type: ignore[arg-type]
    with pytest.raises(PayloadInvalid, match="source"):
        inspect.bind(level=2)  # type: ignore[call-arg]


def test_a_job_with_a_reference_cannot_be_enqueued_on_its_own() -> None:
    source = workflow().add(checkout.bind(ref="a"))
    with pytest.raises(ConfigurationError, match="add this job to that workflow"):
        inspect.bind(source=source.output).new_job()
    with pytest.raises(PayloadInvalid):
        inspect.enqueue(source.output)


@pytest.mark.parametrize(
    "use",
    [
        str,
        bool,
        list,
        len,
        int,
        "<{}>".format,
        lambda output: f"{output:>9}",
        lambda output: output == "x",
        lambda output: output != "x",
        lambda output: output > 1,
        lambda output: output + 1,
        lambda output: 1 + output,
        lambda output: -output,
        lambda output: output[0],
        lambda output: "x" in output,
        lambda output: output.path,
        lambda output: checkout.bind(**output),
    ],
)
def test_an_output_that_is_used_as_a_value_raises_with_what_to_do(use: Callable[[object], object]) -> None:
    output = workflow().add(checkout.bind(ref="a")).output
    with pytest.raises(
        ConfigurationError, match=r"the output of 'checkout' has no value .* as an argument of bind\(…\); .* w.map"
    ):
        use(output)


def test_an_output_inside_another_argument_is_refused() -> None:
    source = workflow().add(checkout.bind(ref="a"))
    with pytest.raises(PayloadInvalid, match="the output of 'checkout' has no value"):
        store.bind(anything={"source": source.output})


def test_an_output_can_be_shown_copied_and_kept_in_a_set() -> None:
    output = workflow().add(checkout.bind(ref="a")).output
    assert (repr(output), repr(copy(output)), len({output, output})) == (("<output of checkout>",) * 2 + (1,))
    assert checkout.bind(ref=output).references == checkout.bind(ref=copy(output)).references  # type: ignore[arg-type]


def test_a_parameter_that_accepts_failed_is_read_as_the_rest_of_its_type() -> None:
    payload = report.definition.payload
    assert payload.decode(b'{"source":{"ref":"a"},"passed":3}') == ({"source": Source("a"), "passed": 3}, ())
    assert payload.fallible == {"source", "passed"}
    with pytest.raises(PayloadInvalid):
        payload.decode(b'{"source":{"reason":"EXPIRED"}}')


@pytest.mark.parametrize(
    ("produced", "accepted", "is_possible"),
    [
        (int, float, True),
        (int, str, False),
        (Source, dict[str, str], True),
        (Source, list[str], False),
        (None, str | None, True),
        (None, str, False),
        (list[int], set[int], True),
        (bytes, str, True),
        (Task, int, True),
    ],
)
def test_types_fit_unless_their_json_cannot(produced: object, accepted: object, is_possible: bool) -> None:
    assert fits(produced, accepted) is is_possible

"""Pictures of workflows: three are compared with those in ``golden``, which a change of the pictures has to change, too."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree

import pytest

from holdfast._core.job import Failure, Reason, State
from holdfast._core.picture.drawing import Form, draw
from holdfast._core.picture.layers import FOLDED_FROM, layers_of, summary_of
from holdfast._core.picture.svg import CHARACTER
from holdfast._core.workflow_view import NodeView, WorkflowView
from holdfast.errors import ConfigurationError

GOLDEN = Path(__file__).parent / "golden"
START = datetime(2030, 1, 31, 8, 0, tzinfo=UTC)
NOW = START + timedelta(seconds=90)


def node(name: str, state: State = State.BLOCKED, *after: str, seconds: float | None = None, **fields: object) -> NodeView:
    has_begun = state in (State.RUNNING, State.COMPLETED, State.FAILED)
    ended = START + timedelta(seconds=seconds) if seconds is not None and state is not State.RUNNING else None
    known: dict[str, object] = {
        "task": name.split("-")[0],
        "attempt": 1 if has_begun else 0,
        "needs": len(after),
        "waits": len(after),
        "reason": None,
        "error": None,
    }
    values = {**known, **fields}
    return NodeView(
        name=name,
        job=UUID(int=len(name)),
        state=state,
        after=after,
        started_at=START if has_begun else None,
        finished_at=ended,
        **{"is_paused": False, "awaits": None, **values},  # type: ignore[arg-type]
    )


def workflow(*nodes: NodeView, state: State = State.BLOCKED, **fields: object) -> WorkflowView:
    values: dict[str, object] = {"reason": None, "error": None, "paused_at": None, "deadline_at": None, "finished_at": None}
    return WorkflowView(id=UUID(int=1), name="release", state=state, nodes=nodes, **{**values, **fields})  # type: ignore[arg-type]


def release() -> WorkflowView:
    """A workflow in the middle of its life: a fan-out of 40, a join, a node that waits for a signal, one that retries."""
    tests = [node(f"test-{n}", State.COMPLETED if n < 30 else State.RUNNING, "checkout", seconds=5.0) for n in range(2, 41)]
    tests = [node("test", State.FAILED, "checkout", seconds=5.0), *tests]
    return workflow(
        node("checkout", State.COMPLETED, seconds=1.25),
        *tests,
        node("lint", State.RUNNING, "checkout", attempt=2),
        node("approve", State.BLOCKED, needs=0, waits=0, awaits="approved"),
        node("sign", State.BLOCKED, "lint", "approve", needs=1),
        node("publish", State.BLOCKED, "sign", *(each.name for each in tests)),
        node("notify-the-people-who-asked-for-this-release-by-name", State.SCHEDULED),
        deadline_at=START + timedelta(hours=2),
    )


@pytest.mark.parametrize(("form", "name"), [("text", "release.txt"), ("svg", "release.svg"), ("mermaid", "release.mmd")])
def test_a_workflow_is_drawn_as_stored(form: Form, name: str) -> None:
    assert draw(release(), form, NOW) == (GOLDEN / name).read_text(encoding="utf-8")


def test_an_unknown_form_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="'text', 'svg' or 'mermaid'"):
        draw(release(), "png", NOW)  # type: ignore[arg-type]


def test_many_nodes_of_one_task_are_one_box_with_counts() -> None:
    states = [State.COMPLETED] * 9_990 + [State.RUNNING] * 8 + [State.FAILED] * 2
    view = workflow(*(node(f"test-{n}", state) for n, state in enumerate(states)), node("report", State.BLOCKED, "test-3"))
    (box,), (report,) = layers_of(view, NOW).boxes
    assert (box.name, box.details) == ("test ×10,000", "9,990 done, 8 running, 2 failed")
    assert box.state is State.FAILED
    assert len(box.nodes) == 10_000
    assert layers_of(view, NOW).edges == (((0, 0), (1, 0)),)
    assert report.details == "waits for a decision about what failed"


def test_a_dozen_nodes_of_one_task_stay_apart() -> None:
    nodes = [node(f"test-{n}") for n in range(FOLDED_FROM - 1)]
    assert len(layers_of(workflow(*nodes), NOW).boxes[0]) == FOLDED_FROM - 1
    assert len(layers_of(workflow(*nodes, node("test")), NOW).boxes[0]) == 1


def test_a_node_is_one_layer_behind_the_last_of_its_parents() -> None:
    names = [f"n{n}" for n in range(2_000)]  # deeper than Python's calls may be
    chain = [node(name, State.BLOCKED, *names[max(0, n - 1) : n]) for n, name in enumerate(names)]
    view = workflow(*reversed(chain), node("last", State.BLOCKED, "n0", "n1999"))
    boxes = layers_of(view, NOW).boxes
    assert (len(boxes), [box.name for box in boxes[-1]]) == (2_001, ["last"])


def test_lines_between_layers_cross_less_when_nodes_follow_their_parents() -> None:
    view = workflow(node("a"), node("b"), node("y", State.BLOCKED, "b"), node("x", State.BLOCKED, "a"))
    assert [box.name for box in layers_of(view, NOW).boxes[1]] == ["x", "y"]


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (node("a", State.HELD, is_paused=True), "held by the pause"),
        (node("a", State.BLOCKED, awaits="go"), "waits for the signal go"),
        (node("a", State.BLOCKED, "b", "c", needs=1), "waits for 1 of b, c"),
        (node("a", State.BLOCKED, "b", "c"), "waits for b, c"),
        (node("a", State.BLOCKED, "b", "c", "d", "e"), "waits for b, c, d and 1 more"),
        (node("a", State.BLOCKED, "done", "c"), "waits for c"),
    ],
)
def test_a_node_that_waits_names_what_for(waiting: NodeView, words: str) -> None:
    parents = [node(name) for name in "bcde"]
    boxes = layers_of(workflow(waiting, node("done", State.COMPLETED), *parents), NOW).boxes
    assert next(box.details for layer in boxes for box in layer if box.name == "a") == words


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (workflow(node("a", State.COMPLETED), node("b")), "release: waiting, 1 of 2 nodes done"),
        (workflow(node("a", State.RUNNING)), "release: running, 0 of 1 nodes done"),
        (workflow(node("a"), paused_at=START), "release: paused, 0 of 1 nodes done"),
        (workflow(state=State.FAILED, reason=Reason.TIMED_OUT, paused_at=START), "release: failed: TIMED_OUT, 0 of 0 nodes done"),
    ],
)
def test_the_headline_names_what_the_workflow_does(view: WorkflowView, words: str) -> None:
    assert summary_of(view) == words


def test_an_empty_workflow_and_a_failed_one_can_be_drawn() -> None:
    failed = workflow(state=State.FAILED, error=Failure("DependencyFailed", "lint did not complete"))
    assert draw(failed, "text", NOW).splitlines()[-1] == "DependencyFailed: lint did not complete"
    ElementTree.fromstring(draw(failed, "svg", NOW))
    assert draw(failed, "mermaid", NOW).splitlines()[3] == "flowchart LR"


def test_nodes_that_failed_by_themselves_are_listed_below_the_text_with_reason_error_and_job() -> None:
    error = Failure("ValueError", "no tag\x1b[2J\nsecond line")
    tests = [node(f"test-{n}", State.FAILED, reason=Reason.HANDLER_ERROR, error=error) for n in range(22)]
    lost = node("publish", State.FAILED, "test-0", reason=Reason.DEPENDENCY_FAILED)
    below = draw(workflow(*tests, lost), "text", NOW).split("\n\n")[1].splitlines()
    assert below[0] == f"✗ test-0 ({tests[0].job})  HANDLER_ERROR: ValueError: no tag\\x1b[2J"
    assert (len(below), below[-1]) == (21, "and 2 more failed")
    crashed = draw(workflow(node("a", State.FAILED, reason=Reason.WORKER_CRASHED)), "text", NOW)
    assert crashed.splitlines()[-1] == f"✗ a ({UUID(int=1)})  WORKER_CRASHED"


def test_every_text_of_an_svg_ends_before_the_edge_of_its_box() -> None:
    odd = node("a" * 200, State.BLOCKED, '<b> & "c"')
    for view in (release(), workflow(odd, node('<b> & "c"'))):
        document = ElementTree.fromstring(draw(view, "svg", NOW))
        space = "{http://www.w3.org/2000/svg}"
        width = float(document.attrib["width"])
        for group in document.iter(f"{space}g"):
            card = next(group.iter(f"{space}rect"))
            right = float(card.attrib["x"]) + float(card.attrib["width"])
            assert right < width
            for text in group.iter(f"{space}text"):
                assert float(text.attrib["x"]) + len(text.text or "") * CHARACTER <= right
                assert float(text.attrib["y"]) < float(card.attrib["y"]) + float(card.attrib["height"])

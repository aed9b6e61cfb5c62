"""A workflow as lines of text, for a terminal."""

from datetime import datetime

from holdfast._core.job import State
from holdfast._core.member_causes import BECAUSE_OF_OTHERS
from holdfast._core.picture.layers import layers_of, summary_of
from holdfast._core.text import printable
from holdfast._core.workflow_view import NodeView, WorkflowView

SIGNS = {
    State.COMPLETED: "✓",
    State.RUNNING: "▶",
    State.CLAIMED: "▷",
    State.AVAILABLE: "○",
    State.SCHEDULED: "○",
    State.BLOCKED: "·",
    State.HELD: "‖",
    State.FAILED: "✗",
    State.CANCELLED: "✗",
}
WIDEST_NAME = 40
LISTED_FAILURES = 20
"""The most failed nodes that are listed below a picture."""


def text_of(view: WorkflowView, now: datetime) -> str:
    """Return a picture: a headline, and a block of lines for each layer. The first sign of a node's line shows its state.

    Below it stand the nodes that failed by themselves, each with its reason, its error and the id of its job.
    """
    layers = layers_of(view, now)
    boxes = [box for layer in layers.boxes for box in layer]
    names = min(WIDEST_NAME, max((len(box.name) for box in boxes), default=0))
    states = max((len(box.state.value) for box in boxes), default=0)
    lines = [summary_of(view)]
    for number, layer in enumerate(layers.boxes):
        lines.append("│" if number == 0 else "▼")
        lines += [f"{SIGNS[box.state]} {box.name:<{names}}  {box.state.value:<{states}}  {box.details}".rstrip() for box in layer]
    if view.error is not None:
        lines += ["", str(view.error)]
    own = [node for node in view.nodes if node.state is State.FAILED and node.reason not in (None, *BECAUSE_OF_OTHERS)]
    if own:
        lines += ["", *(_failure_of(node) for node in own[:LISTED_FAILURES])]
    if len(own) > LISTED_FAILURES:
        lines.append(f"and {len(own) - LISTED_FAILURES:,} more failed")
    return "\n".join(lines) + "\n"


def _failure_of(node: NodeView) -> str:
    why = "" if node.error is None else f": {str(node.error).splitlines()[0]}"
    return printable(f"{SIGNS[State.FAILED]} {node.name} ({node.job})  {node.reason}{why}")

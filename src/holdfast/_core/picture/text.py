"""A workflow as lines of text, for a terminal."""

from datetime import datetime

from holdfast._core.job import State
from holdfast._core.picture.layers import layers_of, summary_of
from holdfast._core.workflow_view import WorkflowView

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


def text_of(view: WorkflowView, now: datetime) -> str:
    """Return a picture: a headline, and a block of lines for each layer. The first sign of a node's line shows its state."""
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
    return "\n".join(lines) + "\n"

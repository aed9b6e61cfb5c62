"""A workflow as lines of text, for a terminal."""

from datetime import datetime

from msgspec import Struct

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


class Line(Struct, frozen=True):
    """A line of the picture; ``state``: that of the node it is about, for its colour."""

    text: str
    state: State | None = None


def lines_of(view: WorkflowView, now: datetime) -> list[Line]:
    """Return the lines of a picture: a headline, and a block for each layer."""
    layers = layers_of(view, now)
    boxes = [box for layer in layers.boxes for box in layer]
    names = min(WIDEST_NAME, max((len(box.name) for box in boxes), default=0))
    states = max((len(box.state.value) for box in boxes), default=0)
    lines = [Line(summary_of(view), view.state)]
    for number, layer in enumerate(layers.boxes):
        lines.append(Line("│" if number == 0 else "▼"))
        for box in layer:
            text = f"{SIGNS[box.state]} {box.name:<{names}}  {box.state.value:<{states}}  {box.details}"
            lines.append(Line(text.rstrip(), box.state))
    if view.error is not None:
        lines += [Line(""), Line(str(view.error), State.FAILED)]
    return lines


def text_of(view: WorkflowView, now: datetime) -> str:
    """Return the picture as plain text."""
    return "\n".join(line.text for line in lines_of(view, now)) + "\n"

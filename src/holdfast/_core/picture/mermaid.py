"""A workflow as Mermaid's text, which many pages of documents and code hosts draw."""

from datetime import datetime

from holdfast._core.job import State
from holdfast._core.picture.layers import layers_of, summary_of
from holdfast._core.workflow_view import WorkflowView

_CLASSES = {
    "done": "fill:#2da44e26,stroke:#2da44e",
    "active": "fill:#0969da26,stroke:#0969da",
    "waiting": "fill:#6e778126,stroke:#6e7781",
    "held": "fill:#bf870026,stroke:#bf8700",
    "failed": "fill:#cf222e26,stroke:#cf222e",
}
CLASS_OF = {
    State.COMPLETED: "done",
    State.RUNNING: "active",
    State.CLAIMED: "active",
    State.AVAILABLE: "waiting",
    State.SCHEDULED: "waiting",
    State.BLOCKED: "waiting",
    State.HELD: "held",
    State.FAILED: "failed",
    State.CANCELLED: "failed",
}
_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"})


def mermaid_of(view: WorkflowView, now: datetime) -> str:
    """Return a flowchart from left to right; its colours fit light and dark pages."""
    layers = layers_of(view, now)
    lines = ["---", f"title: '{summary_of(view)}'", "---", "flowchart LR"]
    for depth, layer in enumerate(layers.boxes):
        for position, box in enumerate(layer):
            parts = [f"<b>{_escaped(box.name)}</b>", box.state.value, *([_escaped(box.details)] if box.details else [])]
            lines.append(f'    n{depth}_{position}["{"<br/>".join(parts)}"]:::{CLASS_OF[box.state]}')
    lines += [f"    n{a}_{b} --> n{c}_{d}" for (a, b), (c, d) in layers.edges]
    lines += [f"    classDef {name} {style},color:inherit" for name, style in _CLASSES.items()]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.translate(_ENTITIES)

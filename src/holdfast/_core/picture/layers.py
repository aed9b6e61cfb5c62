"""A workflow in layers: each node behind all that it depends on, and many nodes of one kind as one box."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.workflow_view import NodeView, WorkflowView

FOLDED_FROM = 13
"""Nodes of one task in one layer from which on they are one box: more than a dozen boxes cannot be taken in at once."""
SHOWN_PARENTS = 3

_NUMBERED = re.compile(r"(-\d+|\[\d+\])$")
_WORDS = {State.COMPLETED: "done", State.BLOCKED: "waiting", State.AVAILABLE: "ready"}


class Box(Struct, frozen=True, kw_only=True):
    """A node in a picture, or several of one kind. ``state``: that of the node, or the most urgent one among them."""

    name: str
    state: State
    details: str
    nodes: tuple[str, ...]


class Layers(Struct, frozen=True):
    """The boxes of a workflow by layer, and the pairs of boxes, by (layer, position), that depend on each other."""

    boxes: tuple[tuple[Box, ...], ...]
    edges: tuple[tuple[tuple[int, int], tuple[int, int]], ...]


def layers_of(view: WorkflowView, now: datetime) -> Layers:
    """Return the layers of a workflow; ``now``: until when running nodes have run."""
    nodes = {node.name: node for node in view.nodes}
    depths = _depths(view.nodes)
    groups = dict[tuple[int, str, str], list[NodeView]]()
    for node in view.nodes:
        groups.setdefault((depths[node.name], node.task, _NUMBERED.sub("", node.name)), []).append(node)
    layers: list[list[list[NodeView]]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for (depth, _, _), group in groups.items():
        layers[depth] += [group] if len(group) >= FOLDED_FROM else [[node] for node in group]
    places = dict[str, tuple[int, int]]()
    ordered = [_ordered(layer, depth, places) for depth, layer in enumerate(layers)]
    edges = dict.fromkeys((places[parent], places[node.name]) for node in view.nodes for parent in node.after if parent in places)
    labels = {node.name: _label(group) for layer in ordered for group in layer for node in group}
    boxes = tuple(tuple(_box(group, nodes, labels, now) for group in layer) for layer in ordered)
    return Layers(boxes, tuple(sorted(edges)))


def condition_of(view: WorkflowView) -> str:
    """Return what a workflow does, in a word or two: its own state is ``blocked`` as long as it has not ended."""
    if PLACE_OF[view.state] is Place.FINISHED:
        return view.state.value if view.reason is None else f"{view.state.value}: {view.reason.value}"
    if view.paused_at is not None:
        return "paused"
    return "running" if any(PLACE_OF[node.state] is Place.ACTIVE for node in view.nodes) else "waiting"


def summary_of(view: WorkflowView) -> str:
    """Return one line about a workflow: its name, what it does, and how many of its nodes have completed."""
    done = sum(node.state is State.COMPLETED for node in view.nodes)
    parts = [condition_of(view), f"{done:,} of {len(view.nodes):,} nodes done"]
    if view.deadline_at is not None and PLACE_OF[view.state] is not Place.FINISHED:
        parts.append(f"deadline {view.deadline_at:%Y-%m-%d %H:%M:%S}Z")
    return f"{view.name}: {', '.join(parts)}"


def _depths(nodes: Sequence[NodeView]) -> dict[str, int]:
    """Return the layer of each node: one behind the last of its parents."""
    parents = {node.name: node.after for node in nodes}
    depths = dict[str, int]()
    for start in parents:
        waiting = [start]
        while waiting:
            name = waiting[-1]
            missing = [each for each in parents[name] if each in parents and each not in depths]
            if name not in depths and missing:
                waiting += missing
                continue
            depths.setdefault(name, max((depths[each] + 1 for each in parents[name] if each in depths), default=0))
            waiting.pop()
    return depths


def _ordered(layer: list[list[NodeView]], depth: int, places: dict[str, tuple[int, int]]) -> list[list[NodeView]]:
    """Sort the groups of a layer by the positions of their parents, so that fewer lines cross, and note their places."""

    def middle(group: list[NodeView]) -> float:
        found = [places[parent][1] for node in group for parent in node.after if parent in places]
        return sum(found) / len(found) if found else 0.0

    ordered = sorted(layer, key=middle)
    for position, group in enumerate(ordered):
        places.update((node.name, (depth, position)) for node in group)
    return ordered


def _label(group: Sequence[NodeView]) -> str:
    if len(group) < FOLDED_FROM:
        return group[0].name
    return f"{_NUMBERED.sub('', group[0].name)} ×{len(group):,}"


def _box(group: Sequence[NodeView], nodes: Mapping[str, NodeView], labels: Mapping[str, str], now: datetime) -> Box:
    first = group[0]
    if len(group) < FOLDED_FROM:
        details = ", ".join(filter(None, (_attempt(first), _duration(first, now), waiting_for(first, nodes, labels))))
        return Box(name=first.name, state=first.state, details=details, nodes=(first.name,))
    states = Counter(node.state for node in group)
    ranked = sorted(states, key=_URGENCY.index)
    counts = ", ".join(f"{states[state]:,} {_WORDS.get(state, state.value)}" for state in sorted(states, key=_ORDER.index))
    return Box(name=_label(group), state=ranked[0], details=counts, nodes=tuple(node.name for node in group))


def waiting_for(node: NodeView, nodes: Mapping[str, NodeView], labels: Mapping[str, str]) -> str:
    """Return what a node waits for, in words; empty for one that does not wait."""
    if node.is_paused:
        return "held by the pause"
    if node.awaits is not None:
        return f"waits for the signal {node.awaits}"
    if node.state is not State.BLOCKED:
        return ""
    left = [each for each in node.after if each in nodes and PLACE_OF[nodes[each].state] is not Place.FINISHED]
    names = list(dict.fromkeys(labels[each] for each in left)) or ["a decision about what failed"]
    more = f" and {len(names) - SHOWN_PARENTS:,} more" if len(names) > SHOWN_PARENTS else ""
    some = f"{node.needs:,} of " if 0 < node.needs < len(left) else ""
    return f"waits for {some}{', '.join(names[:SHOWN_PARENTS])}{more}"


def _attempt(node: NodeView) -> str:
    return f"attempt {node.attempt}" if node.attempt > 1 else ""


def _duration(node: NodeView, now: datetime) -> str:
    if node.started_at is None or PLACE_OF[node.state] is Place.PENDING:
        return ""
    return span(max(0.0, ((node.finished_at or now) - node.started_at).total_seconds()))


def span(seconds: float) -> str:
    """Return seconds as people read them.

    >>> span(0.25), span(75), span(7500)
    ('0.2s', '1m15s', '2h05m')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{seconds:.1f}s"


_URGENCY = [
    State.FAILED,
    State.HELD,
    State.RUNNING,
    State.CLAIMED,
    State.CANCELLED,
    State.AVAILABLE,
    State.SCHEDULED,
    State.BLOCKED,
    State.COMPLETED,
]
_ORDER = [
    State.COMPLETED,
    State.RUNNING,
    State.CLAIMED,
    State.AVAILABLE,
    State.SCHEDULED,
    State.BLOCKED,
    State.HELD,
    State.FAILED,
    State.CANCELLED,
]

"""What members get from others: the outcome of the last attempt of each parent, as it was recorded when the member was claimed.

So do jobs that have waited for their children, and those that run for an item of a list, or take the results of all of them.
"""

from collections import defaultdict
from uuid import UUID

from msgspec import json

from holdfast._core.job import PLACE_OF, Place, State, Token
from holdfast._core.member import Member
from holdfast._core.steps import CALL, GATHER
from proof.checker.flow_rows import FlowRow, StepRow
from proof.checker.history import Event, JobRow
from proof.checker.verdicts import CheckContext, Seers

WHOLE = "a list"
"""Stands for the outcome of all items of a list."""
SOURCE = "that of "
"""Stands, before the id of a member, for the outcome of the workflow that returns it."""


class Inputs:
    """S21. A parent may run again between the claim of a child and its first line: then both of its outcomes are right."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._outcomes: defaultdict[UUID, list[tuple[int, str]]] = defaultdict(list)
        self._claimed: dict[tuple[UUID, Token], int] = {}
        self._rows: dict[UUID, JobRow] = {}
        self._lists: dict[UUID, UUID] = {}  # by item: the gate of all items
        self._items: defaultdict[UUID, dict[UUID, None]] = defaultdict(dict)  # by gate
        self._children: dict[tuple[UUID, str, int], list[UUID]] = {}  # by the step that remembers them

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {
            "job": self._see_job,
            "flow": self._see_flow,
            "step": self._see_step,
            "inputs.given": self._see_inputs,
            "items.given": self._see_items,
            "children.returned": self._see_children,
        }

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_job(self, event: Event) -> None:
        before, after, job = event.before, event.after, event.job
        assert job is not None
        if not isinstance(after, JobRow):
            for each in {
                job,
                self._lists.get(job, job),
            } & self._outcomes.keys():  # nor are the results of a list, without one of them
                self._outcomes[each].append((self._context.index, ""))
            return
        if after.member is None:
            return
        self._rows[job] = after
        outcome = _outcome(after, after.member) if after.state is State.COMPLETED else ""
        known = self._outcomes[job]
        if not known or known[-1][1] != outcome:
            known.append((self._context.index, outcome))
        was_active = isinstance(before, JobRow) and PLACE_OF[before.state] is Place.ACTIVE
        if PLACE_OF[after.state] is Place.ACTIVE and not was_active:
            self._claimed[job, after.token] = self._context.index

    def _see_flow(self, event: Event) -> None:
        for edge in event.after.edges if isinstance(event.after, FlowRow) else ():
            gate = self._rows.get(edge.child)
            if edge.is_child and gate is not None and gate.member is not None and gate.member.is_map:
                self._lists[edge.parent] = edge.child
                self._items[edge.child][edge.parent] = None

    def _see_step(self, event: Event) -> None:
        step = event.after
        if event.job is not None and isinstance(step, StepRow) and step.name.startswith((CALL, GATHER)):
            self._children[event.job, step.name, step.nth] = json.decode(step.result or "[]", type=list[UUID])

    def _see_inputs(self, event: Event) -> None:
        job, claimed = event.job, self._claim_of(event)
        if job is None or claimed is None:
            return
        row = self._rows[job]
        assert row.member is not None
        given = json.decode(event.note, type=dict[str, str])
        for each in row.member.inputs:
            self._expect_outcome(job, given.get(each.parameter), each.parent, claimed)
        if "item" in given and job in self._lists:
            self._expect_item(job, row.member.node, given["item"])

    def _expect_item(self, job: UUID, node: str, item: str) -> None:
        """Check that a job got the item of its position, of a list that its map has ever had."""
        source = self._rows[self._lists[job]].member
        lists = [each.parent for each in source.inputs if each.is_each] if source is not None else []
        outcomes = [outcome for parent in lists for _, outcome in self._outcomes[parent]]
        items = [f"{outcome}/{_place(node)}" for outcome in outcomes if outcome]
        self._expect("S21", item in items, job, "it got the item '{}' of the lists {}", item, outcomes)

    def _see_items(self, event: Event) -> None:
        job, claimed = event.job, self._claim_of(event)
        if job is None or claimed is None:
            return
        member = self._rows[job].member
        assert member is not None
        given = json.decode(event.note, type=list[str] | None)
        for gate in [each.parent for each in member.inputs]:
            self._expect_outcome(job, "" if given is None else WHOLE, gate, claimed)
            items = sorted(self._items[gate], key=self._place_of) if given is not None else []
            self._expect("S21", len(items) == len(given or []), job, "it got {} results of {} items", given, len(items))
            for item, result in zip(items, given or [], strict=False):
                self._expect_outcome(job, result, item, claimed)

    def _see_children(self, event: Event) -> None:
        job, claimed = event.job, self._claim_of(event)
        name, nth, given = event.note.split("|", 2)
        if job is None or claimed is None or (job, name, int(nth)) not in self._children:
            return
        children, results = self._children[job, name, int(nth)], json.decode(given, type=list[str])
        self._expect("S21", len(children) == len(results), job, "it got {} results of {} children", len(results), len(children))
        for child, result in zip(children, results, strict=False):
            self._expect_outcome(job, result, child, claimed)

    def _claim_of(self, event: Event) -> int | None:
        """Return when the attempt was claimed whose code reports what it got; ``None`` if that is not known."""
        assert event.job is not None
        assert event.token is not None
        row = self._rows.get(event.job)
        return None if row is None else self._claimed.get((event.job, event.token))

    def _expect_outcome(self, job: UUID, given: str | None, parent: UUID, claimed: int) -> None:
        outcomes = self._since(parent, claimed)
        text = "it got '{}' from {}, whose last outcome is '{}'"
        self._expect("S21", given in outcomes, job, text, given, parent, outcomes[-1] or "a failure")

    def _place_of(self, item: UUID) -> int:
        row = self._rows.get(item)
        return -1 if row is None or row.member is None else _place(row.member.node)

    def _since(self, parent: UUID, claimed: int) -> list[str]:
        """Return the outcomes that a parent has had since the claim of a child."""
        known = self._outcomes[parent] or [(0, "")]
        first = max((place for place, (index, _) in enumerate(known) if index <= claimed), default=0)
        outcomes = [outcome for _, outcome in known[first:]]
        return [each for outcome in outcomes for each in self._of_source(outcome, claimed)]

    def _of_source(self, outcome: str, claimed: int) -> list[str]:
        return self._since(UUID(outcome.removeprefix(SOURCE)), claimed) if outcome.startswith(SOURCE) else [outcome]


def _outcome(row: JobRow, member: Member) -> str:
    if member.is_gate:
        return WHOLE if member.is_map else f"{SOURCE}{member.source}" if member.source is not None else ""
    return row.result


def _place(node: str) -> int:
    """Return the position of an item in its list, from its name."""
    return int(node.rpartition("[")[2].rstrip("]"))

"""What members get from others: the outcome of the last attempt of each parent, as it was recorded when the member was claimed."""

from collections import defaultdict
from uuid import UUID

from msgspec import json

from holdfast._core.job import PLACE_OF, Place, State, Token
from proof.checker.history import Event, JobRow
from proof.checker.verdicts import CheckContext, Seers


class Inputs:
    """S21. A parent may run again between the claim of a child and its first line: then both of its outcomes are right."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._outcomes: defaultdict[UUID, list[tuple[int, str]]] = defaultdict(list)
        self._claimed: dict[tuple[UUID, Token], int] = {}
        self._rows: dict[UUID, JobRow] = {}

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"job": self._see_job, "inputs.given": self._see_inputs}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_job(self, event: Event) -> None:
        before, after, job = event.before, event.after, event.job
        assert job is not None
        if not isinstance(after, JobRow) or after.member is None:
            return
        self._rows[job] = after
        outcome = after.result if after.state is State.COMPLETED else ""
        known = self._outcomes[job]
        if not known or known[-1][1] != outcome:
            known.append((self._context.index, outcome))
        was_active = isinstance(before, JobRow) and PLACE_OF[before.state] is Place.ACTIVE
        if PLACE_OF[after.state] is Place.ACTIVE and not was_active:
            self._claimed[job, after.token] = self._context.index

    def _see_inputs(self, event: Event) -> None:
        job, token = event.job, event.token
        assert job is not None
        assert token is not None
        row, claimed = self._rows.get(job), self._claimed.get((job, token))
        if row is None or row.member is None or claimed is None:
            return
        given = json.decode(event.note, type=dict[str, str])
        for each in row.member.inputs:
            outcomes = self._since(each.parent, claimed)
            text = "it got '{}' from {}, whose last outcome is '{}'"
            is_right = given.get(each.parameter) in outcomes
            self._expect("S21", is_right, job, text, given.get(each.parameter), each.parent, outcomes[-1] or "a failure")

    def _since(self, parent: UUID, claimed: int) -> list[str]:
        """Return the outcomes that a parent has had since the claim of a child."""
        known = self._outcomes[parent] or [(0, "")]
        first = max((place for place, (index, _) in enumerate(known) if index <= claimed), default=0)
        return [outcome for _, outcome in known[first:]]

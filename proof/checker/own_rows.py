"""Rows that handlers commit themselves, in one transaction with the check of their token."""

from collections import defaultdict
from uuid import UUID

from holdfast._core.job import PLACE_OF, Place, State, Token
from proof.checker.history import OWN_ROWS, Event, JobRow
from proof.checker.verdicts import CheckContext, Seers


class OwnRows:
    """The parts of S3 and S10 that concern such rows: only the owner of a job commits one, and a completed job has that of its attempt."""

    def __init__(self, context: CheckContext) -> None:
        self._expect = context.expect
        self._rows: dict[UUID, JobRow] = {}
        self._written: defaultdict[UUID, set[Token]] = defaultdict(set)

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"job": self._see_job, "own_row": self._see_own_row}

    def finish(self) -> None:
        """Do nothing: each event has been judged."""

    def _see_own_row(self, event: Event) -> None:
        assert event.job is not None
        assert event.token is not None
        row = self._rows.get(event.job)
        is_owner = row is not None and PLACE_OF[row.state] is Place.ACTIVE and row.token == event.token
        self._expect("S3", is_owner, event.job, "{} committed a row of its own, and no longer owned the job", event.token)
        self._written[event.job].add(event.token)

    def _see_job(self, event: Event) -> None:
        assert event.job is not None
        before, after, job = event.before, event.after, event.job
        if not isinstance(after, JobRow):
            self._rows.pop(job, None)
            return
        self._rows[job] = after
        if after.task in OWN_ROWS and after.state is State.COMPLETED and isinstance(before, JobRow) and not before.is_finished:
            is_there = before.token in self._written[job]
            self._expect("S10", is_there, job, "the job completed, and the row that {} committed does not exist", before.token)

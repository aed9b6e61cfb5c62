"""Cancellation: a job whose cancellation was confirmed ends cancelled, under any owner and by any process that settles it."""

from uuid import UUID

from holdfast._core.job import PLACE_OF, Place, State
from proof.checker.history import FAIL_OVER, Event, JobRow, Phase
from proof.checker.verdicts import CheckContext, Seers


class Cancels:
    """The part of S10 that concerns cancellation."""

    def __init__(self, context: CheckContext) -> None:
        self._expect = context.expect
        self._rows: dict[UUID, JobRow] = {}
        self._asked: dict[UUID, dict[str, bool]] = {}  # by job and caller: whether it has had an effect since

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"job": self._see_row, "request_cancel": self._see_call}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_call(self, event: Event) -> None:
        if event.job is None:
            return
        asked = self._asked.setdefault(event.job, {})
        if event.phase is Phase.INVOKE:
            asked[event.process] = _is_heeded(event.job, self._rows.get(event.job))
        elif event.phase is Phase.OK:
            # Real stores do not record the request itself: there the row must show the cancellation by now.
            is_heeded = asked.pop(event.process, False) or _is_heeded(event.job, self._rows.get(event.job))
            self._expect("S10", is_heeded, event.job, "a cancellation was confirmed, and the job goes on without the request")

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after = event.before, event.after
        if isinstance(after, JobRow):
            self._rows[event.job] = after
        else:
            self._rows.pop(event.job, None)
        if asked := self._asked.get(event.job):
            is_heeded = _is_heeded(event.job, self._rows.get(event.job))
            self._asked[event.job] = {caller: was or is_heeded for caller, was in asked.items()}
        is_forgetting = event.by is not None and event.by.verb == FAIL_OVER
        if isinstance(before, JobRow) and isinstance(after, JobRow) and not is_forgetting:
            self._expect_honoured(event.job, before, after)

    def _expect_honoured(self, job: UUID, before: JobRow, after: JobRow) -> None:
        if before.is_cancel_requested and PLACE_OF[before.state] is Place.ACTIVE:
            is_kept = after.is_cancel_requested or after.state in (State.COMPLETED, State.CANCELLED)
            is_ended = PLACE_OF[after.state] is Place.ACTIVE or after.state in (State.COMPLETED, State.CANCELLED)
            self._expect("S10", is_kept and is_ended, job, "its cancellation was requested, and it became {}", after.state)


def _is_heeded(job: UUID, row: JobRow | None) -> bool:
    """Return whether nothing is left to cancel, or the row carries the request to its owner; a root ends after its members."""
    member = None if row is None else row.member
    if row is None or member is None:
        return row is None or row.is_finished or row.is_cancel_requested
    is_root = member.flow == job and member.is_suspended and row.state is State.BLOCKED
    return member.is_gate or is_root or row.is_finished or row.is_cancel_requested

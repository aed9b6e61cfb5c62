"""Places in line: a job that came back without a wait that is meant is claimed before all that stand behind it."""

from uuid import UUID

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, State
from holdfast.testing.history import FAIL_OVER, Event, JobRow, LeaseRow
from proof.checker.verdicts import Ledger, Seers


class Order:
    """L10 as far as it speaks of who is claimed next. A job that never left the line is not judged: it only waits longer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._expect = ledger, ledger.expect
        self._back: dict[UUID, JobRow] = {}
        self._leases: dict[UUID, LeaseRow] = {}
        self._paused: set[str] = set()

    def seers(self) -> Seers:
        """Which events it looks at, where the order of claims is promised."""
        if not self._ledger.rules.keeps_order:
            return {}
        return {"job": self._see_row, "lease": self._see_lease, "queue": self._see_queue}

    def finish(self) -> None:
        """Nothing is left to be said."""

    def _see_lease(self, event: Event) -> None:
        if event.lease is not None and isinstance(event.after, LeaseRow):
            self._leases[event.lease] = event.after

    def _see_queue(self, event: Event) -> None:
        verb, _, queue = event.note.partition(" ")
        (self._paused.add if verb == "paused" else self._paused.discard)(queue)

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after = event.before, event.after
        self._back.pop(event.job, None)
        if not isinstance(before, JobRow) or not isinstance(after, JobRow) or event.by is None or event.by.verb == FAIL_OVER:
            return
        was_owned, is_owned = (PLACE_OF[row.state] is Place.ACTIVE for row in (before, after))
        if is_owned and not was_owned:
            self._expect_next(event.job, before, self._leases.get(after.lease) if after.lease else None)
        elif was_owned and after.state is State.AVAILABLE and not after.is_last_try and after.expires_in is None:
            is_first = event.by.record is AttemptOutcome.CRASHED and after.crashes == 1
            if is_first or event.by.record in (None, AttemptOutcome.RELEASED):
                self._back[event.job] = after

    def _expect_next(self, taken: UUID, row: JobRow, lease: LeaseRow | None) -> None:
        """No job that is back stood before the one that is taken, if the same worker could have taken it."""
        if lease is None or lease.is_isolated:
            return
        for job, waiting in self._back.items():
            could_take = (not lease.tasks or waiting.task in lease.tasks) and waiting.queue not in self._paused
            could_take = could_take and not self._ledger.locked[job]
            is_before = (waiting.available_at, job) < (row.available_at, taken)
            is_passed = could_take and is_before and waiting.priority == row.priority
            self._expect("L10", not is_passed, job, "it was back in line, and {} took one that stood behind it", lease.process)

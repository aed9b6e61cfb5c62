"""The order of claims: a job that returned to its lane at once is claimed before all of that lane that are due after it.

A job that returns to wait, even for no time, goes behind those that are due: else it would stay at the head.
"""

from uuid import UUID

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, State
from proof.checker.claims import ACCURACY
from proof.checker.history import FAIL_OVER, Event, JobRow, LeaseRow
from proof.checker.verdicts import CheckContext, Seers

WAITS = (AttemptOutcome.SNOOZED, AttemptOutcome.FAILED, AttemptOutcome.STALLED, AttemptOutcome.TIMED_OUT)
"""The outcomes after which a job waits."""


class Order:
    """S25. A job that was never claimed is not judged: it only waits longer. Where the order of claims is not promised, waits are."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._returned: dict[UUID, JobRow] = {}
        self._leases: dict[UUID, LeaseRow] = {}
        self._paused: set[str] = set()

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        if not self._context.rules.keeps_order:
            return {"job": self._see_wait}
        return {"job": self._see_row, "lease": self._see_lease, "queue": self._see_queue}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_lease(self, event: Event) -> None:
        if event.lease is not None and isinstance(event.after, LeaseRow):
            self._leases[event.lease] = event.after

    def _see_queue(self, event: Event) -> None:
        verb, _, queue = event.note.partition(" ")
        (self._paused.add if verb == "paused" else self._paused.discard)(queue)

    def _see_wait(self, event: Event) -> None:
        """Check that an attempt that asked for a wait did not keep its position."""
        before, after, by = event.before, event.after, event.by
        if isinstance(before, JobRow) and isinstance(after, JobRow) and by is not None and by.record in WAITS:
            is_behind = after.state is not State.AVAILABLE or after.due_in >= -ACCURACY
            self._expect("S25", is_behind, event.job, "it wanted to wait, and is {:.3f} s before the jobs of now", -after.due_in)

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        self._see_wait(event)
        before, after = event.before, event.after
        self._returned.pop(event.job, None)
        if not isinstance(before, JobRow) or not isinstance(after, JobRow) or event.by is None or event.by.verb == FAIL_OVER:
            return
        was_owned, is_owned = (PLACE_OF[row.state] is Place.ACTIVE for row in (before, after))
        if is_owned and not was_owned:
            self._expect_next(event.job, before, self._leases.get(after.lease) if after.lease else None)
        elif was_owned and after.state is State.AVAILABLE and not after.is_last_try and after.expires_in is None:
            is_first = event.by.record is AttemptOutcome.CRASHED and after.crashes == 1
            if is_first or event.by.record in (None, AttemptOutcome.RELEASED):
                self._returned[event.job] = after

    def _expect_next(self, taken: UUID, row: JobRow, lease: LeaseRow | None) -> None:
        """Check that no returned job was due before the taken one, if the same worker could have taken it."""
        if lease is None or lease.is_isolated:
            return
        for job, waiting in self._returned.items():
            could_take = (not lease.tasks or waiting.task in lease.tasks) and waiting.queue not in self._paused
            could_take = could_take and not self._context.locked[job]
            is_before = (waiting.available_at, job) < (row.available_at, taken)
            is_same_lane = (waiting.priority, waiting.queue, waiting.lane) == (row.priority, row.queue, row.lane)
            is_passed = could_take and is_before and is_same_lane
            self._expect(
                "S25", not is_passed, job, "it was back in its queue, and {} took a job that was behind it", lease.process
            )

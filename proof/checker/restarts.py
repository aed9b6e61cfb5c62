"""How soon code runs again: a job that returned to its queue at once starts as soon as a healthy worker has a free slot.

`order.py` judges the order of claims. A claim is only a row: users wait for the start of code.
"""

from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, State
from proof.checker.history import FAIL_OVER, IN_CARE, Event, JobRow, LeaseRow
from proof.checker.verdicts import RATE, CheckContext, Seers

NEVER = float("inf")


class _Worker(Struct):
    lease: LeaseRow | None = None
    running: set[UUID] = field(default_factory=set)
    preparing: set[UUID] = field(default_factory=set)

    @property
    def has_free_slot(self) -> bool:
        """Whether fewer jobs run than the worker has slots. A worker for isolated attempts takes no other jobs.

        A job whose rescue hook runs before its code, ``preparing``, has a slot too.
        """
        lease = self.lease
        return (
            lease is not None and not (lease.is_ended or lease.is_isolated) and len(self.running | self.preparing) < lease.slots
        )


class Restarts:
    """L10 by the start of code, in worlds with a healthy core.

    Only the core's workers count, and only the time in which at least one of them has a free slot without a break: the checker does
    not know how long the handlers of earlier jobs take. Earlier jobs fill all slots again and again.
    """

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._back: dict[UUID, tuple[float, JobRow]] = {}
        self._leases: dict[UUID, LeaseRow] = {}
        self._workers: dict[str, _Worker] = {}
        self._free_since = NEVER
        self._paused: set[str] = set()
        self._resumed: dict[str, float] = {}

    def seers(self) -> Seers:
        """Return the events that these rules read; none where no such start is promised."""
        if self._context.rules.restart is None:
            return {}
        return {
            "job": self._see_row,
            "lease": self._see_lease,
            "queue": self._see_queue,
            "worker.ready": self._see_ready,
            "worker.draining": self._see_drain,
            "process.end": self._see_death,
            "handler.start": self._see_start,
            "handler.end": self._see_end,
        }

    def finish(self) -> None:
        """Report the jobs that still wait beside a free slot."""
        for job in list(self._back):
            self._expect_soon(job)

    # workers of the core

    def _see_ready(self, event: Event) -> None:
        if event.note == IN_CARE:
            leases = [each for each in self._leases.values() if each.process == event.process]
            self._workers[event.process] = _Worker(leases[-1] if leases else None)
            self._judge_free()

    def _see_lease(self, event: Event) -> None:
        if event.lease is None or not isinstance(event.after, LeaseRow):
            return
        self._leases[event.lease] = event.after
        if worker := self._workers.get(event.after.process):
            worker.lease = event.after
            self._judge_free()

    def _see_death(self, event: Event) -> None:
        if self._workers.pop(event.process, None) is not None:
            self._judge_free()

    def _see_drain(self, event: Event) -> None:
        """Leave out a worker that its supervisor replaces: it takes no more jobs."""
        draining = [name for name, each in self._workers.items() if each.lease is not None and each.lease.worker == event.process]
        for name in draining:
            del self._workers[name]
        self._judge_free()

    def _see_end(self, event: Event) -> None:
        if event.job is not None and (worker := self._workers.get(event.process)):
            worker.running.discard(event.job)
            self._judge_free()

    def _judge_free(self) -> None:
        if not any(each.has_free_slot for each in self._workers.values()):
            self._free_since = NEVER
        elif self._free_since == NEVER:
            self._free_since = self._context.now

    # jobs

    def _see_queue(self, event: Event) -> None:
        verb, _, queue = event.note.partition(" ")
        (self._paused.add if verb == "paused" else self._paused.discard)(queue)
        self._resumed[queue] = event.time

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        job, before, after = event.job, event.before, event.after
        known = self._back.get(job)
        if not isinstance(after, JobRow) or not isinstance(before, JobRow) or event.by is None or event.by.verb == FAIL_OVER:
            self._back.pop(job, None)
            return
        is_owned = PLACE_OF[after.state] is Place.ACTIVE
        self._see_hook(job, after.lease if is_owned and after.is_owed else None)
        if is_owned and known is not None and not self._is_in_care(after):
            del self._back[job]  # that worker may be frozen, or cut off from the store
        elif not is_owned and not self._comes_back(event, before, after):
            self._back.pop(job, None)
        elif not is_owned and known is None:
            self._back[job] = event.time, after

    def _see_hook(self, job: UUID, lease: UUID | None) -> None:
        for worker in self._workers.values():
            worker.preparing.discard(job)
        owner = None if lease is None else self._leases.get(lease)
        if owner is not None and owner.process in self._workers:
            self._workers[owner.process].preparing.add(job)
        self._judge_free()

    def _comes_back(self, event: Event, before: JobRow, after: JobRow) -> bool:
        is_plain = after.state is State.AVAILABLE and not (after.is_last_try or after.is_owed) and after.expires_in is None
        record = None if event.by is None else event.by.record
        is_first = record is AttemptOutcome.CRASHED and after.crashes == 1
        was_owned = PLACE_OF[before.state] is Place.ACTIVE
        return was_owned and is_plain and after.is_known and (is_first or record in (None, AttemptOutcome.RELEASED))

    def _is_in_care(self, row: JobRow) -> bool:
        lease = None if row.lease is None else self._leases.get(row.lease)
        return lease is not None and lease.process in self._workers

    def _see_start(self, event: Event) -> None:
        assert event.job is not None
        if event.job in self._back:
            self._expect_soon(event.job)
            del self._back[event.job]
        if worker := self._workers.get(event.process):
            worker.running.add(event.job)
            self._judge_free()

    def _expect_soon(self, job: UUID) -> None:
        since, row = self._back[job]
        if row.queue in self._paused or self._context.locked[job]:
            return
        bound = (self._context.rules.restart or 0.0) * RATE
        waited = self._context.now - max(
            since, self._free_since, self._resumed.get(row.queue, 0.0), self._context.unlocked_at[job]
        )
        self._expect(
            "L10", waited <= bound, job, "it was back in its queue, and its code waited {:.2f} s beside a free slot", waited
        )

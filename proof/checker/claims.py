"""The jobs that a claim may take, and how soon it takes a claimable job while a healthy worker has a free slot."""

from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, Place, Reason, State
from proof.checker.history import FAIL_OVER, Event, JobRow, LeaseRow, Phase
from proof.checker.verdicts import CheckContext, Seers

NEVER = float("inf")
ACCURACY = 1e-4
"""Seconds by which two readings of the store's clock in one write may differ."""


class _Worker(Struct):
    slots: int
    is_ready: bool = False
    active: int = 0


class Claims:
    """The part of S1 on what may be claimed, S6 for jobs that expire, L4, L6, and which queues are paused."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self.paused: set[str] = set()
        self._resumed: dict[str, float] = {}
        self._usable: dict[UUID, tuple[float, float, JobRow]] = {}
        self._workers: dict[str, _Worker] = {}
        self._ready: set[str] = set()
        self._leases: dict[UUID, str] = {}
        self._free: set[str] = set()
        self._free_since = NEVER

    def seers(self) -> Seers:
        """Return the events that these rules read; those of workers only where promptness is promised."""
        seers: Seers = {"job": self._see_row, "queue": self._see_queue}
        if self._context.rules.prompt is not None:
            seers |= {"lease": self._see_lease, "worker.ready": self._see_ready, "process.end": self._see_death}
        return seers

    def finish(self) -> None:
        """Report the jobs that still wait beside a free worker."""
        for job, usable in self._usable.items():
            self._expect_prompt(job, *usable)

    def _see_queue(self, event: Event) -> None:
        verb, _, queue = event.note.partition(" ")
        if verb == "paused":
            self.paused.add(queue)
        elif queue in self.paused:
            self.paused.remove(queue)
            self._resumed[queue] = event.time

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        job, before, after = event.job, event.before, event.after
        if isinstance(before, JobRow) and isinstance(after, JobRow) and not (event.by and event.by.verb == FAIL_OVER):
            if PLACE_OF[before.state] is Place.PENDING and PLACE_OF[after.state] is Place.ACTIVE:
                self._expect_claimable(job, before, after)
            elif after.reason is Reason.EXPIRED and before.reason is not Reason.EXPIRED:
                is_late = before.attempt == 0 and after.expires_in is not None and after.expires_in <= ACCURACY
                is_late = is_late and before.state is State.AVAILABLE
                self._expect("S6", is_late, job, "the job was failed as expired and had not expired")
        if self._context.rules.prompt is not None:
            self._see_turn(job, before, after)

    def _expect_claimable(self, job: UUID, before: JobRow, after: JobRow) -> None:
        self._expect("S1", before.queue not in self.paused, job, "the job was claimed while its queue {} is paused", before.queue)
        self._expect("S1", after.due_in <= ACCURACY, job, "the job was claimed {:.3f} s before it was due", after.due_in)
        left = after.expires_in
        is_worth_it = before.attempt > 0 or left is None or left >= -ACCURACY
        self._expect("S1", is_worth_it, job, "the job was claimed {:.3f} s after it had expired", -(left or 0.0))

    # promptness

    def _see_turn(self, job: UUID, before: object, after: object) -> None:
        old, new = (row if isinstance(row, JobRow) else None for row in (before, after))
        usable = self._usable.pop(job, None)
        if usable is not None and (new is None or new.state is not State.AVAILABLE):
            self._expect_prompt(job, *usable)
        if new is not None and new.state is State.AVAILABLE and new.is_known and not new.is_last_try:
            expires_in = NEVER if new.expires_in is None or new.attempt else new.expires_in
            self._usable[job] = self._context.now + max(0.0, new.due_in), self._context.now + expires_in, new
        self._count(old, -1)
        self._count(new, +1)

    def _count(self, row: JobRow | None, number: int) -> None:
        if row is not None and row.lease is not None and PLACE_OF[row.state] is Place.ACTIVE:
            process = self._leases.get(row.lease, "")
            if process in self._workers:
                self._workers[process].active += number
                self._judge_free(process)

    def _expect_prompt(self, job: UUID, usable_at: float, expires_at: float, row: JobRow) -> None:
        rules = self._context.rules
        if row.queue in self.paused or rules.prompt is None:
            return
        waited = min(self._context.now, expires_at) - max(usable_at, self._free_since, self._resumed.get(row.queue, 0.0))
        name, why = ("L4", "other jobs were in front of it") if rules.has_hints else ("L6", "no hint came")
        self._expect(name, waited <= rules.prompt, job, "it waited {:.2f} s for a free worker, perhaps because {}", waited, why)

    def _see_lease(self, event: Event) -> None:
        if event.lease is None or not isinstance(event.after, LeaseRow):
            return
        process = event.after.process
        if event.after.is_ended:
            self._see_gone(process)
        elif event.lease not in self._leases and not event.after.is_isolated:
            self._leases[event.lease] = process
            self._workers[process] = _Worker(event.after.slots, process in self._ready)
            self._judge_free(process)

    def _see_ready(self, event: Event) -> None:
        if event.phase is Phase.LIFE:
            self._ready.add(event.process)
            if event.process in self._workers:
                self._workers[event.process].is_ready = True
                self._judge_free(event.process)

    def _see_death(self, event: Event) -> None:
        self._see_gone(event.process)

    def _see_gone(self, process: str) -> None:
        if self._workers.pop(process, None) is not None:
            self._judge_free(process)

    def _judge_free(self, process: str) -> None:
        worker = self._workers.get(process)
        if worker is not None and worker.is_ready and worker.active < worker.slots:
            self._free.add(process)
        else:
            self._free.discard(process)
        if not self._free:
            self._free_since = NEVER
        elif self._free_since == NEVER:
            self._free_since = self._context.now

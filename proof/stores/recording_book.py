"""A book that records every change of a row, in order, with the right under which it was asked for."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from holdfast._core.answers import BeatAnswer, EnqueueAnswer, ExpiredJob, Pruned, Purged, ReopenAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.book.content import Snapshot
from holdfast._core.book.moment import Moment
from holdfast._core.dependencies import After
from holdfast._core.job import Json, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.record import JobRecord
from holdfast._core.requests import BeatNote, NewLease, ProgressUpdate
from holdfast._core.workflow import NewFlow, NewMember, Revived, SteerFlow
from proof.checker.book_rows import job_row, lease_row
from proof.checker.history import FAIL_OVER, By, Event, History, JobRow, LeaseRow, Phase, outcome_of
from proof.checker.hooks import HookedBook
from proof.stores.recording_lanes import RecordingLanes


class RecordedStore(Protocol):
    """The store around the book: its time, its caller and its history. ``known``: the tasks with code; empty: all."""

    history: History
    now: Callable[[], float]
    known: Collection[str]
    caller: str

    def moment(self) -> Moment: ...


class RecordingBook(RecordingLanes):
    """A mixin before a correct or a broken book: it records what that book does and changes nothing."""

    around: RecordedStore

    def __init__(self) -> None:
        super().__init__()
        self.recorded_rows: dict[UUID, JobRow] = {}
        self._by: By | None = None
        self._tokens: Collection[tuple[UUID, Token]] = ()

    def report(self, now: Moment, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        """Record the reports under the tokens of the updates."""
        self._by, self._tokens = By("report"), [(update.job, update.token) for update in updates]
        return super().report(now, updates)

    def start(self, now: Moment, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """Record the starts under the given tokens."""
        self._by, self._tokens = By("start"), tokens
        return super().start(now, tokens)

    def start_through(self, now: Moment, lease: UUID, number: int, voids: int) -> bool:
        """Record the starts under the tokens of the jobs that the number covers."""
        covered = [row for row in self._held(lease) if row.token.number <= number]
        self._by, self._tokens = By("start_through"), [(row.id, row.token) for row in covered]
        return super().start_through(now, lease, number, voids)

    def enqueue(
        self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None
    ) -> EnqueueAnswer:
        """Record the jobs as enqueued by a client, or by a handler under its token."""
        parent, token = under or (None, None)
        self._by, self._tokens = self.move or By("enqueue", token, call=call, parent=parent), ()
        return super().enqueue(now, call, jobs, under=under)

    def enqueue_flow(self, now: Moment, call: UUID, new: NewFlow) -> EnqueueAnswer:
        """Record all jobs of a workflow as enqueued by one call."""
        self._by, self._tokens = By("enqueue", call=call), ()
        return super().enqueue_flow(now, call, new)

    def enqueue_member(self, now: Moment, call: UUID, child: NewMember, *, under: tuple[UUID, Token]) -> EnqueueAnswer:
        """Record the new member as enqueued by a handler under its token."""
        self._by, self._tokens = By("enqueue", under[1], call=call, parent=under[0]), ()
        return super().enqueue_member(now, call, child, under=under)

    def enqueue_after(self, now: Moment, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        """Record the jobs as enqueued by one call."""
        self._by, self._tokens = By("enqueue", call=call), ()
        return super().enqueue_after(now, call, jobs, after)

    def steer_flow(self, now: Moment, flow: UUID, how: SteerFlow, *, by: AuditNote | None = None) -> State | None:
        self._by, self._tokens = By("steer_flow", outcome=how.verb), ()
        return super().steer_flow(now, flow, how, by=by)

    def revive(
        self, now: Moment, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False
    ) -> Revived:
        self._by, self._tokens = By("revive"), ()
        return super().revive(now, limit, after=after, flow=flow, dry_run=dry_run)

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        self._by, self._tokens = By("request_cancel"), ()
        return super().request_cancel(now, ids)

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        self._by, self._tokens = By("reopen"), ()
        return super().reopen(now, ids, is_fresh=is_fresh)

    def reschedule(
        self, now: Moment, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None
    ) -> dict[UUID, State]:
        self._by, self._tokens = By("reschedule"), ()
        return super().reschedule(now, ids, delay=delay, run_at=run_at)

    def delete(self, now: Moment, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        self._by, self._tokens = By("delete"), ()
        return super().delete(now, ids, only_waiting=only_waiting)

    def purge(self, now: Moment, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
        self._by, self._tokens = By("purge"), ()
        return super().purge(now, queue, limit, until, by=by)

    def expire(self, now: Moment, limit: int) -> tuple[ExpiredJob, ...]:
        self._by, self._tokens = By("expire"), ()
        return super().expire(now, limit)

    def prune(self, now: Moment, limit: int) -> Pruned:
        self._by, self._tokens = By("prune"), ()
        return super().prune(now, limit)

    def owed_hooks(self, now: Moment, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        """Record the delayed hooks as given to a worker that looks for hooks without an attempt."""
        self._by, self._tokens = By("owed_hooks"), ()
        return super().owed_hooks(now, tasks, limit, pause=pause)

    def pause(self, now: Moment, queues: Sequence[str], *, is_paused: bool, by: AuditNote | None = None) -> None:
        super().pause(now, queues, is_paused=is_paused, by=by)
        for queue in queues:
            self._record("queue", By("pause"), note=f"{'paused' if is_paused else 'resumed'} {queue}")

    def _settle(self, transition: Transition, *arguments: Json) -> bool:
        outcome = outcome_of(transition)
        self._by, self._tokens = By("exchange", transition.token, transition.precondition, outcome, record=transition.record), ()
        return super()._settle(transition, *arguments)

    def _take(self, row: JobRecord, *arguments: Json, **keywords: Json) -> Json:
        self._by, self._tokens = By("claim"), ()
        return super()._take(row, *arguments, **keywords)

    def _complete_hook(self, row: JobRecord, token: Token, written: Json) -> None:
        self._by, self._tokens = By("hook", token), ()
        super()._complete_hook(row, token, written)  # type: ignore[misc]  # only a book with hooks is asked

    def _put(self, row: JobRecord) -> None:
        super()._put(row)
        by = self._by
        under = [token for job, token in self._tokens if job == row.id]
        if by is not None and under:
            by = By(by.verb, row.token if row.token in under else under[0])
        old, new = self.recorded_rows.get(row.id), self._row_of(row)
        if by is not None and old is not None and by.parent is not None:
            by = By(by.verb)  # the right of a job that adds others is to insert them
        self.recorded_rows[row.id] = new
        lease = row.lease or (old.lease if old is not None else None)
        self._record("job", by, job=row.id, token=row.token, lease=lease, before=old, after=new)

    def _forget(self, row: JobRecord) -> None:
        super()._forget(row)
        self._record("job", self._by, job=row.id, token=row.token, before=self.recorded_rows.pop(row.id), after=None)

    def _record(self, what: str, by: By | None, **fields: Json) -> None:
        self._note(what, by, **fields)

    def _note(self, what: str, by: By | None, **fields: Json) -> None:
        """Record an event that changes no row."""
        self.around.history.add(
            Event(time=self.around.now(), process=self.around.caller, what=what, phase=Phase.TRUTH, by=by, **fields)
        )

    def fail_over(self, snapshot: Snapshot) -> None:
        """Forget all changes since the snapshot, and record that."""
        jobs, paused, schedules = self._all.jobs, set(self._all.paused_queues), self._all.schedules
        limits, settings = self._all.limits, self._all.queue_settings
        leases = {lease: self._lease_row(lease) for lease in self._all.leases}
        self.restore(snapshot)
        by, self.around.caller = By(FAIL_OVER), "store"
        for job in {**jobs, **self._all.jobs}:
            row = self._all.jobs.get(job)
            if row is not jobs.get(job):
                before, after = self.recorded_rows.pop(job, None), None if row is None else self._row_of(row)
                if after is not None:
                    self.recorded_rows[job] = after
                self._record("job", by, job=job, before=before, after=after)
        for queue in sorted(paused ^ set(self._all.paused_queues)):
            self._record("queue", by, note=f"{'resumed' if queue in paused else 'paused'} {queue}")
        self.record_schedules(self.around.moment(), schedules, by)
        self.record_lanes(limits, settings, by)
        for lease in {**leases, **self._all.leases}:
            self._record("lease", by, lease=lease, before=leases.get(lease), after=self._lease_row(lease))

    def open_lease(self, now: Moment, lease: NewLease) -> bool:
        """Record the change of one lease."""
        before = self._lease_rows([lease.id])
        answer = super().open_lease(now, lease)
        self._record_leases(before, By("open_lease"))
        return answer

    def beat(self, now: Moment, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        """Record the change of some leases."""
        before = self._lease_rows(leases)
        answer = super().beat(now, leases, draining=draining, notes=notes)
        self._record_leases(before, By("beat"))
        return answer

    def request_drain(self, now: Moment, lease: UUID, *, by: AuditNote | None = None) -> bool:
        """Record the change of one lease."""
        before = self._lease_rows([lease])
        answer = super().request_drain(now, lease, by=by)
        self._record_leases(before, By("request_drain"))
        return answer

    def end_lease(self, now: Moment, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        """Record the end of one lease."""
        before = self._lease_rows([lease])
        answer = super().end_lease(now, lease, why, seen=seen)
        self._record_leases(before, By("end_lease", is_judged=seen is not None))
        return answer

    def _lease_rows(self, leases: Sequence[UUID]) -> dict[UUID, LeaseRow | None]:
        return {lease: self._lease_row(lease) for lease in leases}

    def _lease_row(self, lease: UUID) -> LeaseRow | None:
        known = self._all.leases.get(lease)
        if known is None:
            return None
        return lease_row(known, (self.around.moment().stamp - known.expires_at) / 1e6)

    def _row_of(self, row: JobRecord) -> JobRow:
        return job_row(
            row,
            self.around.moment().wall,
            is_known=not self.around.known or row.task in self.around.known,
            hooks_committed=len(self.rows[row.id]) if isinstance(self, HookedBook) else 0,
        )

    def _record_leases(self, before: dict[UUID, LeaseRow | None], by: By) -> None:
        for lease, old in before.items():
            row = self._lease_row(lease)
            if row is not None and row != old:
                self._record("lease", by, lease=lease, before=old, after=row)

"""The verbs of operators and maintenance for a book: cancel, reopen, reschedule, delete, purge, pause, expire and prune."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import ExpiredJob, Pruned, Purged, ReopenAnswer, SteerAnswer, Vitals
from holdfast._core.audit import AUDIT_RETENTION, AuditNote
from holdfast._core.book.archiving import BookArchiving
from holdfast._core.book.moment import Moment, micros
from holdfast._core.book.rows import Rows
from holdfast._core.book.workflows import BookWorkflows
from holdfast._core.job import PLACE_OF, Place, Reason, State, Token
from holdfast._core.policy import HOOK_RETENTION
from holdfast._core.record import (
    JobRecord,
    as_read,
    matches,
    stub,
    with_hook_delayed,
)
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.unique_keys import asks_again
from holdfast._core.workflow import SteerFlow


class BookOperations(BookWorkflows, BookArchiving):
    """The verbs of operators and of maintenance; each keeps the promise of the verb of this name in ``_ports/store``."""

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        roots = [row.id for row in self._rows(ids) if row.member is not None and row.member.flow == row.id]
        waiting = list[UUID]()
        for row in self._with_children([job for job in ids if job not in roots]):
            match PLACE_OF[row.state]:
                case Place.PENDING if self._waits_for_children(row):
                    self._put(structs.replace(row, cancel_requested=True))
                case Place.PENDING:
                    ended = structs.replace(row, state=State.CANCELLED, reason=Reason.BY_OPERATOR, finished_at=now.wall)
                    self._move(structs.replace(ended, awaits=None, held_for=None))
                    waiting.append(row.id)
                case Place.ACTIVE:
                    self._put(structs.replace(row, cancel_requested=True))
                case Place.FINISHED:
                    pass
        self._pass_on(waiting, now)
        self._cancel_flows(roots, now)
        return self._states(ids, now)

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        taken, members = dict[UUID, UUID](), Rows()
        for row in self._rows(ids):
            if as_read(row, now.wall).state is State.AVAILABLE or PLACE_OF[row.state] is Place.ACTIVE or row.is_stub:
                continue
            if row.state is State.BLOCKED or (row.member is not None and row.member.is_paused):
                continue
            if row.member is not None and PLACE_OF[row.state] is Place.FINISHED:
                members.append(row)
                continue
            if PLACE_OF[row.state] is Place.FINISHED and asks_again(row):
                holder = self._holder(row, now.wall)
                if holder is not None and holder.id != row.id:
                    taken[row.id] = holder.id
                    continue
                self._take_key(row)
            self._remember_attempt(row)
            self._move(self._reopened(row, now.wall, is_fresh=is_fresh))
        taken |= self._retry_members(members, now, is_fresh=is_fresh)
        return ReopenAnswer(self._states(ids, now), taken)

    def reschedule(
        self, now: Moment, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None
    ) -> dict[UUID, State]:
        due = now.wall + timedelta(microseconds=micros(delay)) if run_at is None else run_at.astimezone(UTC)
        for row in self._rows(ids):
            if row.state is State.AVAILABLE:
                self._put(structs.replace(row, available_at=due))
        return self._states(ids, now)

    def delete(self, now: Moment, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        places = (Place.PENDING, Place.FINISHED)
        unowned = [
            row for row in self._rows(ids) if row.state is State.AVAILABLE or (PLACE_OF[row.state] in places and not only_waiting)
        ]
        free = [row for row in unowned if not self._is_needed(row) and row in self._doomed_with(row)]
        self._delete({each.id: each for row in free for each in self._doomed_with(row)}.values(), now)
        return self._states(ids, now)

    def _delete(self, doomed: Iterable[JobRecord], now: Moment) -> None:
        rows = list(doomed)
        for row in rows:
            self._forget(row)
        self._moves(now).lose(row.id for row in rows if row.member is not None and PLACE_OF[row.state] is not Place.FINISHED)

    def steer(
        self, now: Moment, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None
    ) -> SteerAnswer:
        before = [row for row in self._rows(ids) if matches(as_read(row, now.wall), which, now.wall)]
        chosen = [row.id for row in before]
        match how.verb:
            case SteerVerb.CANCEL:
                self.request_cancel(now, chosen)
            case SteerVerb.REOPEN:
                self.reopen(now, chosen, is_fresh=how.is_fresh)
            case SteerVerb.RESCHEDULE:
                self.reschedule(now, chosen, delay=how.delay, run_at=how.run_at)
            case SteerVerb.DELETE:
                self.delete(now, chosen)
        after = {row.id: row for row in self._rows(chosen)}
        self._audit(now, by, sum(row != after.get(row.id) for row in before))
        return SteerAnswer(self._states(ids, now), frozenset(ids) - frozenset(chosen))

    def steer_flow(self, now: Moment, flow: UUID, how: SteerFlow, *, by: AuditNote | None = None) -> State | None:
        state = super().steer_flow(now, flow, how)
        if state is not None:
            self._audit(now, by, 1)
        return state

    def purge(self, now: Moment, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
        until = until or now.wall
        old = (row for row in self._each(self._waiting(queue)) if row.created_at <= until and not self._is_needed(row))
        doomed = [*islice(old, limit)]
        self._delete(doomed, now)
        self._audit(now, by, len(doomed))
        return Purged(len(doomed), until)

    def expire(self, now: Moment, limit: int) -> tuple[ExpiredJob, ...]:
        late = self._each(job for _, job in self._all.expiring.until(now.wall))
        rows = [*islice(late, limit)]
        for row in rows:
            self._move(structs.replace(row, state=State.FAILED, reason=Reason.EXPIRED, finished_at=now.wall))
        self._pass_on([row.id for row in rows], now)
        return tuple(ExpiredJob(row.id, row.task) for row in rows)

    def owed_hooks(self, now: Moment, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        lines = [self._all.owed[task].until(now.wall) for task in {*tasks} if task in self._all.owed]
        owed = self._each(job for _, job in merge(*lines))
        rows = [with_hook_delayed(row, now.wall, pause) for row in islice(owed, limit)]
        for row in rows:
            self._put(row)
        return tuple(rows)

    def pause(self, now: Moment, queues: Sequence[str], *, is_paused: bool, by: AuditNote | None = None) -> None:
        self._audit(now, by, sum((queue in self._all.paused_queues) != is_paused for queue in {*queues}))
        for queue in queues:
            if is_paused:
                self._all.paused_queues.setdefault(queue, now.wall)
            else:
                self._all.paused_queues.pop(queue, None)

    def prune(self, now: Moment, limit: int) -> Pruned:
        jobs, stubs = self._prune_jobs(now.wall, limit)
        receipts, leases = self._prune_receipts_and_leases(now.wall, limit)
        attempts, beats = self._prune_attempts(now.wall, limit), self._prune_beats(now.wall, limit)
        self._prune_rates(now.wall, limit)
        self._prune_audits(now.wall, limit)
        archived = self._prune_archives(now.wall, limit - len(jobs))
        return Pruned(len(jobs) + archived, len(stubs), receipts, leases, attempts, beats)

    def vitals(self, now: Moment) -> Vitals:
        """Return them without the workflows, whose members wait for each other."""
        late = [
            (now.wall - first).total_seconds() - (self.floor if is_stub else retention)
            for (retention, is_stub, is_plain), line in self._all.ended.items()
            for first, _ in islice(line, 1)
            if is_plain
        ]
        return Vitals(self.schema_version, max(0.0, *late) if late else 0.0)

    def _prune_jobs(self, wall: datetime, limit: int) -> tuple[Rows, Rows]:
        lines, floor = self._all.ended.items(), wall - timedelta(seconds=self.floor)
        past = [(line, wall - timedelta(seconds=retention), is_stub) for (retention, is_stub, _), line in lines]
        old = self._each(job for _, job in merge(*(line.until(min(end, floor)) for line, end, _ in past)))
        gone = [*islice((each for row in old if not self._is_awaited(row) for each in self._pruned_with(row, wall)), limit)]
        young = merge(*(line.between(floor, end) for line, end, is_stub in past if not is_stub))
        worn = [*islice(self._each(job for _, job in young), limit)]
        for row in gone:
            self._forget(row)
        for row in worn:
            self._put(stub(row))
        return gone, worn

    def _pruned_with(self, row: JobRecord, wall: datetime) -> Rows:
        """Return what is deleted with a job whose retention is over; without it while the hook of one of its members is owed."""
        doomed, newest = self._doomed_with(row), wall - timedelta(seconds=HOOK_RETENTION)
        owed = {
            each.id
            for each in doomed
            if each.hook_due_at is not None and each.finished_at is not None and each.finished_at > newest
        }
        return [each for each in doomed if each.id not in {*owed, row.id}] if owed else doomed

    def _prune_receipts_and_leases(self, wall: datetime, limit: int) -> tuple[int, int]:
        floor = timedelta(seconds=self.floor)
        calls = [call for _, call in islice(self._all.received.until(wall - floor), limit)]
        ended = (lease for _, lease in self._all.ended_leases.until(wall - floor) if lease not in self._all.holds)
        leases = [*islice(ended, limit)]
        for call in calls:
            del self._all.receipts[call]
        for lease in leases:
            del self._all.leases[lease]
        return len(calls), len(leases)

    def _prune_attempts(self, wall: datetime, limit: int) -> int:
        floor = timedelta(seconds=self.floor)
        brief = [*islice(self._all.brief_attempts.until(wall - floor), limit)]
        for _, job, number, claim in brief:
            self._all.attempts.drop(job, Token(claim, number))
        return len(brief)

    def _prune_beats(self, wall: datetime, limit: int) -> int:
        gone = [number for _, number in islice(self._all.worn_beats.until(wall), limit)]
        for number in gone:
            del self._all.beats[number]
        return len(gone)

    def _prune_audits(self, wall: datetime, limit: int) -> None:
        for _, action in [*islice(self._all.audited.until(wall - timedelta(seconds=AUDIT_RETENTION)), limit)]:
            del self._all.audits[action]

    def _prune_archives(self, wall: datetime, limit: int) -> int:
        """Forget archives whose jobs need not be kept any more, each as a whole; return how many jobs they had."""
        pruned = 0
        for _, key in [*self._all.worn_archives.until(wall)]:
            if pruned < limit:
                pruned += self._drop_archive(key)
        return pruned

    def _prune_rates(self, wall: datetime, limit: int) -> None:
        now = (wall - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        unused = [each for each, ready_at in self._all.rates.items() if ready_at <= now]
        for each in unused[:limit]:
            del self._all.rates[each]

    def _states(self, ids: Sequence[UUID], now: Moment) -> dict[UUID, State]:
        return {row.id: as_read(row, now.wall).state for row in self._rows(ids)}

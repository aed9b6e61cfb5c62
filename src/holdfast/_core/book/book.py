"""The reference store without clock, lock or asyncio: each verb of the store port as a plain method of a book.

It is the oracle of the model tests, the store of simulations, and the base of stores that keep a book in a file or an object.
Each verb is passed the ``Moment`` at which it happens, and runs to its end; the caller makes it one atomic step. Nothing here is random,
and every order is sorted.
"""

from collections.abc import Sequence
from itertools import count
from typing import assert_never
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, BeatAnswer, Duplicate, EnqueueAnswer, ExchangeAnswer
from holdfast._core.apart import are_equal
from holdfast._core.audit import AuditNote
from holdfast._core.book.claims import BookClaims
from holdfast._core.book.history import BookHistory
from holdfast._core.book.moment import Moment, micros
from holdfast._core.book.operations import BookOperations
from holdfast._core.book.prefetching import BookPrefetching
from holdfast._core.book.rows import NO_WORKER, KeptSchedule, Lease, Marks, UniqueKey, kept_beat, key_of
from holdfast._core.book.scheduling import BookScheduling
from holdfast._core.book.steps import BookSteps
from holdfast._core.idempotency import is_duplicate_settle
from holdfast._core.job import PLACE_OF, Claim, NewJob, Place, State, Token
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import LeaseEnd, Precondition, Transition
from holdfast._core.record import JobRecord, attempt_to_keep, begun, claim_of, new_record, settled
from holdfast._core.requests import AttemptNote, BeatNote, ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.schedule import Advance, Overlap, TickAnswer, version_of
from holdfast.errors import HoldfastError

_REPORTED = ("stage", "fraction", "message", "checkpoint", "points")


class Book(BookClaims, BookOperations, BookScheduling, BookPrefetching, BookSteps, BookHistory):
    """Jobs, leases, receipts, schedules and steps in memory; each verb keeps the promise of the verb of this name in ``_ports/store``."""

    def enqueue(
        self, now: Moment, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None
    ) -> EnqueueAnswer:
        if call not in self._all.receipts:
            is_lost = under is not None and self._active(*under) is None
            answer = EnqueueAnswer(is_lost=True) if is_lost else self._insert(jobs, now)
            self._all.receipts[call] = (now.wall, answer)
        return self._all.receipts[call][1]

    def enqueue_by(self, now: Moment, call: UUID, jobs: Sequence[NewJob], by: AuditNote) -> EnqueueAnswer:
        answer = self.enqueue(now, call, jobs)
        self._audit(now, by, 0 if answer.is_refused else len(jobs) - len(answer.duplicates))
        return answer

    def record_action(self, now: Moment, by: AuditNote, changed: int) -> None:
        self._audit(now, by, changed)

    def exchange(self, now: Moment, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        self._require_new_children(transitions)
        moved, answers = list[Transition](), list[Answer]()
        for transition in transitions:
            if self._settle(transition, now):
                moved.append(transition)
                answers.append(Answer.APPLIED)
            else:
                answers.append(self._answer_again(transition))
        self._pass_on([transition.job for transition in moved], now)
        self._adopt_all(moved, now)
        if request is None:
            return ExchangeAnswer(tuple(answers))
        claims, cursor, is_whole = self._claim(request, now)
        return ExchangeAnswer(tuple(answers), claims, cursor, is_whole, has_limited=bool(self._all.limits))

    def start(self, now: Moment, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        lost = set()
        for job, token in tokens:
            row = self._active(job, token)
            if row is None or row.lease is None or not self._is_alive(row.lease):
                lost.add(job)
            elif row.state is State.CLAIMED:
                self._put(structs.replace(row, state=State.RUNNING, attempt=row.attempt + 1, started_at=now.wall))
                self._all.marks[job] = structs.replace(self._all.marks[job], started=now.stamp, moved=now.stamp)
        return frozenset(lost)

    def report(self, now: Moment, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        lost = set()
        for update in updates:
            row = self._active(update.job, update.token)
            if row is None:
                lost.add(update.job)
                continue
            marks = self._all.marks[row.id]
            if update.order is not None and update.order < marks.reported:
                continue
            reported = {name: value for name in _REPORTED if (value := getattr(update, name)) is not None}
            self._put(structs.replace(row, last_progress_at=now.wall, **reported))
            newest = marks.reported if update.order is None else update.order
            self._all.marks[row.id] = structs.replace(marks, moved=now.stamp, reported=newest)
        return frozenset(lost)

    def annotate(self, now: Moment, notes: Sequence[AttemptNote]) -> None:
        for note in notes:
            ended = self._all.attempts.row((note.job, note.token))
            if ended is None or ended.record is None:
                continue
            record = structs.replace(
                ended.record,
                late_result=ended.record.late_result if note.late_result is None else note.late_result,
                error=note.error if ended.record.error is None else ended.record.error,
                stacks=ended.record.stacks if note.stacks is None else note.stacks,
                late_at=(ended.record.late_at or now.wall) if note.is_late else ended.record.late_at,
            )
            self._all.attempts.put(note.job, note.token, structs.replace(ended, record=record))

    def open_lease(self, now: Moment, lease: NewLease) -> bool:
        old = self._all.leases.get(lease.id)
        if old is not None and old.end is not None:
            return False
        if old is None:
            self._all.leases[lease.id] = Lease(lease, now.wall, now.stamp, now.stamp + micros(lease.timing.ttl))
        else:
            self._all.leases[lease.id] = old.renew(now.stamp)
        return True

    def beat(self, now: Moment, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        answer = self.alive(leases)
        olds = [self._all.leases[lease] for lease in dict.fromkeys(leases) if lease in answer.alive]
        for old in olds:
            renewed = structs.replace(old.renew(now.stamp), is_draining=draining or old.is_draining)
            self._all.leases[old.spec.id] = renewed
        for note in notes:
            if note.lease in answer.alive:
                spec = self._all.leases[note.lease].spec
                self._all.beats[self._all.next_number("beat")] = kept_beat(note, spec, now.wall)
        elapsed = (now.stamp - min(old.renewed_at for old in olds)) / 1e6 if olds else None
        return structs.replace(answer, elapsed=elapsed, draining=answer.alive if draining else answer.draining)

    def alive(self, leases: Sequence[UUID]) -> BeatAnswer:
        """Return the answer of a beat without its renewal."""
        alive = frozenset(filter(self._is_alive, leases))
        marked = {lease: tuple(row.id for row in self._held(lease) if row.cancel_requested) for lease in leases if lease in alive}
        cancelled = {lease: jobs for lease, jobs in marked.items() if jobs}
        draining = frozenset(lease for lease in alive if self._all.leases[lease].is_draining)
        return BeatAnswer(alive=alive, gone=frozenset(leases) - alive, cancelled=cancelled, draining=draining)

    def request_drain(self, now: Moment, lease: UUID, *, by: AuditNote | None = None) -> bool:
        if not self._is_alive(lease):
            return False
        old = self._all.leases[lease]
        self._audit(now, by, int(not old.is_draining))
        self._all.leases[lease] = structs.replace(old, is_draining=True)
        return True

    def renewed_at(self, lease: UUID) -> int:
        """Return the stamp of the last renewal of a lease."""
        return self._all.leases[lease].renewed_at

    def end_lease(self, now: Moment, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        old = self._all.leases.get(lease)
        if old is None:  # record it, so that a late copy of its opening is refused
            spec = structs.replace(NO_WORKER, id=lease)
            self._all.leases[lease] = Lease(spec, now.wall, now.stamp, now.stamp, end=why, ended_at=now.wall)
        elif old.end is None:
            if seen is not None and (seen != old.seen + now.beats(lease) or self._overdue(old, now) <= 0):
                return None
            self._all.leases[lease] = structs.replace(old, end=why.with_drain(is_draining=old.is_draining), ended_at=now.wall)
        return self._all.leases[lease].end

    def advance(self, now: Moment, move: Advance) -> TickAnswer:
        kept = self._all.schedules.get(move.name)
        if kept is None or kept.change == move.change:
            return TickAnswer.LOST if kept is None else _answer_of(move, kept.schedule.last_job)
        old = kept.schedule
        if old.version != move.version or old.paused_at is not None or old.next_at > now.wall:
            return TickAnswer.LOST
        last = None if old.last_job is None else self._all.jobs.get(old.last_job)
        is_free = last is None or PLACE_OF[last.state] is Place.FINISHED
        last_job = old.last_job
        if move.job is not None and (is_free or move.overlap is not Overlap.SKIP):
            if last is not None and move.overlap is Overlap.CANCEL:
                self.request_cancel(now, [last.id])
            self.enqueue(now, move.job.id, [move.job])
            last_job = move.job.id
        values = {"last_tick": move.tick, "next_at": move.following, "last_job": last_job, "version": version_of(move.change)}
        self._all.schedules[move.name] = KeptSchedule(structs.replace(old, **values), move.change)
        return _answer_of(move, last_job)

    def _insert(self, jobs: Sequence[NewJob], now: Moment) -> EnqueueAnswer:
        news, duplicates = list[JobRecord](), dict[UUID, Duplicate]()
        keys: dict[UniqueKey, JobRecord] = {}
        for row in (new_record(job, now.wall) for job in jobs):
            key, holder = key_of(row), self._holder(row, now.wall)
            if key is not None and holder is None:
                holder = keys.setdefault(key, row)
            if holder is None or holder is row:
                news.append(row)
            else:
                duplicates[row.id] = Duplicate(holder.id, are_equal(holder.payload, row.payload))
        answer = EnqueueAnswer(duplicates)
        if not answer.is_refused:
            if not self._are_new([row.id for row in news]):
                raise HoldfastError("enqueue: a job of that id exists already; each job needs its own id")
            for row in news:
                self._take_key(row)
            for row in news:
                self._put(self._in_its_queue(row))
        return answer

    def _settle(self, transition: Transition, now: Moment) -> bool:
        row = self._active(transition.job, transition.token)
        if row is None or row.lease is None:
            return False
        match transition.precondition:
            case Precondition.TOKEN:
                may_move = True
            case Precondition.LEASE_ENDED:
                may_move = not self._is_alive(row.lease)
            case Precondition.OVERDUE:
                may_move = transition.rescued is not None and self._late(row, transition.rescued, now) > 0
            case Precondition.VOIDED:
                may_move = self._is_voided(row, transition.voids)
            case _:
                assert_never(transition.precondition)
        if not may_move:
            return False
        if row.state is State.CLAIMED and not transition.never_ran:
            row = begun(row)
        moved = transition
        if row.cancel_requested:
            moved = transition.with_cancellation(cancel_requested=True, by=self._cancelled_by(row))
        if moved.awaits is not None and self._has_signal(row.id, moved.awaits):
            moved = structs.replace(moved, delay=0.0, awaits=None)
        ended = attempt_to_keep(row, transition, now.wall)
        if ended is not None:
            self._all.attempts.put(row.id, row.token, ended)
        self._move(settled(row, moved, now.wall))
        if moved.forgets_steps:
            self._forget_steps(row.id, with_signals=moved.to is State.COMPLETED)
        return True

    def _answer_again(self, transition: Transition) -> Answer:
        row = self._all.jobs.get(transition.job)
        attempt = self._all.attempts.row((transition.job, transition.token))
        if is_duplicate_settle(transition, row, attempt):
            return Answer.APPLIED
        return Answer.MISSING if row is None and attempt is None else Answer.LOST

    def _claim(self, request: ClaimRequest, now: Moment) -> tuple[tuple[Claim, ...], Cursor, bool]:
        lease = self._all.leases.get(request.lease)
        if lease is None or lease.end is not None or self._overdue(lease, now) > 0:
            return (), request.cursor, True
        is_voided = request.voids is not None and lease.voids != request.voids
        if is_voided or (lease.spec.is_isolated and self._all.holds.get(request.lease)):
            return (), request.cursor, True
        claims, cursor, is_whole = list[Claim](), request.cursor, True
        numbers = count(self._all.numbers.get("claim", 0) + 1)
        for part in request.parts():
            due, cursor, is_whole = self._due(structs.replace(part, cursor=cursor), now.wall)
            claims += [
                self._take(row, part, now, is_running=part.limit > 0, worker=lease.spec.worker, number=next(numbers))
                for row in due
            ]
        if claims:
            self._all.numbers["claim"] = next(numbers) - 1
        return tuple(claims), cursor, is_whole or len(claims) == request.room

    def _take(self, row: JobRecord, request: ClaimRequest, now: Moment, *, is_running: bool, worker: str, number: int) -> Claim:
        taken = structs.replace(
            row,
            token=Token(request.claim, number),
            policy=request.tasks[row.task],
            state=State.RUNNING if is_running else State.CLAIMED,
            attempt=row.attempt + is_running,
            lease=request.lease,
            worker=worker,
            claimed_at=now.wall,
            started_at=now.wall if is_running else None,
            awaits=None,
        )
        self._put(taken)
        self._all.marks[row.id] = Marks(now.stamp, now.stamp)
        return claim_of(taken)


def _answer_of(move: Advance, last_job: UUID | None) -> TickAnswer:
    if move.job is None:
        return TickAnswer.DROPPED
    return TickAnswer.FIRED if move.job.id == last_job else TickAnswer.SKIPPED

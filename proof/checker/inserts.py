"""Which jobs exist: acknowledged ones, whole batches, children of owners, one for each unique key. No other row is removed."""

from collections import defaultdict
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, Place, State, Token
from holdfast.stores.objects.wall_clock import TOLERATED
from proof.checker.history import FAIL_OVER, By, Event, JobRow, Phase
from proof.checker.verdicts import RATE, CheckContext, Seers


class _Known(Struct):
    """One job. ``freed_at`` is when its key last became free, or ``None`` while the job has it."""

    row: JobRow | None = None
    was_inserted: bool = False
    is_gone: bool = False
    is_acknowledged: bool = False
    is_forgotten: bool = False
    is_refused: bool = False
    call: UUID | None = None
    asked_at: float | None = None
    finished_at: float = 0.0
    freed_at: float | None = None
    had_key: bool = False


class _Write(Struct):
    """The jobs that one call has just inserted; ``index`` is that of its last event."""

    call: UUID
    jobs: set[UUID]
    index: int


class Inserts:
    """S6, S7, S11, and the part of S10 that concerns enqueuing."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._jobs: defaultdict[UUID, _Known] = defaultdict(_Known)
        self._holders: defaultdict[str, dict[UUID, float | None]] = defaultdict(dict)
        self._calls: defaultdict[UUID, set[UUID]] = defaultdict(set)
        self._write: _Write | None = None

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"job": self._see_row, "enqueue": self._see_call}

    def finish(self) -> None:
        """Check S6 and S7 for the last write and for every acknowledged job."""
        self._close_write()
        for job, known in self._jobs.items():
            is_kept = known.row is not None or known.is_forgotten or known.is_gone or not known.is_acknowledged
            self._expect("S6", is_kept, job, "the job was acknowledged and does not exist")

    # what callers saw

    def _see_call(self, event: Event) -> None:
        by, job = event.by, event.job
        if job is None:
            return
        known = self._jobs[job]
        match event.phase:
            case Phase.INVOKE:
                known.asked_at = event.time if known.asked_at is None else known.asked_at
                known.call = None if by is None else by.call
                if known.call is not None and by is not None and not by.outcome:
                    self._calls[known.call].add(job)
            case Phase.OK:
                known.is_acknowledged = True
                is_there = known.row is not None or known.is_forgotten or known.is_gone
                self._expect("S6", is_there, job, "the job was acknowledged and does not exist")
            case Phase.FAIL:
                known.is_refused = True
                is_absent = not known.was_inserted or self._context.has_forgotten
                self._expect("S7", is_absent, job, "the job was refused and exists")
                if by is not None and by.holder is not None:
                    self._see_duplicate(job, known, by.holder)
            case _:
                pass

    def _see_duplicate(self, job: UUID, known: _Known, holder: UUID) -> None:
        other = self._jobs[holder]
        is_held = other.had_key and (other.freed_at is None or known.asked_at is None or other.freed_at >= known.asked_at)
        is_held = is_held or (known.call is not None and other.call == known.call)
        self._expect(
            "S11", is_held or self._context.has_forgotten, job, "the job was refused for {}, which has no such key", holder
        )

    # truth

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after = event.before, event.after
        job, known, by = event.job, self._jobs[event.job], event.by
        row = after if isinstance(after, JobRow) else None
        if by is not None and by.verb == FAIL_OVER:
            known.is_forgotten = self._context.has_forgotten = True
        elif row is None:
            self._see_removal(job, known, by)
        elif before is None:
            self._see_insert(job, known, by)
        if row is not None and row.is_finished and (known.row is None or not known.row.is_finished):
            known.finished_at = event.time
        self._see_key(job, known, row, is_forgetting=by is not None and by.verb == FAIL_OVER)
        known.row = row

    def _see_insert(self, job: UUID, known: _Known, by: By | None) -> None:
        self._expect("S10", self._context.has_forgotten or not known.was_inserted, job, "the job was inserted again")
        known.was_inserted = True
        if by is None:
            return
        self._expect("S7", not known.is_refused or self._context.has_forgotten, job, "it was inserted after it had been refused")
        if by.parent is not None:
            parent = self._jobs[by.parent].row
            is_owner = parent is not None and by.token is not None and _may_add(parent, by, by.token)
            self._expect("S7", is_owner, job, "the job is a child of {}, which {} no longer owned", by.parent, by.token)
        if by.call is not None:
            self._see_written(by.call, job)

    def _see_written(self, call: UUID, job: UUID) -> None:
        write, index = self._write, self._context.index
        if write is not None and write.call == call and write.index == index - 1:
            write.jobs.add(job)
            write.index = index
        else:
            self._close_write()
            self._write = _Write(call, {job}, index)

    def _close_write(self) -> None:
        if self._write is not None:
            left = self._calls[self._write.call] - self._write.jobs
            self._expect("S7", not left, next(iter(left), None), "other jobs of its call were inserted without it")
            self._write = None

    def _see_removal(self, job: UUID, known: _Known, by: By | None) -> None:
        row, rules = known.row, self._context.rules
        known.is_gone = True
        match None if by is None or row is None else by.verb:
            case "delete":
                is_allowed = row is not None and PLACE_OF[row.state] is not Place.ACTIVE
            case "purge":
                is_allowed = row is not None and row.state is State.AVAILABLE
            case "prune" if row is not None:
                apart = 0.0 if rules.has_lease_clock else 2 * TOLERATED  # each process writes by its own clock
                kept = (self._context.now - known.finished_at) * RATE + rules.step + apart + 0.01
                # Members are kept for as long as their root is.
                retention = 0.0 if row.member is not None and row.member.flow != job else row.policy.retention
                is_old = not rules.is_timed or kept >= max(rules.floor, retention)
                is_allowed = row.is_finished and is_old
            case _:
                is_allowed = known.is_gone = False
        self._expect("S6", is_allowed, job, "the row of the job is gone, it was {}", row and row.state)

    def _see_key(self, job: UUID, known: _Known, row: JobRow | None, *, is_forgetting: bool) -> None:
        key = row.key if row is not None else known.row.key if known.row is not None else ""
        if not key:
            return
        holders, now, slack = self._holders[key], self._context.now, self._slack
        is_held, until = _hold(row, now)
        if row is not None and known.row is not None and row.key_terms.is_freed and not known.row.key_terms.is_freed:
            left = holders.get(job, now)
            self._expect(
                "S11", left is not None and left <= now + slack, job, "the job lost the key {} before its time was over", key
            )
        if not is_held:
            if job in holders:
                until = holders.pop(job)
                known.freed_at = now if until is None else min(now, until + slack)
            return
        holders[job] = until
        known.had_key, known.freed_at = True, None if until is None else until + slack
        others = [each for each, end in holders.items() if each != job and (end is None or end > now + slack)]
        self._expect("S11", not others or is_forgetting, job, "the job has the key {} of {}", key, next(iter(others), None))

    @property
    def _slack(self) -> float:
        """The seconds by which the store's clock may have judged the end of a period differently."""
        rules = self._context.rules
        return rules.step + (0.0 if rules.has_lease_clock else 2 * TOLERATED) + 0.01


def _hold(row: JobRow | None, now: float) -> tuple[bool, float | None]:
    """Return whether a job holds its key, and until when; ``None``: until it is finished or claimed."""
    if row is None or row.key_terms.is_freed:
        return False, None
    if not row.is_finished and not (row.key_terms.until_started and row.token.number > 0):
        return True, None
    is_kept = row.key_kept is not None and row.key_kept > 0 and row.state not in (State.FAILED, State.CANCELLED)
    return (True, now + row.key_kept * RATE) if is_kept and row.key_kept is not None else (False, None)


def _may_add(parent: JobRow, by: By, token: Token) -> bool:
    """Return whether a job may add others under a token: while it is active, or in the write that lets it wait for them."""
    if by.verb == "adopt":
        return parent.state is State.BLOCKED and parent.token == Token(None, token.number)
    return PLACE_OF[parent.state] is Place.ACTIVE and parent.token == token

"""Ticks of schedules: each is one job, stored with the move of its schedule, and a due one fires soon."""

from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct

from holdfast._core.schedule import Overlap, TickAnswer
from holdfast._core.ticks import following
from proof.checker.history import FAIL_OVER, Event, JobRow, Phase, ScheduleRow
from proof.checker.verdicts import CheckContext, Seers


class _Known(Struct):
    """A schedule, when its row was written, and the id of the move that wrote it."""

    row: ScheduleRow
    since: float
    move: UUID | None = None


class Schedules:
    """S14 and L15. What a move should do follows from the row before it and from the time that its sender had read."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._known: dict[str, _Known] = {}
        self._jobs: dict[UUID, JobRow] = {}
        self._stored: list[UUID] = []  # the jobs of a move whose schedule has not moved yet
        self._reads: dict[str, datetime] = {}
        self._sent: dict[UUID, datetime | None] = {}  # by move: the time that its sender had read
        self._landed: dict[UUID, bool] = {}  # by move: whether it has stored a job
        self._tick_jobs: dict[tuple[str, datetime], UUID] = {}
        self._returned = set[UUID]()  # moves from such a tick: a change sent again had brought a removed schedule back
        self._stale = set[UUID]()  # moves sent before the store forgot what their senders had read
        self._calm_since = 0.0 if context.rules.is_always_calm else float("inf")

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {
            "job": self._see_job,
            "schedule": self._see_schedule,
            "ticks": self._see_read,
            "advance": self._see_call,
            "calm": self._see_calm,
        }

    def finish(self) -> None:
        """Check that no due tick is left, and no job without the move of its schedule."""
        self._expect_moved()
        for name, known in self._known.items():
            self._expect_soon(name, known)

    # what callers saw

    def _see_calm(self, event: Event) -> None:
        self._calm_since = min(self._calm_since, event.time)

    def _see_read(self, event: Event) -> None:
        self._reads[event.process] = datetime.fromisoformat(event.note)

    def _see_call(self, event: Event) -> None:
        assert event.by is not None
        assert event.by.call is not None
        move, name = event.by.call, event.by.outcome
        if event.phase is Phase.INVOKE:
            self._sent.setdefault(move, self._reads.get(event.process))
        elif event.phase is Phase.OK and not self._context.has_forgotten and move not in self._returned:
            has_stored = self._landed.get(move)
            known = self._known.get(name)
            match TickAnswer(event.note):
                case TickAnswer.FIRED:
                    is_so = has_stored is True
                case TickAnswer.LOST:
                    is_so = has_stored is None or known is None or known.move != move
                case _:
                    is_so = has_stored is False
            self._expect("S14", is_so, event.job, "the move of {} was answered '{}', which is not what it did", name, event.note)

    # truth

    def _see_job(self, event: Event) -> None:
        assert event.job is not None
        if isinstance(event.after, JobRow):
            self._jobs[event.job] = event.after
        else:
            self._jobs.pop(event.job, None)
        if event.before is None and event.by is not None and event.by.verb == "advance":
            self._stored.append(event.job)

    def _see_schedule(self, event: Event) -> None:
        name, known = event.note, self._known.pop(event.note, None)
        before, after = event.before, event.after if isinstance(event.after, ScheduleRow) else None
        verb, move = ("", None) if event.by is None else (event.by.verb, event.by.call)
        if known is not None and verb != FAIL_OVER:
            self._expect_soon(name, known)
        if verb == FAIL_OVER:
            self._stale.update(self._sent)
            self._tick_jobs = {key: job for key, job in self._tick_jobs.items() if key[0] != name}
        if verb == "advance" and isinstance(before, ScheduleRow) and after is not None:
            self._see_move(name, before, after, move)
        else:
            self._expect_moved()
            if verb != FAIL_OVER and isinstance(before, ScheduleRow) and after is not None:
                self._see_change(name, before, after)
        if after is not None:
            self._known[name] = _Known(after, event.time, move if verb == "advance" else None)

    def _see_change(self, name: str, before: ScheduleRow, after: ScheduleRow) -> None:
        """Check a new definition, a pause or a skip: it fires nothing, and no tick comes again."""
        is_same = (after.last_tick, after.last_job) == (before.last_tick, before.last_job)
        self._expect("S14", is_same, before.last_job, "a change of {} has changed its last tick", name)
        is_later = after.last_tick is None or after.next_at > after.last_tick
        self._expect("S14", is_later, before.last_job, "a change of {} brings the tick {} again", name, after.next_at)

    def _see_move(self, name: str, before: ScheduleRow, after: ScheduleRow, move: UUID | None) -> None:
        stored, self._stored, tick, rules = self._stored, [], after.last_tick, self._context.rules
        job = stored[0] if stored else before.last_job
        if tick is None:
            self._expect("S14", False, job, "{} moved on without a tick", name)
            return
        if move in self._stale:
            return
        is_due = before.next_at <= after.at and (not rules.is_timed or tick <= after.at + timedelta(seconds=rules.step))
        self._expect("S14", is_due and not before.is_paused, job, "the tick {} of {} fired when it was not due", tick, name)
        is_new = before.last_tick is None or tick > before.last_tick
        self._expect("S14", is_new, job, "the tick {} of {} fired again", tick, name)
        is_next = after.next_at == following(after.when, after.anchor, tick)
        self._expect("S14", is_next, job, "the tick {} of {} is followed by {}", tick, name, after.next_at)
        if move is not None and self._tick_jobs.get((name, tick)) in self._jobs:
            self._expect("S14", not stored, job, "the tick {} of {} stored a second job", tick, name)
            self._returned.add(move)
            return
        now = None if move is None else self._sent.get(move)
        if now is not None:
            self._expect_policy(name, before, after, now, stored)
        if stored:
            self._tick_jobs[name, tick] = stored[0]
        if move is not None:
            self._landed[move] = bool(stored)

    def _expect_policy(self, name: str, before: ScheduleRow, after: ScheduleRow, now: datetime, stored: list[UUID]) -> None:
        """Check that the right tick fired, that it has one job or none, and that an earlier job is cancelled where it should be."""
        tick, fires = _expected(before, now)
        job = stored[0] if stored else before.last_job
        text = "the tick {} of {} was due, and its schedule moved on from {}"
        self._expect("S14", after.last_tick == tick, job, text, tick, name, after.last_tick)
        last = None if before.last_job is None else self._jobs.get(before.last_job)
        is_free = last is None or last.is_finished
        wanted = int(fires and (is_free or before.overlap is not Overlap.SKIP))
        text = "the tick {} of {} stored {} jobs with the move of its schedule, instead of {}"
        self._expect("S14", len(stored) == wanted, job, text, tick, name, len(stored), wanted)
        is_last = after.last_job == job
        self._expect("S14", is_last, job, "{} takes {} for the job of its last tick", name, after.last_job)
        if stored and before.overlap is Overlap.CANCEL and last is not None:
            is_cancelled = last.is_finished or last.is_cancel_requested
            self._expect("S14", is_cancelled, before.last_job, "the next tick of {} did not cancel the job", name)

    def _expect_moved(self) -> None:
        for job in self._stored:
            self._expect("S14", False, job, "the job of a tick was stored without the move of its schedule")
        self._stored = []

    def _expect_soon(self, name: str, known: _Known) -> None:
        """Check that the next tick has not been due for long. A schedule with missed ticks moves on within the bound, again and again."""
        bound, row, now = self._context.rules.tick_bound, known.row, self._context.now
        due_at = known.since + (row.next_at - row.at).total_seconds()
        if bound is None or row.is_paused or now <= due_at:
            return
        freed_at = 0.0  # overlap="cancel" waits for the row of the last job
        if row.last_job is not None:
            freed_at = now if self._context.locked[row.last_job] else self._context.unlocked_at[row.last_job]
        took = now - max(due_at, known.since, self._calm_since, freed_at)
        text = "the tick {} of {} was due for {:.1f} s"
        self._expect("L15", took <= bound, row.last_job, text, row.next_at, name, took)


def _expected(row: ScheduleRow, now: datetime) -> tuple[datetime, bool]:
    """Return the tick from which the schedule moves on at that time, and whether catch-up lets it fire."""
    tick, until, missed = row.next_at, now - timedelta(seconds=row.grace), list[datetime]()
    while tick < until:
        missed.append(tick)
        tick = following(row.when, row.anchor, tick)
    if not missed:
        return tick, True
    kept = missed[-row.catch_up :] if row.catch_up else []
    return (kept or missed[-1:])[0], bool(kept)

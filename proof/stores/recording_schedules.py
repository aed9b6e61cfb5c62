"""The part of a recording book that concerns schedules: each change of one, beside the jobs of its ticks."""

from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast._core.audit import AuditNote
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.book.rows import KeptSchedule
from holdfast._core.schedule import Advance, Schedule, TickAnswer
from proof.checker.history import By, ScheduleRow


class RecordingSchedules(Book):
    """A mixin before a correct or a broken book: it records changes of schedules and changes nothing."""

    move: By | None = None
    """The move of a schedule that is being made: jobs that are stored now are those of its tick."""

    def advance(self, now: Moment, move: Advance) -> TickAnswer:
        """Record the move of a schedule; the job of its tick is recorded before it."""
        before, self.move = self._all.schedules.get(move.name), By("advance", call=move.change, outcome=move.name)
        try:
            answer = super().advance(now, move)
            self._record_schedule(now, move.name, before, self.move)
        finally:
            self.move = None
        return answer

    def set_schedule(self, now: Moment, schedule: Schedule, change: UUID, *, by: AuditNote | None = None) -> bool:
        """Record a new definition, a pause or a skip."""
        before = self._all.schedules.get(schedule.name)
        answer = super().set_schedule(now, schedule, change, by=by)
        self._record_schedule(now, schedule.name, before, By("set_schedule"))
        return answer

    def remove_schedule(self, now: Moment, name: str, *, by: AuditNote | None = None) -> None:
        """Record the end of a schedule."""
        before = self._all.schedules.get(name)
        super().remove_schedule(now, name, by=by)
        self._record_schedule(now, name, before, By("remove_schedule"))

    def record_schedules(self, now: Moment, before: dict[str, KeptSchedule], by: By) -> None:
        """Record the changes of all schedules since."""
        for name in sorted({**before, **self._all.schedules}):
            self._record_schedule(now, name, before.get(name), by)

    def _record_schedule(self, now: Moment, name: str, before: KeptSchedule | None, by: By) -> None:
        after = self._all.schedules.get(name)
        if after is not before:
            old, new = (None if each is None else schedule_row(each.schedule, now.wall) for each in (before, after))
            self._record("schedule", by, note=name, before=old, after=new)

    def _record(self, what: str, by: By | None, **fields: Any) -> None:
        raise NotImplementedError


def schedule_row(schedule: Schedule, now: datetime) -> ScheduleRow:
    """Return the row of a schedule at that time."""
    definition = schedule.definition
    return ScheduleRow(
        at=now,
        when=definition.when,
        anchor=schedule.plan.anchor,
        next_at=schedule.next_at,
        catch_up=definition.catch_up,
        overlap=definition.overlap,
        grace=definition.grace,
        last_tick=schedule.last_tick,
        last_job=schedule.last_job,
        is_paused=schedule.paused_at is not None,
    )

"""The verbs of a book that read and define schedules."""

from datetime import timedelta
from uuid import UUID

from msgspec import structs

from holdfast._core.audit import AuditNote
from holdfast._core.book.moment import Moment
from holdfast._core.book.rows import KeptSchedule
from holdfast._core.book.state import BookState
from holdfast._core.schedule import Schedule, ScheduleList, version_of

_SECOND = timedelta(seconds=1)


class BookScheduling(BookState):
    """The verbs of schedules; each keeps the promise of the verb of this name in ``_ports/store``."""

    def schedules(self, now: Moment) -> ScheduleList:
        return self._schedules(now, tuple(kept.schedule for _, kept in sorted(self._all.schedules.items())))

    def ticks(self, now: Moment, limit: int) -> ScheduleList:
        due = [schedule for schedule in self.schedules(now).found if schedule.paused_at is None and schedule.next_at <= now.wall]
        return self._schedules(now, tuple(sorted(due, key=lambda schedule: (schedule.next_at, schedule.name))[:limit]))

    def set_schedule(self, now: Moment, schedule: Schedule, change: UUID, *, by: AuditNote | None = None) -> bool:
        kept = self._all.schedules.get(schedule.name)
        if kept is not None and kept.change == change:
            return True
        if schedule.version != (0 if kept is None else kept.schedule.version):
            return False
        old = schedule if kept is None else kept.schedule
        written = structs.replace(
            old, plan=schedule.plan, next_at=schedule.next_at, paused_at=schedule.paused_at, version=version_of(change)
        )
        self._all.schedules[schedule.name] = KeptSchedule(written, change)
        self._audit(now, by, 1)
        return True

    def remove_schedule(self, now: Moment, name: str, *, by: AuditNote | None = None) -> None:
        self._audit(now, by, int(self._all.schedules.pop(name, None) is not None))

    def _schedules(self, now: Moment, found: tuple[Schedule, ...]) -> ScheduleList:
        known = (kept.schedule for kept in self._all.schedules.values())
        waits = [(each.next_at - now.wall) / _SECOND for each in known if each.paused_at is None and each.next_at > now.wall]
        return ScheduleList(found, now.wall, min(waits, default=None))

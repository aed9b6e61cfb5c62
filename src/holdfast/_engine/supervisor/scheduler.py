"""What a supervisor does for schedules: it stores those of its workers' code, and fires the ticks that are due.

Every supervisor does it; no one leads. The store lets one of them move a schedule on from each tick.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import LeaseView
from holdfast._core.schedule import (
    Advance,
    DeclaredSchedule,
    Schedule,
    ScheduleList,
    Source,
    TickAnswer,
    advance,
    defined,
    may_define,
)
from holdfast._engine.client.announcement import announce
from holdfast._engine.environment import Environment
from holdfast._engine.error_text import described
from holdfast._engine.events import EventName
from holdfast._engine.flow_events import report_flows
from holdfast._engine.store_defaults import has_schedules, scheduling
from holdfast._engine.tasks.schedules import text_of
from holdfast.errors import StoreBusy, StoreUnavailable

MOST: Final = 100
"""The most schedules that one pass reads, beside those that cannot tick."""
SPREAD: Final = 0.05
"""Seconds within which supervisors that wait for the same tick come, so that they do not all write at once."""
DECLARING: Final = 60.0
"""Seconds between two looks whether the schedules in the code are those in the store."""
REMEMBERED: Final = timedelta(days=1)
"""For so long it is not written again that code declares a schedule."""


class Scheduler:
    """The step that fires due ticks. ``longest``: seconds after which it looks again for schedules that others have changed."""

    def __init__(self, environment: Environment, *, longest: float) -> None:
        self._environment, self._longest = environment, longest
        self._store, self._events = environment.store, environment.events
        self._declared: dict[str, DeclaredSchedule] = {}
        self._declare_at = float("-inf")
        self._unknown: dict[str, tuple[Advance, int]] = {}
        self._broken: dict[str, int] = {}

    def declare(self, schedules: Sequence[DeclaredSchedule]) -> None:
        """Take the schedules of a worker's code; the next step stores what is new of them."""
        self._declared |= {each.name: each for each in schedules}
        self._declare_at = float("-inf")

    async def step(self) -> float:
        """Fire what is due; return the seconds until the next step."""
        if not has_schedules(self._store):
            return self._longest
        if self._declared and self._environment.clock.monotonic() >= self._declare_at:
            await self._store_declared()
        has_moved, wait = await self.fire()
        spread = SPREAD * (0.5 + 0.5 * self._environment.chance.jitter())
        if has_moved:
            return spread
        return min(self._longest, self._longest if wait is None else wait + spread)

    async def fire(self) -> tuple[bool, float | None]:
        """Fire one tick of each schedule that is due; return whether there were any, and the seconds until the next other tick."""
        for move, missed in tuple(self._unknown.values()):
            await self._send(move, missed)
        while True:
            known = {*self._broken}
            limit = MOST + len(known)  # those that cannot tick stay due, and must not hide others
            found = await scheduling(self._store).ticks(limit)
            has_moved = any([await self._fire(schedule, found) for schedule in found.found])
            names = {schedule.name for schedule in found.found}
            self._broken = {name: version for name, version in self._broken.items() if name in names}
            if has_moved or len(names) < limit or self._broken.keys() <= known:
                return has_moved, found.wait

    async def _fire(self, schedule: Schedule, found: ScheduleList) -> bool:
        """Move a schedule on from its due tick; return whether it has moved. One that fails delays no others."""
        try:
            move, missed = advance(schedule, found.now, self._environment.chance.uuid4())
            await self._send(move, missed)
        except Exception as error:
            if isinstance(error, StoreUnavailable) and not isinstance(error, StoreBusy):
                raise
            if self._broken.get(schedule.name) != schedule.version:
                self._broken[schedule.name] = schedule.version
                self._events.emit(EventName.SCHEDULE_FAILED, schedule=schedule.name, error=described(error))
            return False
        self._broken.pop(schedule.name, None)
        return True

    async def _send(self, move: Advance, missed: int) -> None:
        """Send a move. One without an answer is sent again first: the store knows whether its copy has landed."""
        self._unknown.pop(move.name, None)
        try:
            answer = await scheduling(self._store).advance(move)
        except StoreBusy:
            raise
        except StoreUnavailable:
            self._unknown[move.name] = move, missed
            raise
        report_flows(self._store, self._events)
        tick = text_of(move.tick)
        if answer is TickAnswer.LOST:
            return
        if missed:
            self._events.emit(EventName.SCHEDULE_MISSED, schedule=move.name, ticks=missed, tick=tick)
        if answer is TickAnswer.SKIPPED:
            self._events.emit(EventName.SCHEDULE_SKIPPED, schedule=move.name, tick=tick)
        elif move.job is not None:
            self._events.emit(EventName.SCHEDULE_FIRED, schedule=move.name, tick=tick, job=move.job.id)
            await announce(self._environment, [move.job])

    async def _store_declared(self) -> None:
        verbs, chance = scheduling(self._store), self._environment.chance
        known = await verbs.schedules()
        living = declared_by(await self._store.workers())
        by_name = {each.name: each for each in known.found}
        is_settled = True
        for name, declared in self._declared.items():
            new = declaring(declared, by_name.get(name), known, living, chance.uuid4())
            if new is not None:
                is_settled = await verbs.set_schedule(new, chance.uuid4()) and is_settled
        self._declare_at = self._environment.clock.monotonic() + DECLARING if is_settled else float("-inf")


def declaring(
    declared: DeclaredSchedule, old: Schedule | None, known: ScheduleList, living: frozenset[str], edition: UUID
) -> Schedule | None:
    """Return what to write for a schedule in the code; None if nothing has to be written."""
    if may_define(old, declared.definition, living):
        return defined(declared.name, declared.definition, old, known.now, edition)
    if old is None or old.plan.source is Source.OPERATOR or old.definition.digest != declared.definition.digest:
        return None
    if old.plan.declared_at is not None and known.now - old.plan.declared_at < REMEMBERED:
        return None
    return structs.replace(old, plan=structs.replace(old.plan, declared_at=known.now))


def declared_by(workers: Sequence[LeaseView]) -> frozenset[str]:
    """Return which definitions of schedules living workers have in their code."""
    return frozenset(each for worker in workers if worker.overdue < 0 for each in worker.declares)


async def fire_due(environment: Environment, declared: Sequence[DeclaredSchedule]) -> None:
    """Store the schedules of an App, and fire all ticks that are due."""
    scheduler = Scheduler(environment, longest=0.0)
    scheduler.declare(declared)
    await scheduler.step()
    while has_schedules(environment.store) and (await scheduler.fire())[0]:
        pass

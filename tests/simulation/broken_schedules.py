"""Schedules with one missing guard: stores, and supervisors as context managers."""

from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core import schedule as core
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.book.rows import KeptSchedule
from holdfast._core.schedule import Advance, Schedule, TickAnswer
from holdfast._core.ticks import following
from holdfast._engine.store_defaults import scheduling
from holdfast._engine.supervisor import scheduler
from holdfast._engine.supervisor.scheduler import Scheduler
from tests.simulation.patching import patched


class AdvanceUncompared(Book):
    """A schedule moves on from a tick whether or not it has moved on from that tick before."""

    def advance(self, now: Moment, move: Advance) -> TickAnswer:
        kept = self._all.schedules.get(move.name)
        if kept is not None and kept.change != move.change:
            as_read = structs.replace(kept.schedule, version=move.version, next_at=move.tick)
            self._all.schedules[move.name] = KeptSchedule(as_read, kept.change)
        return super().advance(now, move)


def ticks_keyed_by_worker() -> Any:
    """The id of a tick's job depends on the supervisor that fires it, and each supervisor fires it."""

    def advance(schedule: Schedule, now: datetime, change: UUID) -> tuple[Advance, int]:
        move, missed = core.advance(schedule, now, change)
        return move if move.job is None else structs.replace(move, job=structs.replace(move.job, id=change)), missed

    return patched(scheduler, advance=advance)


def next_tick_from_now() -> Any:
    """The following tick is the first one after now, and not the first one after the tick."""

    def advance(schedule: Schedule, now: datetime, change: UUID) -> tuple[Advance, int]:
        move, missed = core.advance(schedule, now, change)
        then = following(schedule.definition.when, schedule.plan.anchor, max(now, move.tick))
        return structs.replace(move, following=then), missed

    return patched(scheduler, advance=advance)


def tick_and_job_apart() -> Any:
    """A schedule moves on in one write, and the job of its tick is enqueued in another one."""

    async def send(self: Scheduler, move: Advance, missed: int) -> None:
        del missed
        answer = await scheduling(self._store).advance(structs.replace(move, job=None))
        if answer is not TickAnswer.LOST and move.job is not None:
            await self._store.enqueue(move.job.id, [move.job])

    return patched(Scheduler, _send=send)


def sleeps_until_the_tick_it_knows() -> Any:
    """A supervisor sleeps until the next tick that it knows: a schedule that is stored later is not found."""
    step = Scheduler.step

    async def sleep(self: Scheduler) -> float:
        self._longest = 1e9
        return await step(self)

    return patched(Scheduler, step=sleep)

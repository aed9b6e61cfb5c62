"""Schedules in a world: the operator who changes them at random, and the end of all ticks when the faults have ended."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from holdfast._core.schedule import Schedule, Source, defined, pausing, skipping
from holdfast.errors import StoreUnavailable
from proof.simulator.call_outcomes import ODD_ERRORS, is_odd
from proof.simulator.schedule_plan import DrawnSchedule, operations_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from holdfast._engine.client.client import Client
    from proof.search.decisions import Operation
    from proof.simulator.hosts import SimClock
    from proof.simulator.world import World


class _AbsentError(Exception):
    """There is no schedule of this name."""


class WorldSchedules:
    """The schedules of one world; it may have none."""

    def __init__(self, world: World) -> None:
        self._world, self._plan = world, world.plan.schedules
        self._numbers = world.loop.stream("schedules")
        self._ends = 0

    def start(self) -> None:
        """Start the operator, if there is something to do."""
        world = self._world
        if self._plan is None:
            return
        found = operations_on(self._plan, world.plan.script, world.plan.chaos, world.loop.stream("operations on schedules"))
        if found:
            world.decisions += found
            world.start_client("operator of schedules", lambda client, clock: self._operate(client, clock, found))

    def is_done(self) -> bool:
        """Return whether no schedule ticks any more."""
        return self._plan is None or not self._world.store.ticking()

    def end(self) -> None:
        """End all schedules when the last due ticks must have fired. A late call may bring one back, which then ends again."""
        if self._plan is None or not self._world.store.ticking():
            return
        title = f"caretaker of schedules {self._ends}"
        self._ends += 1
        self._world.start_client(title, lambda client, clock: self._end_all(client), is_healthy=True)

    def end_late_ones(self) -> None:
        """End schedules again if a late call has brought one back."""
        if self._plan is not None and self._world.clients[-1].is_dead and self._world.now() > self._over:
            self.end()

    @property
    def _over(self) -> float:
        """The time until which ticks go on after the faults, so that due ones must fire."""
        return self._world.plan.chaos + 2.0 * (self._world.plan.rules.tick_bound or self._world.plan.settings.timing.ttl)

    async def _end_all(self, client: Client) -> None:
        declared = {each.name for each in self._plan.schedules if each.is_declared} if self._plan is not None else set()
        while names := self._world.store.ticking():
            for name in names:
                if name in declared:  # a worker would store it again
                    with suppress(_AbsentError):
                        await self._change(client, name, lambda old, now: pausing(old, now, is_paused=True))
                else:
                    await client.remove_schedule(name)

    async def _operate(self, client: Client, clock: SimClock, operations: Sequence[Operation]) -> None:
        del clock
        for operation in operations:
            await self._world.pause(max(0.0, operation.time - self._world.now()))
            if not self._world.is_calm:
                try:
                    await self._do(client, operation)
                except (StoreUnavailable, _AbsentError):
                    pass
                except ODD_ERRORS as error:
                    if not is_odd(error):
                        raise

    async def _do(self, client: Client, operation: Operation) -> None:
        assert self._plan is not None
        drawn = self._plan.schedules[int(operation.pick * len(self._plan.schedules))]
        match operation.name:
            case "pause_schedule":
                await self._change(client, drawn.name, lambda old, now: pausing(old, now, is_paused=True))
            case "resume_schedule":
                await self._change(client, drawn.name, lambda old, now: pausing(old, now, is_paused=False))
            case "skip_ticks":
                await self._change(client, drawn.name, lambda old, now: skipping(old, 1 + int(operation.delay)))
            case "remove_schedule":
                await client.remove_schedule(drawn.name)
            case _:
                await self._set(client, drawn, int(operation.delay))

    async def _change(self, client: Client, name: str, change: Callable[[Schedule, datetime], Schedule]) -> None:
        def changed(old: Schedule | None, now: datetime) -> Schedule:
            if old is None:
                raise _AbsentError
            return change(old, now)

        await client.change_schedule(name, "schedule.change", changed)

    async def _set(self, client: Client, drawn: DrawnSchedule, edition: int) -> None:
        task = self._world.known(self._world.plan.settings.timing.ttl)[drawn.task]
        definition = drawn.definition(task, edition=edition)
        made = UUID(int=self._numbers.getrandbits(128))

        def change(old: Schedule | None, now: datetime) -> Schedule:
            return defined(drawn.name, definition, old, now, made, Source.OPERATOR)

        await client.change_schedule(drawn.name, "schedule.set", change)

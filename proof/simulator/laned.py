"""Lanes in a world: the operator who sets limits and the settings of queues, and the end of all limits after the faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from holdfast._core.origin import Origin
from holdfast.errors import StoreUnavailable
from proof.simulator.call_outcomes import ODD_ERRORS, is_odd
from proof.simulator.lane_plan import edited, operations_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast._core.job import NewJob
    from holdfast._engine.client.client import Client
    from proof.search.decisions import Operation
    from proof.simulator.world import World

GOES_ON = 2.0
"""The ttls for which limits stay after all faults have ended, while jobs wait for them."""


class WorldLanes:
    """The lanes of one world; it may have none."""

    def __init__(self, world: World) -> None:
        self._world, self._plan = world, world.plan.lanes
        self._ends = 0

    def start(self) -> None:
        """Start the operator, if there is something to do."""
        world = self._world
        if self._plan is None:
            return
        found = operations_on(self._plan, world.plan.script, world.plan.chaos, world.loop.stream("operations on lanes"))
        if found:
            world.decisions += found
            world.start_client("operator of lanes", lambda client, clock: self._operate(client, found))

    def placed(self, job: NewJob, which: str) -> NewJob:
        """Return the job in its lane, drawn from numbers for this job only."""
        if self._plan is None:
            return job
        queue, key = self._plan.lane(self._world.loop.stream(f"lane of {which}"), job.queue)
        return structs.replace(job, queue=queue, key=key)

    def is_done(self) -> bool:
        """Return whether no limit keeps a job from running any more."""
        return self._plan is None or not self._world.store.limited()

    def end_limits(self) -> None:
        """Remove all limits a while after the faults; a late call may bring one back, which is removed again."""
        world = self._world
        over = world.plan.chaos + GOES_ON * world.plan.longest_ttl
        if self._plan is not None and world.now() > over and world.clients[-1].is_dead and world.store.limited():
            title = f"caretaker of lanes {self._ends}"
            self._ends += 1
            world.start_client(title, lambda client, clock: self._clear(client), is_healthy=True)

    async def _clear(self, client: Client) -> None:
        while scopes := self._world.store.limited():
            for scope in scopes:
                await client.set_limit(scope, None, Origin())

    async def _operate(self, client: Client, operations: Sequence[Operation]) -> None:
        for operation in operations:
            await self._world.pause(max(0.0, operation.time - self._world.now()))
            if not self._world.is_calm:
                try:
                    await self._do(client, operation)
                except StoreUnavailable:
                    pass
                except ODD_ERRORS as error:
                    if not is_odd(error):
                        raise

    async def _do(self, client: Client, operation: Operation) -> None:
        assert self._plan is not None
        plan, is_cleared = self._plan, operation.name.startswith("clear")
        if operation.name.endswith("limit") and plan.limits:
            scope, limit = plan.limits[int(operation.pick * len(plan.limits))]
            await client.set_limit(scope, None if is_cleared else edited(limit, int(operation.delay)), Origin())
        elif operation.name.endswith("queue") and plan.settings:
            number = int(operation.pick * len(plan.settings))
            await client.set_queue(plan.queues[number], None if is_cleared else plan.settings[number])

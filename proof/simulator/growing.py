"""What comes to the workflows of a world later: jobs that add children, and jobs that wait for jobs that exist already."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from holdfast._core.job import NewJob
from holdfast._core.policy import CrashPolicy
from holdfast._engine.store_defaults import dependents
from holdfast.errors import JobNotFound
from proof.simulator.flow_calls import attempt, new_id, store_of
from proof.simulator.flow_programs import ROOT
from proof.simulator.growth_plan import draw_after
from proof.simulator.growth_programs import CALLERS, LEAVES

if TYPE_CHECKING:
    import random

    from holdfast._engine.client.client import Client
    from proof.simulator.growth_plan import GrowthPlan
    from proof.simulator.hosts import SimClock
    from proof.simulator.world import World

FIRST_CALLER, FIRST_DEPENDENT = 800, 850
"""They keep the ids of these jobs apart from those of all others."""
TRIES = 4


class WorldGrowth:
    """The clients of one world that enqueue such jobs."""

    def __init__(self, world: World, plan: GrowthPlan) -> None:
        self._world, self._plan = world, plan

    def start(self) -> None:
        """Start those that the plan asks for."""
        if self._plan.callers:
            self._world.start_client("client of callers", self._enqueue_callers)
        if self._plan.dependents:
            self._world.start_client("client of dependents", self._enqueue_dependents)

    async def _enqueue_callers(self, client: Client, clock: SimClock) -> None:
        numbers = self._world.loop.stream("callers")
        for number in range(self._plan.callers):
            await self._pause(numbers, self._plan.callers)
            await attempt(client.enqueue([self._new_job(numbers, clock, FIRST_CALLER + number, CALLERS)]))

    async def _enqueue_dependents(self, client: Client, clock: SimClock) -> None:
        numbers = self._world.loop.stream("dependents")
        for number in range(self._plan.dependents):
            await self._pause(numbers, self._plan.dependents)
            known = self._known()
            if known:
                job, call = self._new_job(numbers, clock, FIRST_DEPENDENT + number, (*LEAVES, *CALLERS)), numbers.getrandbits(128)
                await self._enqueue_after(client, job, UUID(int=call), known, numbers)

    def _known(self) -> list[UUID]:
        """Return the jobs that end without an operator: they have code, and no crash holds them."""
        tasks, jobs = self._world.known(self._world.plan.settings.timing.ttl), self._world.store.snapshot().jobs
        ends = {name for name, task in tasks.items() if task.policy.on_crash is not CrashPolicy.HOLD} | {ROOT}
        return [job for job, row in jobs.items() if row.task in ends]

    async def _enqueue_after(self, client: Client, job: NewJob, call: UUID, known: list[UUID], numbers: random.Random) -> None:
        after = draw_after(numbers, known)
        for _ in range(TRIES):
            try:
                if await attempt(dependents(store_of(client)).enqueue_after(call, [job], after)):
                    return
            except JobNotFound:
                return
            await self._world.pause(self._world.plan.mix.timeout)

    async def _pause(self, numbers: random.Random, times: int) -> None:
        await self._world.pause(2 * numbers.random() * self._world.plan.chaos / (times + 1))

    def _new_job(self, numbers: random.Random, clock: SimClock, number: int, tasks: tuple[str, ...]) -> NewJob:
        task = self._world.known(self._world.plan.settings.timing.ttl)[numbers.choice(tasks)]
        job = NewJob(id=new_id(clock, numbers, number, 0), task=task.name, payload=b"{}", policy=task.policy)
        return self._world.lanes.placed(job, f"grown {number}")

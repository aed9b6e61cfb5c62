"""Workflows in a world: the processes that start, steer, signal and repair them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from holdfast._core.job import PLACE_OF, NewJob, Place
from holdfast._core.member import OnFailure
from holdfast._core.member_record import with_member
from holdfast._core.steps import Signal
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._engine.store_defaults import steps, workflows
from proof.simulator.flow_calls import attempt, new_id, store_of
from proof.simulator.flow_plan import SIGNALS, Kit, draw_flow, draw_grown_flow, operations_on
from proof.simulator.flow_programs import SIGNAL, flow_tasks
from proof.simulator.growing import WorldGrowth
from proof.simulator.growth_programs import growth_tasks
from proof.stores.objects import BucketWorld
from proof.stores.recording_store import Witness
from proof.stores.statement_recorder import Mirror

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast._core.workflow import NewFlow
    from holdfast._engine.client.client import Client
    from holdfast._engine.tasks.registry import TaskDefinition
    from proof.search.decisions import Operation
    from proof.simulator.hosts import SimClock
    from proof.simulator.loop import Process
    from proof.simulator.world import World

GOES_ON = 1.0
"""The ttls for which workflows stay paused, and jobs wait for signals, after all faults have ended."""
AT_ONCE = 3  # workflows that one pass of repairs looks at
TRIES = 4


class WorldFlows:
    """The workflows of one world; it may have none."""

    def __init__(self, world: World) -> None:
        self._world, self._plan = world, world.plan.flows
        self._last: tuple[UUID, Signal] | None = None
        self._ends = 0
        self._repairers = 0
        self._caretaker: Process | None = None

    def tasks(self) -> dict[str, TaskDefinition]:
        """Return the tasks of members, and of what they add."""
        if self._plan is None:
            return {}
        has_hooks = self._world.plan.has_hooks
        return flow_tasks(has_hooks=has_hooks) | ({} if self._plan.growth is None else growth_tasks(has_hooks=has_hooks))

    def start(self) -> None:
        """Start the client, the operator and the repairer, if there are workflows."""
        world = self._world
        if self._plan is None:
            return
        world.start_client("client of flows", self._enqueue_all)
        if self._plan.growth is not None:
            WorldGrowth(world, self._plan.growth).start()
        found = operations_on(self._plan, world.plan.script, world.plan.chaos, world.loop.stream("operations on flows"))
        if found:
            world.decisions += found
            world.start_client("operator of flows", lambda client, clock: self._operate(client, found))
        self._start_repairer()

    # starting

    async def _enqueue_all(self, client: Client, clock: SimClock) -> None:
        assert self._plan is not None
        world = self._world
        pace = world.loop.stream("pace of flows")
        for number in range(self._plan.flows):
            await self._enqueue(client, clock, number)
            await world.pause(pace.random() * world.plan.chaos / 4)
        for number in range(self._plan.waiting):
            await attempt(client.enqueue([self._new_job(clock, number)]))
            await world.pause(pace.random() * world.plan.chaos / 4)

    async def _enqueue(self, client: Client, clock: SimClock, number: int) -> None:
        new, call = self._new_flow(clock, number), UUID(int=self._world.loop.stream(f"call of flow {number}").getrandbits(128))
        for _ in range(TRIES):
            if await attempt(workflows(store_of(client)).enqueue_flow(call, new)):
                return
            await self._world.pause(self._world.plan.mix.timeout)

    def _new_flow(self, clock: SimClock, number: int) -> NewFlow:
        assert self._plan is not None
        world, numbers = self._world, self._world.loop.stream(f"flow {number}")
        known = world.known(world.plan.settings.timing.ttl)
        kit = Kit(
            new_id=partial(new_id, clock, numbers, 1000 + 100 * number),
            policies={name: task.policy for name, task in known.items()},
            place=lambda job, member: world.lanes.placed(job, f"flow {number}.{member}"),
            ttl=world.plan.settings.timing.ttl,
        )
        if self._plan.growth is None:
            return draw_flow(self._plan, numbers, kit)
        return draw_grown_flow(self._plan, self._plan.growth, numbers, world.loop.stream(f"growth of flow {number}"), kit)

    def _new_job(self, clock: SimClock, number: int) -> NewJob:
        world, numbers = self._world, self._world.loop.stream(f"waiting job {number}")
        task = world.known(world.plan.settings.timing.ttl)[numbers.choice(["waiting", "waiting", "stepping", "sleeping"])]
        job = NewJob(id=new_id(clock, numbers, 900, number), task=task.name, payload=b"{}", policy=task.policy)
        return world.lanes.placed(job, f"waiting {number}")

    # steering

    async def _operate(self, client: Client, operations: Sequence[Operation]) -> None:
        for operation in operations:
            await self._world.pause(max(0.0, operation.time - self._world.now()))
            if not self._world.is_calm:
                await self._do(client, operation)

    async def _do(self, client: Client, operation: Operation) -> None:
        seen = self._store.snapshot()
        flows = [*seen.flows]
        if operation.name in SIGNALS:
            await self._signal(client, operation)
        elif flows:
            flow = flows[int(operation.pick * len(flows))]
            members = [*seen.members[flow]]
            member = members[int(operation.pick * 7919) % len(members)]
            match operation.name:
                case "retry_member":
                    await attempt(client.retry([member]))
                case "cancel_member":
                    await attempt(client.cancel([member]))
                case "drift":
                    self._damage(member, int(operation.delay))
                case _:
                    how = _steering(operation, member if member != flow else None)
                    await attempt(workflows(store_of(client)).steer_flow(flow, how))

    async def _signal(self, client: Client, operation: Operation) -> None:
        """Send a signal to a job in any state, or the last one again."""
        if operation.name == "signal" or self._last is None:
            seen = self._store.snapshot().jobs
            jobs = [job for job, row in seen.items() if row.task == "waiting"] if operation.delay < 3 else [*seen]
            if not jobs:
                return
            call = UUID(int=int(operation.pick * 2**53) << 64 | int(operation.time * 2**30))
            self._last = jobs[int(operation.pick * len(jobs))], Signal(call, SIGNAL, b'"%d"' % (call.int & 2**32 - 1))
        job, signal = self._last
        await attempt(steps(store_of(client)).signal(job, signal))

    def _damage(self, member: UUID, variant: int) -> None:
        """Damage the counters of a blocked member, so that it waits for more than it should."""
        store = self._store
        row = store.book._all.jobs.get(member) if isinstance(store, Witness) else None
        if isinstance(store, Witness) and row is not None and row.member is not None and row.state == "blocked":
            counters = {"waits": row.member.waits + 1, "needs": row.member.needs + variant % 2}
            store.caller = "damage"
            store.book.damage(store.moment(), with_member(row, **counters))

    # repairing

    def _start_repairer(self) -> None:
        """Start a process that repairs again and again, and another one when it has ended."""
        world = self._world
        title = f"repairer of flows {self._repairers}"
        self._repairers += 1
        process = world.start_client(title, lambda client, clock: self._repair(client), is_healthy=world.plan.is_live)
        world.clients.remove(process)
        process.on_exit.append(lambda _: self._restart())

    def _restart(self) -> None:
        world = self._world
        if not world.is_over:
            world.loop.call_later(1.0, self._restart_now, context=world.loop.outside)

    def _restart_now(self) -> None:
        if not self._world.is_over:
            self._start_repairer()

    async def _repair(self, client: Client) -> None:
        after: UUID | None = None
        while True:
            await self._world.pause(self._world.plan.settings.recovery_interval)
            found = await attempt(workflows(store_of(client)).revive(AT_ONCE, after=after))
            after = found[0].next if found else None

    # the end

    def end(self) -> None:
        """Resume what is paused and signal to what waits, a while after the faults; a late call may pause a workflow again."""
        world = self._world
        if self._plan is None or world.now() < world.plan.chaos + GOES_ON * world.plan.longest_ttl:
            return
        if (self._caretaker is None or self._caretaker.is_dead) and (self._paused() or self._waiting()):
            title = f"caretaker of flows {self._ends}"
            self._ends += 1
            self._caretaker = world.start_client(title, lambda client, clock: self._free(client), is_healthy=True)

    async def _free(self, client: Client) -> None:
        for flow in self._paused():
            await attempt(workflows(store_of(client)).steer_flow(flow, SteerFlow(verb=FlowVerb.RESUME)))
        for job, call in self._waiting():
            await attempt(steps(store_of(client)).signal(job, Signal(call, SIGNAL, b'"in the end %d"' % (call.int & 2**32 - 1))))

    def _paused(self) -> list[UUID]:
        seen = self._store.snapshot()
        unfinished = [flow for flow in seen.flows if PLACE_OF[seen.jobs[flow].state] is not Place.FINISHED]
        return [flow for flow in unfinished if seen.flows[flow].is_paused]

    def _waiting(self) -> list[tuple[UUID, UUID]]:
        seen = self._store.snapshot()
        return [(job, UUID(int=job.int ^ row.token.number)) for job, row in seen.jobs.items() if row.awaits is not None]

    @property
    def _store(self) -> Witness | Mirror | BucketWorld:
        return self._world.store


def _steering(operation: Operation, node: UUID | None) -> SteerFlow:
    match operation.name:
        case "pause_flow":
            return SteerFlow(verb=FlowVerb.PAUSE)
        case "cancel_flow":
            return SteerFlow(verb=FlowVerb.CANCEL)
        case "resume_flow":
            failed = OnFailure.CONTINUE if operation.delay == 1 else OnFailure.FAIL
            return SteerFlow(verb=FlowVerb.RESUME, failed=failed, is_retry=operation.delay >= 2)
        case "retry_node":
            return SteerFlow(verb=FlowVerb.RETRY, node=node)
        case _:
            return SteerFlow(verb=FlowVerb.RETRY)

"""Worlds without chance: a script, and a few deviations from it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from uuid import UUID

from msgspec import Struct

from holdfast._core.book.book import Book
from holdfast._core.dependencies import After
from holdfast._core.job import NewJob
from holdfast._core.workflow import FlowVerb, SteerFlow
from holdfast._engine.client.client import Client
from holdfast._engine.store_defaults import dependents, workflows
from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from holdfast._system.clock import compose_uuid7
from holdfast.errors import JobNotFound, StoreUnavailable, UniqueConflict
from proof.checker.history import Event, Phase
from proof.search.deviations import Deviation, Until, What
from proof.search.scripts import LATENCY, TIMEOUT, TIMING, Script, flow_of, plan_of
from proof.simulator.call_outcomes import Fate, Fault, Faults, Luck, Mix, is_odd
from proof.simulator.deterministic import SteadyLoop
from proof.simulator.flow_calls import store_of
from proof.simulator.flow_programs import SIGNAL
from proof.simulator.hosts import SimClock
from proof.simulator.loop import Process
from proof.simulator.pending_calls import LASTING, Owners, PendingCalls, PendingClock
from proof.simulator.world import Slot, World
from proof.stores.gateways import VERBS
from proof.stores.objects import BucketWorld

LONGEST = 2.5 * TIMING.ttl  # for which a call or process is held at most
PAUSE = 0.5  # between two calls of the client
GLANCE = 0.25  # between two checks whether all is done
KILLED = Exit(signal="SIGKILL")
FAULTS = {
    What.REFUSED: Fault.BEFORE, What.ANSWER_LOST: Fault.ANSWER_LOST, What.LATE: Fault.LATE, What.TWICE: Fault.TWICE,
    What.HELD: Fault.IN_FLIGHT, What.ANSWER_HELD: Fault.SLOW,
    What.CRASH_BEFORE: Fault.CRASH_BEFORE, What.CRASH_AFTER: Fault.CRASH_AFTER, What.CRASH_SENT: Fault.IN_FLIGHT,
    What.CREW_CRASH_BEFORE: Fault.CRASH_BEFORE, What.CREW_CRASH_AFTER: Fault.CRASH_AFTER, What.POWER_LOST: Fault.CRASH_AFTER,
    What.FREEZE_BEFORE: Fault.SLOW, What.CREW_FREEZE_BEFORE: Fault.SLOW, What.RELEASE_BEFORE: Fault.SLOW,
    What.WRONG: Fault.WRONG_AFTER, What.CUT_OFF: Fault.BEFORE, What.OUTAGE: Fault.BEFORE,
}  # fmt: skip
HOLDING = (What.LATE, What.TWICE, What.HELD, What.ANSWER_HELD, What.CRASH_SENT)  # these hold the call; others hold processes
STEERING = {
    What.PAUSE_FLOW: FlowVerb.PAUSE, What.CANCEL_FLOW: FlowVerb.CANCEL, What.RETRY_FLOW: FlowVerb.RETRY,
}  # fmt: skip
LOOKS = ("expired", "overdue", "held", "owed_hooks", "ticks")  # a process that finds something there acts on it


class Call(Struct):
    """A call, as it ended. ``is_busy``: it changed more than an expiry, or its answer asks for an action.

    ``is_held``: a call or process was held when this call was made.
    """

    verb: str
    sender: str
    is_held: bool
    is_busy: bool = False


class SmallWorld(World):
    """A world with few processes. ``calls``: the calls of all processes, in order.

    Deviations apply to these calls and to the moments of the loop.
    """

    loop: SteadyLoop

    def __init__(self, script: Script, deviations: Sequence[Deviation], kind: type[Book]) -> None:
        super().__init__(plan_of(script), 0, kind, SteadyLoop(0))
        self.calls: list[Call] = []
        self._script = script
        self._flows: list[UUID] = []
        self._deviations = {each.at: each for each in deviations if each.what is not What.SWAP}
        self.loop.swaps = {each.at: each.first for each in deviations if each.what is What.SWAP}
        self._last = max(self._deviations, default=0)
        self.holds = PendingCalls(self.loop, self._owners, longest=LONGEST)
        self.true_clock = PendingClock(self.loop, self.holds)
        if isinstance(self.store, BucketWorld):  # there the calls are those of the bucket
            self.store.clock, self.store.on_call = self.true_clock, self._note_call

    def faults_of(self, process: Process, *, is_healthy: bool, title: str = "") -> Faults:
        """Return the faults that the script asks for; a healthy process has the same connection as the others."""
        return _Fates(self, process)

    def gateway(self, process: Process) -> Store:
        """Return the store, with each call of the process recorded."""
        gateway = super().gateway(process)
        return gateway if isinstance(self.store, BucketWorld) else cast(Store, _Watched(self, process, gateway))

    def _note_call(self, process: Process, events: Sequence[Event]) -> None:
        self.calls[-1].is_busy |= any(is_change(event, process) for event in events)
        if self.holds:
            self.loop.call_soon(self.holds.look, process.title, context=self.loop.outside)

    def start_clients(self) -> None:
        """Start the one client, which enqueues all jobs."""
        script = self._script
        main = self._enqueue_flow if script.members else self._enqueue_awaited if script.is_awaited else self._enqueue_all
        self.start_client("client 0", main)

    async def _enqueue_flow(self, client: Client, clock: SimClock) -> None:
        new = flow_of(self._script, self.known(TIMING.ttl), partial(compose_uuid7, int(clock.wall() * 1000)))
        self._flows = [new.root.job.id]
        await self._send(partial(workflows(store_of(client)).enqueue_flow, new.root.job.id, new))

    async def _enqueue_awaited(self, client: Client, clock: SimClock) -> None:
        parent, first, second = (self._new(self._script.jobs[0], number, clock) for number in (1, 2, 3))
        self._flows = [parent.id]
        await self._send(partial(client.enqueue, [parent]), tries=1)
        await self._enqueue_after(client, first, parent)
        await self._send(partial(client.cancel, [parent.id]), tries=1)
        await self.pause(PAUSE)
        self.start_client("operator of the script", lambda other, _: self._send(partial(other.retry, [parent.id]), tries=1))
        await self._enqueue_after(client, second, parent)

    async def _enqueue_after(self, client: Client, job: NewJob, parent: NewJob) -> None:
        with suppress(JobNotFound):
            await self._send(partial(dependents(store_of(client)).enqueue_after, job.id, [job], After((parent.id,))))

    async def _send(self, ask: Callable[[], Awaitable[object]], *, tries: int = 2) -> None:
        """Send a call again until it is answered; what sends it may do so itself."""
        for _ in range(tries):
            try:
                await ask()
            except (StoreUnavailable, RuntimeError) as error:
                _require_expected(error)
            else:
                return

    async def _enqueue_all(self, client: Client, clock: SimClock) -> None:
        jobs = [self._new(name, number, clock) for number, name in enumerate(self._script.jobs, 1)]
        for call in [jobs] if self._script.key is None else [[job] for job in jobs]:
            try:
                await client.enqueue(call)
            except (StoreUnavailable, UniqueConflict, RuntimeError) as error:
                _require_expected(error)
            await self.pause(PAUSE)

    def _new(self, name: str, number: int, clock: SimClock) -> NewJob:
        task, job, key = self.known(TIMING.ttl)[name], compose_uuid7(int(clock.wall() * 1000), number), self._script.key
        return NewJob(id=job, task=name, payload=b"{}", policy=task.policy, queue=task.queue, unique_key=key)

    async def live(self) -> None:
        """Run until all jobs have ended and all held calls and processes have returned."""
        for slot in self.slots:
            self.start(slot)
        self.start_clients()
        is_calm = is_done = False
        while not is_done and self.now() < self.plan.patience:
            await self.pause(GLANCE)
            is_over = len(self.calls) >= self._last and self._has_ticked()
            if is_over and not self.holds:
                self.flows.end()
                self._end_schedules()
            if is_over and not self.holds and not is_calm:
                is_calm = True
                self.write("calm", "the world")
            is_done = is_over and self.is_done()
        if is_done:
            self.write("done", "the world")
        self.holds.end()
        await self.pause(TIMING.beat / 2)

    def _has_ticked(self) -> bool:
        """Return whether the schedule of the script, if it has one, has moved on as often as the script asks for."""
        ticks = self._script.ticks
        return not ticks or ticks <= sum(event.what == "schedule" and _is_of(event, "advance") for event in self.history)

    def _end_schedules(self) -> None:
        if all(client.is_dead for client in self.clients):
            self.schedules.end()

    # deviations

    def next_call(self, process: Process, verb: str) -> Fate:
        """Record the next call, and return the outcome that the script asks for."""
        self.calls.append(Call(verb, process.title, bool(self.holds)))
        deviation = self._deviations.get(len(self.calls))
        if deviation is None:
            return WELL
        self._strike(deviation, process)
        what = deviation.what
        return _fate(
            FAULTS.get(what, Fault.NONE), LASTING[deviation.until] if what in HOLDING else 0.0, is_there=what is What.ANSWER_HELD
        )

    def _strike(self, deviation: Deviation, process: Process) -> None:
        soon, until = partial(self.loop.call_soon, context=self.loop.outside), deviation.until
        match deviation.what:
            case What.CRASH_SENT:
                soon(process.end, KILLED)
            case What.CREW_CRASH_BEFORE | What.CREW_CRASH_AFTER:
                for each in self._crew(process):
                    if each is not process:
                        each.end(KILLED)
            case What.POWER_LOST:
                soon(self._lose_power, process, until)
            case What.FREEZE_BEFORE | What.FREEZE_AFTER:
                self._freeze([process], until)
            case What.CREW_FREEZE_BEFORE | What.CREW_FREEZE_AFTER:
                self._freeze(self._crew(process), until)
            case What.CUT_OFF:
                self._cut(self._crew(process), until)
            case What.OUTAGE:
                self._cut([each for machine in self.machines for each in machine.processes], until)
            case What.RELEASE_BEFORE:
                self.holds.end()
            case What.RELEASE_AFTER:
                soon(self.holds.end)
            case What.CANCEL | What.RETRY | What.RESCHEDULE | What.DELETE:
                self.start_client("operator", partial(self._ask, what=deviation.what))
            case What.PAUSE_FLOW | What.CANCEL_FLOW | What.RETRY_FLOW | What.SIGNAL:
                self.start_client("operator", partial(self._ask, what=deviation.what))
            case _:
                pass

    async def _ask(self, client: Client, clock: SimClock, *, what: What) -> None:
        ids = list(self.store.snapshot().jobs)[:1]
        try:
            match what:
                case What.CANCEL:
                    await client.cancel(ids)
                case What.RETRY:
                    await client.retry(ids)
                case What.RESCHEDULE:
                    await client.reschedule(ids, delay=2 * GLANCE, run_at=None)
                case What.SIGNAL:
                    for job in ids:
                        await client.signal(job, SIGNAL, "come")
                case What.PAUSE_FLOW | What.CANCEL_FLOW | What.RETRY_FLOW:
                    for flow in self._flows:
                        await workflows(store_of(client)).steer_flow(flow, SteerFlow(verb=STEERING[what]))
                case _:
                    await client.delete(ids)
        except (StoreUnavailable, RuntimeError) as error:
            _require_expected(error)

    def _crew(self, process: Process) -> list[Process]:
        return next((members for slot in self.slots if process in (members := slot.members())), [process])

    def _lose_power(self, process: Process, until: Until) -> None:
        slots = [slot for slot in self.slots if process in slot.machine.processes]
        for slot in slots:
            slot.is_broken = True
        for machine in {slot.machine: None for slot in slots}:
            machine.lose_power()
        self.holds.add(until, partial(self._boot, slots), whom=process.title)

    def _boot(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            slot.is_broken = False
            self.start(slot)

    def _freeze(self, whom: Sequence[Process], until: Until) -> None:
        for each in whom:
            each.freeze()
            self.write("process.freeze", each.name)
        self.holds.add(until, partial(self._thaw, whom), whom=whom[0].title)

    def _thaw(self, whom: Sequence[Process]) -> None:
        for each in whom:
            if not each.is_dead and each.is_frozen:
                self.write("process.thaw", each.name)
                each.thaw()

    def _cut(self, whom: Sequence[Process], until: Until) -> None:
        cut = [self.faults[each.name] for each in whom if each.name in self.faults and not each.is_dead]
        self._set_out(cut, is_out=True)
        self.holds.add(until, partial(self._set_out, cut, is_out=False), whom=whom[0].title)

    def _set_out(self, whom: Sequence[Faults], *, is_out: bool) -> None:
        for each in whom:
            each.is_out = is_out

    def _owners(self) -> Owners:
        return {job: row.token for job, row in self.store.snapshot().jobs.items() if row.lease is not None}


class _Fates(Faults):
    """The outcomes of calls, as the world decides them."""

    def __init__(self, world: SmallWorld, process: Process) -> None:
        super().__init__(process.numbers, Mix())
        self._world, self._process = world, process

    def draw(self, verb: str) -> Fate:
        """Return the outcome of the next call; a call that cannot be sent fails, with any script."""
        self.calls += 1
        fate = self._world.next_call(self._process, verb)
        return CUT if self.is_out else fate


def _fate(fault: Fault, lasting: float = 0.0, *, is_there: bool = False) -> Fate:
    mix = Mix(latency=LATENCY, timeout=TIMEOUT, slowest=lasting, latest=lasting)
    return Fate(fault, Luck(side=0.5, there=0.0 if is_there else 1.0, back=1.0, wait=1.0), mix)


def _asks_for_action(verb: str, answer: Any) -> bool:
    match verb:
        case "beat":
            return bool(answer.gone or answer.cancelled)
        case "ticks":
            return bool(answer.found)
        case "void":  # no event records it: it only takes a right
            return answer is not None
        case _:
            return verb in LOOKS and bool(answer)


def _is_of(event: Event, verb: str) -> bool:
    return event.phase is Phase.TRUTH and event.by is not None and event.by.verb == verb


WELL, CUT = _fate(Fault.NONE), _fate(Fault.BEFORE)


def _require_expected(error: Exception) -> None:
    if isinstance(error, RuntimeError) and not is_odd(error):
        raise error


class _Watched:
    """The store as one process reaches it; it records on each call what the call changed."""

    def __init__(self, world: SmallWorld, process: Process, gateway: Store) -> None:
        self._world, self._process, self._gateway = world, process, gateway
        self.capabilities = gateway.capabilities

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._gateway, name)
        return partial(self._apply, asked, name) if name in VERBS else asked

    async def _apply(self, ask: Callable[..., Awaitable[Any]], verb: str, *arguments: Any, **keywords: Any) -> Any:
        world = self._world
        call, past = world.calls[-1], len(world.history)
        answer = await ask(*arguments, **keywords)
        if _asks_for_action(verb, answer) or any(is_change(event, self._process) for event in world.history.events[past:]):
            call.is_busy = True
        if world.holds:
            world.loop.call_soon(world.holds.look, self._process.title, context=world.loop.outside)
        return answer


def is_change(event: Event, process: Process) -> bool:
    """Return whether the event is a change by a call of this process, and not only a renewal."""
    is_own = event.phase is Phase.TRUTH and event.process == process.name
    return is_own and not (event.by is not None and event.by.verb == "beat" and event.job is None)

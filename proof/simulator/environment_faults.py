"""Faults around processes: kills, freezes, cuts, outages, power losses, clock steps."""

from collections.abc import Iterable
from functools import partial
from math import inf

from msgspec import structs

from holdfast._core.book.content import Snapshot
from holdfast._ports.host import Exit
from proof.search.decisions import ROLLED_BACK, Strike
from proof.simulator.fault_schedule import strikes_of, strikes_of_apps, strikes_of_brokers, strikes_of_clocks
from proof.simulator.foreign_locks import Strangers
from proof.simulator.hosts import Guard
from proof.simulator.loop import Process
from proof.simulator.plans import Mode
from proof.simulator.profiles import Brand
from proof.simulator.world import Slot, World
from proof.stores.recording_store import Witness

_KILLED = Exit(signal="SIGKILL")


class EnvironmentFaults:
    """Causes the faults that were decided, never to the healthy core."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stepped = self._lull_over = 0.0
        self._frozen: list[Process] = []
        self._cut_until: dict[Process, float] = {}
        self._cut_off: dict[Process, tuple[float, int]] = {}
        self._until: dict[Process, float] = {}
        self._lost: set[Process] = set()
        self._remembered: list[Snapshot] = []
        self._away: tuple[float, Strike] | None = None
        self._strangers = Strangers(world)
        world.on_connect = self._meet

    async def run_faults(self) -> None:
        """Cause faults until the time of chaos is over."""
        world, start = self._world, self._world.loop.time()
        apart = strikes_of_apps(world.plan, world.loop.stream("strikes of apps"))
        apart += strikes_of_brokers(world.plan, world.loop.stream("strikes of brokers"))
        apart += strikes_of_clocks(world.plan, world.loop.stream("strikes of clocks"))
        for strike in (*strikes_of(world.plan, world.loop.stream("strikes")), *apart):
            world.loop.call_at(start + strike.time, self._strike, strike, context=world.loop.outside)
        if world.plan.mode is Mode.FORGETFUL:
            self._remember()
        await world.pause(world.plan.chaos)

    def _strike(self, strike: Strike) -> None:
        whom = self._do(strike)
        if whom or strike.is_for_ever:
            self._world.decisions.append(structs.replace(strike, whom=", ".join(whom)))

    def end_faults(self) -> None:
        """End all faults; in a live world, only cause no further ones."""
        world = self._world
        world.is_calm, self._away = True, None
        self._strangers.leave()
        world.resume_queues()
        if not world.plan.is_live:
            for faults in world.faults.values():
                faults.stop()
            if world.entrance.quorum is not None:
                world.entrance.quorum.find(is_rolled_back=False)
                world.entrance.quorum.old = None
            for process in self._frozen:
                self._thaw(process)
            for slot in world.slots:
                if not slot.is_new:
                    self._deploy(slot)
                if slot.process is None or slot.process.is_dead:
                    world.start(slot)
            for app in world.apps:
                app.start_again()
            world.brokers.start()
        world.write("calm", "the world")

    # which processes

    def _whom(self, which: str, slot: Slot, strike: Strike) -> list[Process]:
        if which == "together":
            return slot.members()
        supervisor = [slot.process] if slot.process is not None and not slot.process.is_dead else []
        if which == "supervisor":
            return supervisor
        if which == "sessions":
            return [each for each in slot.members() if each not in supervisor]
        living: list[tuple[Process, Guard]] = [pair for host in slot.hosts for pair in host.workers if not pair[0].is_dead]
        if not living:
            return []
        worker, guard = living[int(strike.pick * len(living))]
        return [worker] if which == "worker" else [worker, guard.process]

    def _living(self) -> list[Process]:
        return [process for machine in self._world.machines for process in machine.processes if not process.is_dead]

    # which faults

    def _do(self, strike: Strike) -> list[str]:
        """Cause one fault, and return the titles of the processes that it has hit."""
        match strike.name:
            case "outage" | "brief_outage":
                until = self._world.loop.time() + strike.seconds
                if self._away is None or until > self._away[0]:
                    self._away = until, strike
                return self._cut(self._living(), strike)
            case "stand_still":
                return self._stand_still(strike.seconds)
            case "step_clock":
                return self._step_clock(strike.seconds)
            case "step_machine":
                return self._step_machine(strike)
            case "lock_row" | "lock_file":
                return self._strangers.lock(strike)
            case "fail_over":
                return self._fail_over(strike.pick)
            case "lose_quorum":
                return self._lose_quorum(strike)
            case "kill_app" | "freeze_app" | "cut_app" | "drain_app":
                return self._do_to_app(strike)
            case "kill_broker" | "freeze_broker" | "cut_broker" | "drain_broker":
                return self._do_to_broker(strike)
            case _:
                slots = self._world.slots
                slot = slots[strike.slot] if strike.slot < len(slots) else None
                return [] if slot is None or slot.is_core else self._do_to(slot, strike)

    def _do_to(self, slot: Slot, strike: Strike) -> list[str]:
        slot.is_broken = slot.is_broken or strike.is_for_ever
        verb, _, which = strike.name.partition("_")
        match verb:
            case "kill":
                return self._kill(self._whom(which, slot, strike))
            case "freeze" if which == "writer":
                return self._trap(slot, strike)
            case "freeze":
                return self._freeze(self._whom(which, slot, strike), strike)
            case "cut":
                return self._cut(self._whom(which, slot, strike), strike)
            case "lull":
                return self._lull(slot, strike)
            case "lose":
                return self._lose_power(slot)
            case "drain":
                return self._drain(slot)
            case "deploy":
                return self._deploy(slot)
            case _:
                raise ValueError(f"no such strike: {strike}")

    def _do_to_app(self, strike: Strike) -> list[str]:
        """Cause one fault in a whole process, worker and supervisor together."""
        apps = self._world.apps
        app = apps[strike.slot] if strike.slot < len(apps) else None
        if app is None or app.process is None or app.process.is_dead:
            return []
        app.is_broken = app.is_broken or strike.is_for_ever
        return app.leave() if strike.name == "drain_app" else self._do_to_process(app.process, strike)

    def _do_to_broker(self, strike: Strike) -> list[str]:
        """Cause one fault in the process of a broker."""
        brokers = self._world.brokers.slots
        broker = brokers[strike.slot] if strike.slot < len(brokers) else None
        if broker is None or broker.process is None or broker.process.is_dead:
            return []
        return broker.drain() if strike.name == "drain_broker" else self._do_to_process(broker.process, strike)

    def _do_to_process(self, process: Process, strike: Strike) -> list[str]:
        match strike.name.partition("_")[0]:
            case "kill":
                return self._kill([process])
            case "freeze":
                return self._freeze([process], strike)
            case _:
                return self._cut([process], strike)

    def _kill(self, whom: Iterable[Process]) -> list[str]:
        hit = []
        for process in whom:
            hit.append(process.title)
            process.end(_KILLED)
        return hit

    def _lose_power(self, slot: Slot) -> list[str]:
        if slot.machine is self._world.slots[0].machine and self._world.plan.is_live:
            return []
        slot.machine.lose_power()
        return [slot.machine.name]

    def _drain(self, slot: Slot) -> list[str]:
        if slot.supervisor is None or slot.process is None or slot.process.is_dead:
            return []
        self._world.loop.call_soon(slot.supervisor.drain, context=self._world.loop.context_of(slot.process))
        return [slot.process.title]

    def _deploy(self, slot: Slot) -> list[str]:
        """Deploy the other release: workers started from now on have its code, and running ones are asked to end."""
        slot.is_new = not slot.is_new
        return self._drain(slot) or [f"slot {slot.number}"]

    def _freeze(self, whom: Iterable[Process], strike: Strike) -> list[str]:
        world, hit = self._world, []
        for process in whom:
            if process.is_dead:
                continue
            hit.append(process.title)
            if self._waits_for_writer(process, strike):
                continue
            if strike.is_for_ever:
                self._lost.add(process)
            # If two freezes overlap, the later end counts: there is no promise for a worker that is awake beside a frozen guard.
            until = world.loop.time() + strike.seconds
            self._until[process] = max(until, self._until.get(process, until))
            if not process.is_frozen_by("stopped"):
                process.freeze()
                world.write("process.freeze", process.name)
                self._frozen.append(process)
            if not strike.is_for_ever:
                world.loop.call_at(until, self._thaw_in_time, process, context=world.loop.outside)
        return hit

    def _waits_for_writer(self, process: Process, strike: Strike) -> bool:
        """Delay a freeze of the process that is writing in a live world: it would stop all writers, the healthy core too."""
        write_lock = self._world.entrance.write_lock
        if write_lock is None or write_lock.holder is not process or not self._world.plan.is_live:
            return False
        write_lock.once_released(partial(self._freeze, [process], strike))
        return True

    def _trap(self, slot: Slot, strike: Strike) -> list[str]:
        """Stop the next process of that slot, or of its workers only, that writes, in the middle of its write."""
        world, write_lock = self._world, self._world.entrance.write_lock
        if write_lock is None:
            return []

        def trap(process: Process) -> bool:
            is_meant = process in slot.members() and (process is not slot.process or strike.pick < 0.5)
            if world.is_calm or not is_meant:
                return world.is_calm
            self._freeze([process], strike)
            return True

        write_lock.traps.append(trap)
        return [f"the next writer of {slot.number}"]

    def _lose_quorum(self, strike: Strike) -> list[str]:
        """Cut the primary off from the others; its writes are confirmed later, or rolled back."""
        world, quorum = self._world, self._world.entrance.quorum
        if quorum is None or quorum.is_lost:
            return []
        quorum.lose()
        find = partial(self._find_quorum, strike, is_rolled_back=strike.pick < ROLLED_BACK)
        world.loop.call_later(strike.seconds, find, context=world.loop.outside)
        return ["the store"]

    def _find_quorum(self, strike: Strike, *, is_rolled_back: bool) -> None:
        """Confirm the writes of the primary, or elect another one, whose clock is another one, too."""
        quorum, part = self._world.entrance.quorum, strike.pick / ROLLED_BACK
        if quorum is None or not quorum.is_lost:
            return
        quorum.find(is_rolled_back=is_rolled_back, deposed_for=part * strike.seconds)
        if is_rolled_back and not self._world.is_calm:
            self._step_clock((part - 0.5) * self._world.plan.step)

    def _thaw_in_time(self, process: Process) -> None:
        if self._world.loop.time() >= self._until[process]:
            self._thaw(process)

    def _thaw(self, process: Process) -> None:
        if process.is_frozen_by("stopped") and not process.is_dead and process not in self._lost:
            self._world.write("process.thaw", process.name)
            process.thaw()

    def _meet(self, process: Process) -> None:
        """Cut off a process that starts while the store is unreachable for all."""
        if self._away is not None and (left := self._away[0] - self._world.loop.time()) > 0:
            self._cut([process], structs.replace(self._away[1], seconds=left))

    def _cut(self, whom: Iterable[Process], strike: Strike) -> list[str]:
        world, hit = self._world, []
        for process in whom:
            faults = world.faults.get(process.name)
            if faults is None or process.is_dead:
                continue
            hit.append(process.title)
            if not faults.is_out:
                self._cut_off[process] = world.now(), faults.calls
            faults.is_out, faults.is_refusing = True, strike.is_refusing
            world.write("process.cut", process.name)
            # If two outages overlap, the later end counts: a store unreachable for all must come back for all.
            until = inf if strike.is_for_ever else world.loop.time() + strike.seconds
            self._cut_until[process] = max(until, self._cut_until.get(process, until))
            if not strike.is_for_ever:
                world.loop.call_at(until, self._connect, process, context=world.loop.outside)
        return hit

    def _connect(self, process: Process) -> None:
        faults = self._world.faults[process.name]
        if self._world.loop.time() < self._cut_until[process]:
            return
        if faults.is_out:
            since, calls = self._cut_off[process]
            self._world.write("process.connect", process.name, f"{faults.calls - calls} {self._world.now() - since:.3f}")
        faults.is_out = False

    def _lull(self, slot: Slot, strike: Strike) -> list[str]:
        if self._world.now() <= self._lull_over + 2 * max(each.timing.beat for each in self._world.plan.all_settings):
            return []
        hit = self._cut(self._living() if strike.pick < 0.5 else slot.members(), strike)
        self._lull_over = self._world.now() + strike.seconds if hit else self._lull_over
        return hit

    def _stand_still(self, seconds: float) -> list[str]:
        """Stop the store: it neither answers nor refuses, and carries out all waiting calls when it continues."""
        world = self._world
        world.standstill_over = max(world.standstill_over, min(world.now() + seconds, world.plan.chaos))
        world.write("store.still", "store", f"{seconds:.3f}")
        return ["the store"]

    def _step_clock(self, step: float) -> list[str]:
        clock, most = self._world.store_clock, self._world.plan.step / 2
        is_file = self._world.plan.brand is Brand.SQLITE
        if clock is None and not is_file:
            return []
        # The sum of all steps stays within what the plan allows, in any order.
        step = max(-most, min(most, self._stepped + step)) - self._stepped
        self._stepped += step
        if clock is not None:
            clock.stepped += step
        else:  # leases in a file are judged by a clock that never steps, and times by the wall clock of its machine
            self._world.machines[0].clock.wall_error += step
        self._world.write("clock.step", "store", f"{step:+.3f}")
        return ["the store"]

    def _step_machine(self, strike: Strike) -> list[str]:
        """Step the wall clock of a machine: neither its leases nor any time in the store may depend on it."""
        machines = self._world.machines
        machine = machines[int(strike.pick * len(machines))]
        machine.clock.wall_error += strike.seconds
        self._world.write("clock.step", machine.name, f"{strike.seconds:+.3f}")
        return [machine.name]

    def _remember(self) -> None:
        """Record a snapshot that a stand-in of the store may start from."""
        world = self._world
        if not world.is_calm and isinstance(world.store, Witness):
            self._remembered = [*self._remembered[-3:], world.store.snapshot()]
            world.loop.call_later(world.plan.interval / 4, self._remember, context=world.loop.outside)

    def _fail_over(self, pick: float) -> list[str]:
        """Let a stand-in of the store take over, which never received the newest writes."""
        assert isinstance(self._world.store, Witness)  # no real store fails over here
        self._world.store.fail_over(self._remembered[int(pick * len(self._remembered))])
        return ["the store"]

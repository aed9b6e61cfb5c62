"""What goes wrong around processes: kills, freezes, cuts, outages, power, clock steps."""

from collections.abc import Callable, Iterable

from holdfast._ports.host import Exit
from holdfast.stores.memory import Snapshot
from holdfast.testing.hosts import Guard
from holdfast.testing.loop import Process
from holdfast.testing.plans import Mode
from holdfast.testing.world import Slot, World

_KILLED = Exit(signal="SIGKILL")


class Nemesis:
    """Strikes at random, never at the healthy core."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = world.numbers
        self._stepped = self._lull_over = 0.0
        self._frozen: list[Process] = []
        self._cut_until: dict[Process, float] = {}
        self._cut_off: dict[Process, tuple[float, int]] = {}
        self._until: dict[Process, float] = {}
        self._lost: set[Process] = set()
        self._remembered: list[Snapshot] = []
        strikes: dict[str, Callable[[], None]] = {
            "kill_worker": self._kill_worker,
            "kill_supervisor": lambda: self._kill([self._supervisor()]),
            "kill_together": lambda: self._kill(self._slot().members()),
            "lose_power": self._lose_power,
            "drain": self._drain,
            "freeze_worker": lambda: self._freeze(self._session()[:1]),
            "freeze_session": lambda: self._freeze(self._session()),
            "freeze_supervisor": lambda: self._freeze([self._supervisor()]),
            "freeze_together": lambda: self._freeze(self._slot().members()),
            "cut_worker": lambda: self._cut(self._session()[:1]),
            "cut_supervisor": lambda: self._cut([self._supervisor()]),
            "cut_together": lambda: self._cut(self._slot().members()),
            "outage": self._outage,
            "lull": self._lull,
            "step_clock": self._step_clock,
            "fail_over": self._fail_over,
        }
        self._strikes = [strikes[name] for name in world.plan.strikes]

    async def rage(self) -> None:
        """Until the time of chaos is over."""
        world = self._world
        if world.plan.is_live:
            world.loop.call_later(self._numbers.random() * world.plan.chaos, self.break_for_ever, context=world.loop.outside)
        while world.now() < world.plan.chaos:
            await self._pause(self._numbers.expovariate(1 / world.plan.interval))
            if self._strikes and world.now() < world.plan.chaos and self._targets():
                self._numbers.choice(self._strikes)()

    async def _pause(self, seconds: float) -> None:
        """Until the next strike; a store that may forget remembers what it was at some moments before."""
        moments = 4 if self._world.plan.mode is Mode.FORGETFUL else 1
        for _ in range(moments):
            if moments > 1:
                self._remembered = [*self._remembered[-3:], self._world.store.snapshot()]
            await self._world.pause(seconds / moments)

    def heal(self) -> None:
        """Everything is well from now on – or, in a live world, as broken as it is."""
        world = self._world
        world.is_calm = True
        world.resume_queues()
        if not world.plan.is_live:
            for faults in world.faults.values():
                faults.stop()
            for process in self._frozen:
                self._thaw(process)
            for slot in world.slots:
                if slot.process is None or slot.process.is_dead:
                    world.start(slot)
        world.write("calm", "the world")

    def break_for_ever(self) -> None:
        """Every slot but the core stays dead, frozen, cut off or under faults."""
        for slot in self._targets():
            slot.is_broken = True
            match self._numbers.choice(["dead", "frozen", "half frozen", "cut", "faulty"]):
                case "dead":
                    self._kill(slot.members())
                case "frozen":
                    self._freeze(slot.members(), for_ever=True)
                case "half frozen":
                    sessions = [each for each in slot.members() if each is not slot.process]
                    self._freeze([slot.process] if self._numbers.random() < 0.5 else sessions, for_ever=True)
                case "cut":
                    self._cut(slot.members(), for_ever=True)
                case _:
                    slot.is_broken = False

    # whom

    def _targets(self) -> list[Slot]:
        return [slot for slot in self._world.slots if not slot.is_core]

    def _slot(self) -> Slot:
        return self._numbers.choice(self._targets())

    def _supervisor(self) -> Process | None:
        return self._slot().process

    def _session(self) -> list[Process | None]:
        """A worker and its guard."""
        sessions: list[tuple[Process, Guard]] = [
            pair for host in self._slot().hosts for pair in host.workers if not pair[0].is_dead
        ]
        if not sessions:
            return [None]
        worker, guard = self._numbers.choice(sessions)
        return [worker, guard.process]

    # what

    def _kill_worker(self) -> None:
        self._kill(self._session()[:1])

    def _kill(self, whom: Iterable[Process | None]) -> None:
        for process in whom:
            if process is not None:
                process.end(_KILLED)

    def _lose_power(self) -> None:
        slot = self._slot()
        if slot.machine is not self._world.slots[0].machine or not self._world.plan.is_live:
            slot.machine.lose_power()

    def _drain(self) -> None:
        slot = self._slot()
        if slot.supervisor is not None and slot.process is not None and not slot.process.is_dead:
            self._world.loop.call_soon(slot.supervisor.drain, context=self._world.loop.context_of(slot.process))

    def _freeze(self, whom: Iterable[Process | None], *, for_ever: bool = False) -> None:
        world, duration = self._world, self._duration()
        for process in whom:
            if process is None or process.is_dead:
                continue
            if for_ever:
                self._lost.add(process)
            # Of two freezes that overlap the later end counts: a worker awake beside a frozen guard is nobody's promise.
            until = world.loop.time() + duration
            self._until[process] = max(until, self._until.get(process, until))
            if not process.is_frozen_by("stopped"):
                process.freeze()
                world.write("process.freeze", process.name)
                self._frozen.append(process)
            if not for_ever:
                world.loop.call_at(until, self._thaw_in_time, process, context=world.loop.outside)

    def _duration(self) -> float:
        """Well below the ttl, below it, on the brink of it, or far beyond."""
        settings, number = self._world.plan.settings, self._numbers.random()
        ttl, margin = settings.timing.ttl, settings.timing.margin
        brink = ttl - margin + number * (2 * margin + settings.recovery_interval)
        if self._world.plan.mode is Mode.BRINK:
            return brink
        return self._numbers.choice([ttl * number / 2, ttl * (1 + number) / 2, brink, ttl * (1 + 1.5 * number)])

    def _thaw_in_time(self, process: Process) -> None:
        if self._world.loop.time() >= self._until[process]:
            self._thaw(process)

    def _thaw(self, process: Process) -> None:
        if process.is_frozen_by("stopped") and not process.is_dead and process not in self._lost:
            self._world.write("process.thaw", process.name)
            process.thaw()

    def _cut(self, whom: Iterable[Process | None], *, for_ever: bool = False, duration: float | None = None) -> None:
        world, duration = self._world, self._duration() if duration is None else duration
        is_refusing = self._numbers.random() < 0.5
        for process in whom:
            faults = None if process is None else world.faults.get(process.name)
            if process is not None and faults is not None and not process.is_dead:
                if not faults.is_out:
                    self._cut_off[process] = world.now(), faults.calls
                faults.is_out, faults.is_refusing = True, is_refusing
                world.write("process.cut", process.name)
                # Of two that overlap the later end counts: a store away for all must come back for all.
                until = world.loop.time() + duration
                self._cut_until[process] = max(until, self._cut_until.get(process, until))
                if not for_ever:
                    world.loop.call_at(until, self._connect, process, context=world.loop.outside)

    def _connect(self, process: Process) -> None:
        faults = self._world.faults[process.name]
        if self._world.loop.time() < self._cut_until[process]:
            return
        if faults.is_out:
            since, calls = self._cut_off[process]
            self._world.write("process.connect", process.name, f"{faults.calls - calls} {self._world.now() - since:.3f}")
        faults.is_out = False

    def _outage(self) -> None:
        self._cut(self._living())

    def _lull(self) -> None:
        """So short that a beat comes through in time before and after it, also one that hangs at its end."""
        timing = self._world.plan.settings.timing
        longest = timing.ttl - timing.margin - 2.6 * timing.beat
        duration = longest * self._numbers.random()
        if self._world.now() > self._lull_over + 2 * timing.beat:
            self._lull_over = self._world.now() + duration
            self._cut(self._living() if self._numbers.random() < 0.5 else self._slot().members(), duration=duration)

    def _living(self) -> list[Process]:
        return [process for machine in self._world.machines for process in machine.processes if not process.is_dead]

    def _step_clock(self) -> None:
        clock, plan = self._world.store_clock, self._world.plan
        if clock is not None:
            step = self._numbers.uniform(-1, 1) * plan.step
            # The sum of all steps stays within what the plan allows, whatever their order.
            step = max(-plan.step / 2, min(plan.step / 2, self._stepped + step)) - self._stepped
            self._stepped += step
            clock.stepped += step
            self._world.write("clock.step", "store", f"{step:+.3f}")

    def _fail_over(self) -> None:
        """The store's stand-in takes over and has not heard of the newest writes."""
        self._world.store.fail_over(self._numbers.choice(self._remembered))

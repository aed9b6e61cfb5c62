"""Inject every fault of the fault matrix into crews, while other threads do so with the databases and networks."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from uuid import UUID

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._system import guard
from holdfast.errors import StoreUnavailable
from proof.checker.process_log import ProcessEvent, tell
from tests.e2e.death_log import Watch
from tests.e2e.fault_runs import FaultRun
from tests.e2e.fleet import Crew, Fleet, is_stopped, stop, thaw
from tests.e2e.machines import HERE, Machine
from tests.e2e.records import PROCESS_LOG
from tests.e2e.scripted_workers import end, guard_of, is_alive
from tests.e2e.waiting import until

TTL, BEAT, MARGIN, RECOVERY = 3.0, 0.6, 0.5, 0.5
AMNESTY = BEAT + MARGIN
UNNOTICED = (TTL - MARGIN - BEAT) / TTL
"""The part of a ttl for which a worker may stand still without a loss; a beat and a margin are fixed parts of it too."""
SETTINGS = {"ttl": f"{TTL}s", "recovery": f"{RECOVERY}s", "grace": "1s"}
TIME_LIMIT = 90.0
"""Seconds for steps that take a few seconds on an idle machine."""
CONCURRENCY = "2"
HEAD_START = 0.5
"""Seconds for which zombies are awake before any process that could end them is."""
TURN = 8.0
"""Seconds in which a job that was taken from a zombie mostly gets its turn."""
MANY = 1000
REST = 0.5
LEAST_UP = 3
"""Workers that meet no fault, so that jobs can end."""


class Harm(Struct, frozen=True):
    """A fault, the name under which it is counted, and its weight."""

    name: str
    weight: int
    do: Callable[[], None]


class Torturer(FaultRun):
    """A run in which several threads inject faults, one at a time per crew. The supervisor of the first crew, the keeper, meets none.

    Some supervisor must be able to recover every job, or no bound would hold.
    """

    def __init__(
        self, ships: Fleet, chance: random.Random, machines: Sequence[Machine], watching: Watch, *, processes: int
    ) -> None:
        super().__init__(ships, chance, machines, processes=processes, is_ready=False)
        self._watching, self._machines = watching, len(machines)
        self._sailing, self._asking = threading.Lock(), threading.Lock()
        self.keeper = self.crews[0]
        self.calm = threading.Lock()
        """The lock of the thread that takes the store from all, or cannot wait for it."""
        self.counts: Counter[str] = Counter()
        self.wanted: Mapping[str, int] = {}
        self.make_machine: Callable[[str], Machine] = Machine
        self.rate, self.ttl = 5.0, TTL
        self.failovers: list[float] = []
        """Seconds from the loss of a leading broker until another one led."""

    def sail(self, machine: Machine = HERE, *, is_ready: bool = False) -> Crew:
        """Start another crew of workers."""
        options = ("--processes", str(self._processes), "--concurrency", CONCURRENCY, "--log-level", "warning")
        return self._ships.crew(*options, is_ready=is_ready, machine=machine)

    def acknowledge(self, job: UUID) -> None:
        """Record that this job was promised to stay."""
        self.record.tell("enqueue", job, None, self._ours)

    def did(self, what: str, process: ProcessIdentity) -> None:
        """Record an event at once, in the file that is kept with the round."""
        tell(self.folder / PROCESS_LOG, ProcessEvent(time.time(), what, process))

    def refuge(self, lost: Machine) -> Machine:
        """Return the same machine, on which dead processes are provably dead, or a new one for a machine that is lost for good."""
        if self._chance.random() < 0.5:
            return lost
        self._machines += 1
        return self.make_machine(f"web-{self._machines}")

    def replace(self, crew: Crew) -> None:
        """Start another crew in place of this one."""
        with self._sailing:
            self.crews.remove(crew)
            self.crews.append(self.sail(self.refuge(crew.machine)))

    def choose(self, *harms: Harm) -> Harm:
        """Choose a fault by the weights; wanted faults that are not done often enough yet come first."""
        some = [harm for harm in harms if self.counts[harm.name] < self.wanted.get(harm.name, 0)] or harms
        (chosen,) = self._chance.choices(some, [harm.weight for harm in some])
        return chosen

    def victim(self) -> Crew:
        """Choose a crew other than the keeper, if possible one with which no other thread is busy."""
        with self._sailing:  # of two crews, one may just be replaced
            crews = [crew for crew in self.crews if crew is not self.keeper]
        return self._chance.choice([crew for crew in crews if not crew.lock.locked()] or crews)

    # faults that the threads repeat

    def kill_a_worker(self) -> float:
        """Kill a worker that has begun its first job, if no other thread is busy with its crew."""
        if self.wanted and self.counts["kills"] >= self.wanted.get("kills", 0):
            return REST
        up = self._up()
        crew, victim = self._victim(up) if len(up) > LEAST_UP else (None, 0)
        if crew is None or not crew.lock.acquire(blocking=False):
            return 0.02
        try:
            if is_alive(victim):
                self._kill(crew, victim)
                self.counts["kills"] += 1
        finally:
            crew.lock.release()
        return self._chance.uniform(0.0, 2.0 / self.rate)

    def _victim(self, up: Sequence[int]) -> tuple[Crew | None, int]:
        victim = self._chance.choice(up)
        stat = guard.read_stat(victim)
        return next((crew for crew in self.crews if stat is not None and crew.pid == stat.parent), None), victim

    def hurt_a_crew(self) -> float:
        """Inject any fault into a crew other than the keeper."""
        crew = self.victim()
        harm = self.choose(
            Harm("crews killed", 3, partial(self.kill_all_together, crew)),
            Harm("supervisors killed", 1, partial(self.kill_the_supervisor, crew)),
            Harm("freezes", 1, partial(self.freeze_for_a_moment, crew)),
            Harm("workers frozen", 1, partial(self.freeze_a_worker, crew)),
            Harm("zombies", 3, partial(self.make_zombies, crew)),
            Harm("zombies", 4, partial(self.make_zombies_without_guards, crew)),
            Harm("terminations", 1, partial(self.terminate, crew)),
        )
        with crew.lock:
            assert crew.process.poll() is None, f"a supervisor has ended by itself, with {crew.process.returncode}"
            harm.do()
        return self._chance.uniform(0.0, 0.5 if harm.name in self.wanted or not self.wanted else 2 * TTL)

    # faults of one crew; the caller has its lock

    def kill_all_together(self, crew: Crew) -> None:
        """Kill supervisor and workers together."""
        os.kill(crew.pid, signal.SIGSTOP)
        self._until(lambda: is_stopped(crew.pid))
        workers, up = crew.workers(), self._up()
        end(crew.pid)
        for worker in workers:
            self._kill(crew, worker)
        self.counts["kills"] += len(set(up) & set(workers))
        self.counts["crews killed"] += 1
        self.replace(crew)

    def kill_the_supervisor(self, crew: Crew) -> None:
        """Kill the supervisor; its workers end by themselves."""
        workers = crew.workers()
        end(crew.pid)
        self._until(lambda: not any(map(is_alive, workers)))
        self.counts["supervisors killed"] += 1
        self.replace(crew)

    def freeze_for_a_moment(self, crew: Crew) -> None:
        """Freeze a whole crew, for less time than would cost a job anything."""
        frozen = self._freeze(crew)
        self.pause(self.ttl * UNNOTICED - 0.6)
        self._wake(crew, frozen, crew.workers())
        self.counts["freezes"] += 1

    def freeze_a_worker(self, crew: Crew) -> None:
        """Freeze one worker; its supervisor kills it before its lease expires."""
        workers = crew.workers()
        if workers:
            worker = self._chance.choice(workers)
            process = crew.identify(worker)
            stop([worker])
            self.did("process.freeze", process)
            self._until(lambda: not is_alive(worker))
            self.counts["workers frozen"] += 1

    def make_zombies(self, crew: Crew) -> None:
        """Freeze a whole crew until its jobs have been taken from it, and wake it."""
        frozen, zombies = self._freeze_at_work(crew)
        self._until(lambda: self._has_taken_from(zombies))
        self._wake(crew, frozen, crew.workers())

    def make_zombies_without_guards(self, crew: Crew) -> None:
        """Make zombies that no guard ends: they keep writing to jobs that other workers own by now."""
        frozen, zombies = self._freeze_at_work(crew)
        guards, jobs = [pid for worker in zombies for pid in _guards(worker)], self._held_by(zombies)
        self._until(lambda: self._has_taken_from(zombies))
        # A job that still waits has no owner: its state would be enough to refuse a zombie.
        with suppress(AssertionError):
            until(lambda: self._is_taken_up(jobs), within=TURN)
        for pid in guards:
            end(pid)
        # The history does not record that zombies woke: without a guard, their code may run beside that of the new owner.
        thaw(zombies)
        woken = time.monotonic()
        self._until(lambda: time.monotonic() - woken > HEAD_START)
        self._wake(crew, frozen, set(crew.workers()) - zombies)
        # Their supervisor has to end them; no other process would if it were killed now.
        self._until(lambda: not any(map(is_alive, zombies)))

    def terminate(self, crew: Crew) -> None:
        """Send SIGTERM once or twice; a process that is still starting has no handler for it yet."""
        self._until(lambda: set(self._up()) & set(crew.workers()))
        crew.send(signal.SIGTERM)
        if self._chance.random() < 0.5:
            self.pause(1.0)
            crew.send(signal.SIGTERM)
        code = crew.wait(TIME_LIMIT)
        assert code == 0, f"SIGTERM ended a supervisor with {code}"
        self.counts["terminations"] += 1
        self.replace(crew)

    def _freeze_at_work(self, crew: Crew) -> tuple[list[int], set[int]]:
        """Freeze a crew once most of its workers run a job; return the frozen processes, and those that become zombies."""
        self._until(lambda: len(set(self._up()) & set(crew.workers())) >= min(2, self._processes))
        frozen = self._freeze(crew)
        zombies = set(self._up()) & set(crew.workers())
        self.counts["zombies"] += len(zombies)
        return frozen, zombies

    def _freeze(self, crew: Crew) -> list[int]:
        frozen = crew.freeze_outside_of_writes()
        for pid in crew.workers():
            self.did("process.freeze", crew.identify(pid))
        return frozen

    def _wake(self, crew: Crew, frozen: Iterable[int], workers: Iterable[int]) -> None:
        for pid in workers:
            self.did("process.thaw", crew.identify(pid))
        thaw(frozen)

    def _has_taken_from(self, workers: Set[int]) -> bool:
        """Return whether all of their leases have ended; False while the store is unavailable."""
        with suppress(StoreUnavailable):
            return not any(view.process.pid in workers for view in self.app.workers.list())
        return False

    def _held_by(self, workers: Set[int]) -> dict[UUID, str | None]:
        """Return the jobs of these workers, each with its owner; none while the store is unavailable."""
        with suppress(StoreUnavailable):
            names = {view.worker for view in self.app.workers.list() if view.process.pid in workers}
            return {view.id: view.worker for view in self.app.jobs.list(state="running", limit=MANY) if view.worker in names}
        return {}

    def _is_taken_up(self, jobs: Mapping[UUID, str | None]) -> bool:
        """Return whether one of the jobs has another owner, or none of them waits for one."""
        with suppress(StoreUnavailable):
            views = self.app.jobs.list(state="running", limit=MANY)
            is_taken = any(view.worker != jobs[view.id] for view in views if view.id in jobs)
            return is_taken or not any(view.id in jobs for view in self.app.jobs.list(state="available", limit=MANY))
        return False

    def _up(self) -> list[int]:
        with self._asking:
            return [process.pid for process in self._watching.up()]

    def _until(self, predicate: Callable[[], object]) -> None:
        until(predicate, within=TIME_LIMIT + 4 * (self.ttl - TTL))


def _guards(worker: int) -> list[int]:
    try:
        return [guard_of(worker)]
    except (ValueError, FileNotFoundError):  # the process has just started
        return []

"""Kill and freeze real processes, and let the checker judge what really happened to every row."""

import os
import random
import signal
import time
from collections.abc import Sequence
from uuid import UUID

from holdfast._core.identity import ProcessIdentity
from holdfast._system.host import identify
from proof.checker.checker import Report, Rules, check
from proof.checker.process_log import ProcessEvent
from proof.checker.verdicts import percentile
from tests.e2e.fleet import START, Crew, Fleet, is_stopped
from tests.e2e.machines import HERE, Machine
from tests.e2e.scripted_workers import end, is_alive
from tests.e2e.waiting import until

SEED = int(os.environ.get("E2E_SEED", "1"))
SUPERVISORS = 0.2
"""The share of kills that also kill a supervisor."""


class FaultRun:
    """A run that injects faults into workers, and records when each of them ran its last instruction."""

    def __init__(
        self, ships: Fleet, chance: random.Random, machines: Sequence[Machine], *, processes: int = 2, is_ready: bool = True
    ) -> None:
        self._ships, self._chance, self._processes = ships, chance, processes
        self._ours = identify(os.getpid())
        self.app, self.folder, self.record = ships.app, ships.folder, ships.record
        ships.app.migrate()
        self.record.watch()
        self.crews = [self.sail(machine, is_ready=is_ready) for machine in machines]
        self.deeds: list[ProcessEvent] = []
        self.jobs = 0

    def sail(self, machine: Machine = HERE, *, is_ready: bool = False) -> Crew:
        """Start another crew of workers."""
        options = ("--processes", str(self._processes), "--concurrency", "8")
        return self._ships.crew(*options, is_ready=is_ready, machine=machine)

    def enqueue(self, many: int, longest: float = 2.0, tasks: Sequence[str] = ("labour", "labour_in_thread")) -> list[UUID]:
        """Enqueue more jobs to do."""
        jobs = []
        for _ in range(many):
            task = self._chance.choice(tasks)
            job = self._ships.enqueue(task, seconds=self._chance.uniform(0.2, longest))
            self.record.tell("enqueue", job, None, self._ours)
            jobs.append(job)
        self.jobs += many
        return jobs

    def pause(self, most: float) -> None:
        """Let the workers run for a random time of at most that many seconds."""
        by = time.monotonic() + self._chance.uniform(0.0, most)
        until(lambda: time.monotonic() > by, within=most + 1.0)

    def kill_at_random(self) -> None:
        """Kill one worker, or a supervisor with all of its workers; a new crew replaces the latter."""
        # A worker that died before it was ready is replaced after a pause: choose the next victim in another crew.
        crew = self._chance.choice(until(lambda: [crew for crew in self.crews if crew.workers()], within=START))
        if self._chance.random() >= SUPERVISORS:
            return self._kill(crew, self._chance.choice(crew.workers()))
        os.kill(crew.pid, signal.SIGSTOP)
        until(lambda: is_stopped(crew.pid), within=START)
        workers = crew.workers()
        end(crew.pid)
        for worker in workers:
            self._kill(crew, worker)
        self.crews.remove(crew)
        self.crews.append(self.sail(self.refuge(crew.machine)))
        return None

    def refuge(self, lost: Machine) -> Machine:
        """Return the machine on which a new crew replaces one that was lost."""
        return lost

    def _kill(self, crew: Crew, worker: int) -> None:
        """Stop the worker before the kill, so that the moment of its death is known."""
        process = crew.identify(worker)
        os.kill(worker, signal.SIGSTOP)
        until(lambda: is_stopped(worker), within=START)
        self.did("process.end", process)
        os.kill(worker, signal.SIGKILL)
        until(lambda: not is_alive(worker), within=START)

    def did(self, what: str, process: ProcessIdentity) -> None:
        """Record that this happens to that process now."""
        self.deeds.append(ProcessEvent(time.time(), what, process))

    def stop(self, rules: Rules) -> Report:
        """Let every job end, end every crew, and judge what happened."""
        until(self.is_done, within=120 + self.jobs / 5)
        assert self._ships.app.jobs.counts()["completed"] == self.jobs
        # A worker that still starts is killed by its supervisor, and the history does not record that death.
        until(lambda: all(self._has_started(crew) for crew in self.crews), within=START)
        for crew in self.crews:
            crew.send(signal.SIGTERM)
        assert [crew.wait(START) for crew in self.crews] == [0] * len(self.crews)
        history = self.record.read(self.deeds)
        report = check(history, rules)
        deaths = len({deed.process for deed in self.deeds if deed.what == "process.end"})
        summary = f"{len(history)} events, {deaths} dead workers, {report.starts} starts of {self.jobs} jobs"
        half, most, slowest = (percentile(report.recoveries, share) for share in (0.5, 0.99, 1.0))
        print(f"{summary}, recoveries p50 {half:.2f} s, p99 {most:.2f} s, slowest {slowest:.2f} s")
        print(f"overlaps outside the timing assumptions {report.overlaps_outside}")
        assert not report.violations, report.explain(history)
        assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "L2")) > 0
        return report

    def _has_started(self, crew: Crew) -> bool:
        """Return whether all of its workers are alive and may claim; a dead worker is listed until its lease ends."""
        listed = [view.worker for view in self.app.workers.list()]
        started = [pid for pid in crew.workers() if any(f"-{pid}-" in worker for worker in listed)]
        return len(started) >= self._processes

    def is_done(self) -> bool:
        """Return whether every job has ended."""
        counts = self._ships.app.jobs.counts()
        return counts["completed"] + counts["failed"] + counts["cancelled"] == self.jobs

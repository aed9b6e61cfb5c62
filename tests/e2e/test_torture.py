"""Real processes killed and frozen over and over, and a checker that reads what really happened to every row."""

import os
import random
import signal
import time
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.system_host import identify
from holdfast.testing import history_sqlite
from holdfast.testing.checker import Report, Rules, check
from holdfast.testing.history_sqlite import Deed
from tests.e2e.cells import end, is_alive
from tests.e2e.fleet import START, Crew, Fleet, fleet, state_of, thaw
from tests.e2e.waiting import until

SEED = int(os.environ.get("E2E_SEED", "1"))
CYCLES, JOBS = int(os.environ.get("E2E_CYCLES", "50")), int(os.environ.get("E2E_JOBS", "500"))
FREEZES = int(os.environ.get("E2E_FREEZES", "3"))
SUPERVISORS = 0.2
"""The part of kills that takes a supervisor along."""


class Tormentor:
    """Hurts workers, and knows when each of them ran its last instruction."""

    def __init__(self, ships: Fleet, chance: random.Random, crews: int, *, processes: int = 2, is_ready: bool = True) -> None:
        self._ships, self._chance, self._processes = ships, chance, processes
        self._ours = identify(os.getpid())
        self.app, self.folder = ships.app, ships.folder
        self.database = ships.folder / "jobs.db"
        ships.app.migrate()
        history_sqlite.watch(self.database)
        self.crews = [self.sail(is_ready=is_ready) for _ in range(crews)]
        self.deeds: list[Deed] = []
        self.jobs = 0

    def sail(self, *, is_ready: bool) -> Crew:
        """Another crew."""
        return self._ships.crew("--processes", str(self._processes), "--concurrency", "8", is_ready=is_ready)

    def enqueue(self, many: int, longest: float = 2.0) -> list[UUID]:
        """More to do."""
        jobs = []
        for _ in range(many):
            task = self._chance.choice(["labour", "labour_in_thread"])
            job = self._ships.enqueue(task, seconds=self._chance.uniform(0.2, longest))
            history_sqlite.tell(self.database, "enqueue", job, None, self._ours)
            jobs.append(job)
        self.jobs += many
        return jobs

    def pause(self, most: float) -> None:
        """Let them work for a while."""
        by = time.monotonic() + self._chance.uniform(0.0, most)
        until(lambda: time.monotonic() > by, within=most + 1.0)

    def kill_somebody(self) -> None:
        """One worker, or a supervisor with all of its workers, which another one replaces."""
        # One that died before it was ready is replaced after a pause: the next victim is found elsewhere.
        crew = self._chance.choice(until(lambda: [crew for crew in self.crews if crew.workers()], within=START))
        if self._chance.random() >= SUPERVISORS:
            return self._kill(self._chance.choice(crew.workers()))
        os.kill(crew.pid, signal.SIGSTOP)
        until(lambda: state_of(crew.pid) == "T", within=START)
        workers = crew.workers()
        end(crew.pid)
        for worker in workers:
            self._kill(worker)
        self.crews.remove(crew)
        self.crews.append(self.sail(is_ready=False))
        return None

    def _kill(self, worker: int) -> None:
        """Stopped first, for the blink of an eye, so that the moment is known."""
        process = identify(worker)
        os.kill(worker, signal.SIGSTOP)
        until(lambda: state_of(worker) in ("T", "Z", ""), within=START)
        self._did("process.end", process)
        os.kill(worker, signal.SIGKILL)
        until(lambda: not is_alive(worker), within=START)

    def freeze_crew(self, crew: Crew, seconds: float) -> None:
        """Supervisor, workers and guards together; its workers end when they wake after their lease."""
        workers = {pid: identify(pid) for pid in crew.workers()}
        frozen, began = crew.freeze_outside_of_writes(), time.monotonic()
        for process in workers.values():
            self._did("process.freeze", process)
        until(lambda: time.monotonic() - began > seconds, within=seconds + START)
        for process in workers.values():
            self._did("process.thaw", process)
        thaw(frozen)
        while workers:
            dead = until(lambda: next((pid for pid in workers if not is_alive(pid)), None), within=START)
            self._did("process.end", workers.pop(dead))

    def _did(self, what: str, process: ProcessIdentity) -> None:
        self.deeds.append(Deed(time.time(), what, process))

    def stop(self, rules: Rules) -> Report:
        """Let every job end, send everybody home, and judge what happened."""
        until(self.is_done, within=120)
        assert self._ships.app.jobs.counts()["completed"] == self.jobs
        for crew in self.crews:
            until(crew.workers, within=START)
            crew.send(signal.SIGTERM)
        assert [crew.wait(START) for crew in self.crews] == [0] * len(self.crews)
        history = history_sqlite.read(self.database, self.deeds)
        report = check(history, rules)
        deaths = sum(deed.what == "process.end" for deed in self.deeds)
        told = f"{len(history)} events, {deaths} dead workers, {report.starts} starts of {self.jobs} jobs"
        print(f"{told}, slowest recovery {report.slowest_recovery:.2f} s, overlaps outside {report.overlaps_outside}")
        assert not report.violations, report.explain(history)
        assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "L2")) > 0
        return report

    def is_done(self) -> bool:
        """Whether every job has ended."""
        counts = self._ships.app.jobs.counts()
        return counts["completed"] + counts["failed"] + counts["cancelled"] == self.jobs


@pytest.mark.timeout(600)
def test_nothing_is_lost_owned_twice_or_stuck_however_often_workers_are_killed(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.5s") as ships:
        tormentor = Tormentor(ships, random.Random(SEED), crews=2)
        for cycle in range(CYCLES):
            tormentor.enqueue(JOBS * (cycle + 1) // CYCLES - tormentor.jobs)
            tormentor.pause(0.3)
            tormentor.kill_somebody()
        report = tormentor.stop(Rules(bound=3.003 + 0.5 + 2.0))
        assert report.starts > JOBS
        assert report.checked["L1"] > 0
        assert sum(deed.what == "process.end" for deed in tormentor.deeds) >= CYCLES


@pytest.mark.timeout(600)
def test_zombies_change_nothing_however_often_they_wake(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.5s") as ships:
        tormentor = Tormentor(ships, random.Random(SEED), crews=2)
        for cycle in range(FREEZES):
            tormentor.enqueue(30)
            tormentor.pause(0.5)
            tormentor.freeze_crew(tormentor.crews[cycle % 2], 4.0)
        report = tormentor.stop(Rules(bound=3.003 + 0.5 + 2.0))
        assert report.starts > tormentor.jobs

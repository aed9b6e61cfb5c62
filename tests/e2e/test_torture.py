"""Real processes killed over and over, and a checker that reads what really happened to every row."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._ports.system_host import identify
from holdfast.testing import history_sqlite
from holdfast.testing.checker import Rules, check
from tests.e2e.cells import end, is_alive
from tests.e2e.fleet import START, Crew, Fleet, fleet, state_of
from tests.e2e.waiting import until

CYCLES = int(os.environ.get("E2E_CYCLES", "50"))
JOBS = int(os.environ.get("E2E_JOBS", "500"))
SEED = int(os.environ.get("E2E_SEED", "1"))
TTL, RECOVERY = 3.0, 0.5
SUPERVISORS = 0.2
"""The part of kills that takes a supervisor along."""


class Executioner:
    """Kills workers, and knows when each of them ran its last instruction."""

    def __init__(self, ships: Fleet, chance: random.Random) -> None:
        self._ships, self._chance = ships, chance
        self.crews = [ships.crew("--processes", "2", "--concurrency", "8") for _ in range(2)]
        self.deaths: dict[ProcessIdentity, float] = {}

    def strike(self) -> None:
        """Kill one worker, or a supervisor with all of its workers, which another one replaces."""
        # One that died before it was ready is replaced after a pause: the next victim is found elsewhere.
        crew = self._chance.choice(until(lambda: [crew for crew in self.crews if crew.workers()], within=START))
        if self._chance.random() < SUPERVISORS:
            self._kill_crew(crew)
        else:
            self._kill([self._chance.choice(crew.workers())])

    def _kill_crew(self, crew: Crew) -> None:
        os.kill(crew.pid, signal.SIGSTOP)
        until(lambda: state_of(crew.pid) == "T", within=START)
        workers = crew.workers()
        end(crew.pid)
        self._kill(workers)
        self.crews.remove(crew)
        self.crews.append(self._ships.crew("--processes", "2", "--concurrency", "8", is_ready=False))

    def _kill(self, workers: list[int]) -> None:
        """Stopped first, for the blink of an eye, so that the moment is known."""
        for pid in workers:
            process = identify(pid)
            os.kill(pid, signal.SIGSTOP)
            until(lambda pid=pid: state_of(pid) in ("T", "Z", ""), within=START)  # type: ignore[misc]
            self.deaths[process] = time.time()
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(is_alive(pid) for pid in workers), within=START)


@pytest.mark.timeout(600)
def test_nothing_is_lost_owned_twice_or_stuck_however_often_workers_are_killed(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    database = tmp_path / "jobs.db"
    with fleet(tmp_path, ttl=f"{TTL}s", recovery=f"{RECOVERY}s") as ships:
        ships.app.migrate()
        history_sqlite.watch(database)
        ours = identify(os.getpid())
        executioner = Executioner(ships, chance)
        for cycle in range(CYCLES):
            for number in range(JOBS * cycle // CYCLES, JOBS * (cycle + 1) // CYCLES):
                job = ships.enqueue("labour" if number % 2 else "labour_in_thread", seconds=chance.uniform(0.2, 2.0))
                history_sqlite.tell(database, "enqueue", job, None, ours)
            pause, began = chance.uniform(0.0, 0.4), time.monotonic()
            until(lambda pause=pause, began=began: time.monotonic() - began > pause, within=1.0)  # type: ignore[misc]
            executioner.strike()
        left = JOBS - done(ships)
        until(lambda: done(ships) == JOBS, within=120)
        assert ships.app.jobs.counts()["completed"] == JOBS
        for crew in executioner.crews:
            until(crew.workers, within=START)
            crew.send(signal.SIGTERM)
            assert crew.wait(START) == 0
        history = history_sqlite.read(database, executioner.deaths)
        report = check(history, Rules(bound=TTL * 1.001 + RECOVERY + 2.0))
        print(f"{left} jobs were not done when the last worker was killed")
        told = f"{len(history)} events, {len(executioner.deaths)} workers killed, {report.starts} starts of {JOBS} jobs"
        print(f"{told}, slowest recovery {report.slowest_recovery:.2f} s")
        assert not report.violations, report.explain(history)
        assert report.starts > JOBS
        assert left > 0
        assert len(executioner.deaths) >= CYCLES
        assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "L1", "L2")) > 0


def done(ships: Fleet) -> int:
    counts = ships.app.jobs.counts()
    return counts["completed"] + counts["failed"] + counts["cancelled"]

"""The jobs of torture: mostly ordinary work, some faults, and some jobs that no worker can run."""

import random
from collections.abc import Sequence
from uuid import UUID

from tests.e2e.fleet import Fleet
from tests.e2e.torture.grounds import Grounds
from tests.e2e.torture.runner import Torturer

STEADFAST = {
    "labour": 70,
    "labour_in_thread": 30,
    "keep_quiet": 15,
    "stumble": 6,
    "block_the_loop": 4,
    "hold_the_gil": 1,
    "ignore_cancellation": 4,
    "leave_children": 3,
    "copy_the_file": 3,
}
"""Weights of tasks that complete under all faults, unless they are cancelled."""
DOOMED = {"poison": 1, "overstay": 1, "stand_still": 1}
"""Tasks that always fail."""
SPOILED, UNKNOWN = "spoiled", "nobody_knows_me"
LONGEST = 2.5
"""The most seconds of work in one job."""
RUBBISH = 0.03
"""How often the feeder adds jobs that no worker can run."""
DELETABLE = 0.05
"""The share of jobs that may be deleted; all others must stay."""


class Feeder:
    """Keeps ``enough`` jobs waiting."""

    def __init__(self, torturer: Torturer, ships: Fleet, chance: random.Random, *, enough: int) -> None:
        self._torturer, self._ships, self._chance, self._enough = torturer, ships, chance, enough
        self._tasks = {**STEADFAST, **DOOMED}
        self._spoiled = ships.app.task(name=SPOILED)(_never)
        self.kept: list[UUID] = []
        self.deletable: list[UUID] = []
        self.jobs = 0

    def feed(self) -> float:
        """Enqueue as many jobs as are missing."""
        counts = self._ships.app.jobs.counts()
        missing = self._enough - counts.get("available", 0) - counts.get("scheduled", 0)
        for task in self._chance.choices(list(self._tasks), list(self._tasks.values()), k=max(0, missing)):
            job = self._ships.enqueue(task, seconds=round(self._chance.uniform(0.1, LONGEST), 3))
            self.jobs += 1
            if self._chance.random() < DELETABLE:
                self.deletable.append(job)
            else:
                self._torturer.acknowledge(job)
                self.kept.append(job)
        return 0.2

    def spoil(self, grounds: Grounds) -> None:
        """Add some whose payload is invalid when they are due, and one for which no worker has the code."""
        jobs = [self._spoiled.options(delay="2s").enqueue(seconds=0.1).id for _ in range(self._chance.randint(1, 5))]
        grounds.spoil(jobs)
        unknown = self._ships.enqueue(UNKNOWN)
        for job in (*jobs, unknown):
            self._torturer.acknowledge(job)
        self.jobs += len(jobs) + 1

    def misfits(self) -> list[str]:
        """Return the tasks whose jobs have not ended as they must."""
        counts = self._ships.app.jobs.counts("task")
        wrong = [_wrong(counts, task, ("failed",)) for task in STEADFAST]
        wrong += [_wrong(counts, task, ("completed",)) for task in (*DOOMED, SPOILED)]
        wrong.append(_wrong(counts, UNKNOWN, ("completed", "failed")))
        return [text for each in wrong for text in each]


def _wrong(counts: dict[str, dict[str, int]], task: str, never: Sequence[str]) -> list[str]:
    ended = {state: counts[task][state] for state in never if counts.get(task, {}).get(state)}
    return [f"jobs of {task} ended otherwise than they may: {ended}"] if ended else []


async def _never(seconds: float) -> None:
    """Stand for a task on the client's side; never run."""

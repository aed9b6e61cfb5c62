"""``python -m tests.e2e.torture.limits --minutes 10``: do limits hold at every instant, under kills, freezes and changed limits?

Crews of real workers run jobs of two tasks while workers and whole crews are killed and frozen. ``labour`` has a limit that changes and
is removed at times; ``labour_in_thread`` has a limit and a limit for each key that never change. Another session counts the active
rows of both all the time. ``keep_quiet`` has none, and keeps all workers busy. In the end every job must have completed.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from holdfast import Limit
from holdfast.errors import ConfigurationError
from tests.e2e.death_log import log_deaths
from tests.e2e.fleet import Fleet
from tests.e2e.records import PROCESS_LOG
from tests.e2e.torture.databases import Store, grounds
from tests.e2e.torture.grounds import Grounds
from tests.e2e.torture.lanes import Lanes
from tests.e2e.torture.rounds import TARGET
from tests.e2e.torture.runner import SETTINGS, TIME_LIMIT, Harm, Torturer
from tests.e2e.torture.table import WatchedTable
from tests.e2e.waiting import until

CHANGING, FIXED, FREE = "labour", "labour_in_thread", "keep_quiet"
MOST, PER_KEY = 4, 2
KEYS = (None, "acme", "zoo")
ENOUGH = 100
ACTIVE: dict[Store, str] = {
    "sqlite": "SELECT task || '/' || key FROM holdfast_jobs WHERE state IN ('claimed', 'running')",
    "postgres": "SELECT task || '/' || key FROM holdfast.active",
}
MEMORY = 30.0
"""Seconds for which a job of an earlier limit may still be active: its longest run, and the bound of its recovery."""


class Watcher:
    """Counts active jobs, and knows which limits were in force."""

    def __init__(self, store: Store, setting: Grounds, fleet: Fleet, chance: random.Random) -> None:
        self._active, self._setting, self._fleet, self._chance = ACTIVE[store], setting, fleet, chance
        self._limits: list[tuple[float, int | None]] = [(time.monotonic(), None)]
        self.samples, self.wrong, self.highest = 0, list[str](), Counter[str]()

    def change(self) -> float:
        """Set another limit, or none."""
        most = self._chance.choice([1, 2, 3, 5, 8] if self._limits[-1][1] is None else [1, 2, 3, 5, 8, None])
        limits = self._fleet.app.limits
        if most is None:
            limits.clear("task", CHANGING)
            self._limits.append((time.monotonic(), None))
        else:
            self._limits.append((time.monotonic(), most))
            limits.set("task", CHANGING, Limit(concurrency=most))
        return self._chance.uniform(5.0, 20.0)

    def look(self) -> float:
        """Count the active jobs once."""
        now, counts = time.monotonic(), Counter[tuple[str, str]]()
        for line in self._setting.say(self._active):
            task, _, key = line.partition("/")
            counts[task, key] += 1
        self._judge(FIXED, sum(number for (task, _), number in counts.items() if task == FIXED), MOST)
        for (task, key), number in counts.items():
            if task == FIXED:
                self._judge(f"{FIXED} of key {key!r}", number, PER_KEY)
        allowed = self._allowed(now)
        if allowed is not None:
            self._judge(CHANGING, sum(number for (task, _), number in counts.items() if task == CHANGING), allowed)
        self.samples += 1
        return 0.02

    def _judge(self, what: str, number: int, most: int) -> None:
        self.highest[what] = max(self.highest[what], number)
        if number > most:
            self.wrong.append(f"{number} jobs of {what} were active, and {most} may be")

    def _allowed(self, now: float) -> int | None:
        """Return the highest limit that was in force since the oldest active job may have been claimed; None: there was none."""
        last = [most for since, most in self._limits if since <= now - MEMORY][-1:]
        recent = last + [most for since, most in self._limits if since > now - MEMORY]
        return None if None in recent or not recent else max(most for most in recent if most is not None)


def play(store: Store, seconds: float, seed: int, folder: Path) -> list[str]:
    """Run a round, print its figures, and return what is wrong."""
    chance = random.Random(seed)
    with grounds(store, folder) as setting, ExitStack() as stack:
        fleet = Fleet(folder, setting.url, setting.transport, **{**SETTINGS, "poll": "0.2s"})
        stack.callback(fleet.stop)
        fleet.target = TARGET
        fleet.app.migrate()
        fleet.app.limits.set("task", FIXED, Limit(concurrency=MOST, per_key=PER_KEY))
        WatchedTable(setting.say, setting.stamp)  # the workers' code watches it
        watching = stack.enter_context(log_deaths(folder / PROCESS_LOG))
        torturer = Torturer(fleet, chance, setting.machines(3), watching, processes=2)
        torturer.make_machine = setting.machine
        watcher = Watcher(store, setting, fleet, chance)
        _torment(torturer, watcher, fleet, chance, seconds)
        with suppress(ConfigurationError):  # it may have none now
            fleet.app.limits.clear("task", CHANGING)
        with suppress(AssertionError):
            until(lambda: not _left(fleet), within=2 * TIME_LIMIT)
        left, done = _left(fleet), fleet.app.jobs.counts()["completed"]
        print(f"{store}: {seconds:.0f} s, seed {seed}: {done} jobs completed, {left} left, {watcher.samples} samples")
        print(f"  {', '.join(f'{number} {what}' for what, number in sorted(torturer.counts.items()))}")
        print(f"  most active at once: {', '.join(f'{what} {number}' for what, number in sorted(watcher.highest.items()))}")
        if left:
            print(fleet.logs()[-3000:], file=sys.stderr)
        wrong = watcher.wrong[:10] + ([f"{left} jobs did not complete"] if left else [])
        return wrong if watcher.highest[FIXED] else [*wrong, "no job of the fixed limit ran"]


def _torment(torturer: Torturer, watcher: Watcher, fleet: Fleet, chance: random.Random, seconds: float) -> None:
    tasks = [fleet.app.task(name=name)(_work) for name in (CHANGING, FIXED, FREE)]

    def feed() -> float:
        counts = fleet.app.jobs.counts()
        for _ in range(ENOUGH - counts["available"] - counts["scheduled"]):
            chance.choice(tasks).options(key=chance.choice(KEYS)).enqueue(seconds=round(chance.uniform(0.05, 1.0), 3))
        return 0.2

    def hurt() -> float:
        crew = torturer.victim()
        with crew.lock:
            torturer.choose(
                Harm("crews killed", 3, partial(torturer.kill_all_together, crew)),
                Harm("freezes", 2, partial(torturer.freeze_for_a_moment, crew)),
                Harm("workers frozen", 2, partial(torturer.freeze_a_worker, crew)),
            ).do()
        return chance.uniform(1.0, 6.0)

    steps: Sequence[Callable[[], float]] = (torturer.kill_a_worker, hurt, watcher.change, watcher.look)
    lanes, feeding = Lanes(), Lanes()
    try:
        feeding.open(feed)
        for step in steps:
            lanes.open(step)
        lanes.wait(seconds)
    finally:
        lanes.close()  # first: most faults wait for busy workers
        feeding.close()


def _left(fleet: Fleet) -> int:
    counts = fleet.app.jobs.counts()
    return sum(counts[state] for state in ("available", "scheduled", "claimed", "running", "held", "failed"))


async def _work(seconds: float) -> None:
    """Stand for a task on the client's side; never run."""


def main(words: Sequence[str] | None = None) -> int:
    """Play rounds; return 1 if a limit did not hold or a job did not end."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.torture.limits", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long; default 1")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=None, help="of the faults; default: random")
    asked = parser.parse_args(words)
    seed = random.randrange(10**6) if asked.seed is None else asked.seed
    with tempfile.TemporaryDirectory(prefix="holdfast-limits-") as folder:
        wrong = play(asked.store, asked.minutes * 60, seed, Path(folder))
    print(*wrong or ["limits held"], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

"""The history: a supervisor adds up what its workers count, and writes a row for each of them once a minute."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct, field

from holdfast._core.history import FAILED, MINUTE, MinuteNote, TaskMinute, bounded, trimmed
from holdfast._core.job import ActiveJob, State
from holdfast._core.lifecycle import Transition
from holdfast._core.tallies import Distribution, TallyDelta
from holdfast._engine.environment import Environment
from holdfast._engine.service import ERRORS
from holdfast._engine.store_defaults import has_minutes, history
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.host import Host

SAMPLE = 5.0
"""Seconds between two looks at how many slots are in use."""
SPREAD = 5.0
"""Seconds after a minute in which supervisors write: each at another time, so that the store does not get all rows at once."""
WRITE_LIMIT, LAST_WRITE_LIMIT = 10.0, 1.0


class _Task(Struct):
    """What one task of a queue has done in this minute so far."""

    outcomes: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    wait: Distribution = field(default_factory=Distribution.empty)
    run: Distribution = field(default_factory=Distribution.empty)
    rescued: int = 0
    retried: int = 0

    def minute(self, queue: str, task: str) -> TaskMinute:
        wait, run = trimmed(self.wait.counts), trimmed(self.run.counts)
        return TaskMinute(queue, task, dict(self.outcomes), wait, run, self.rescued, max(self.retried, 0))


class _Worker(Struct):
    """What is known of one worker in this minute so far."""

    tasks: defaultdict[tuple[str, str], _Task] = field(default_factory=lambda: defaultdict(_Task))
    running: list[int] = field(default_factory=list)
    lag: float | None = None


class MinuteHistory:
    """The minute that goes on. A write that fails loses that minute, and concerns nothing else."""

    def __init__(self, workers: Callable[[], Sequence[WorkerHandle]], host: Host) -> None:
        self._live, self._host = workers, host
        self._open = defaultdict[str, _Worker](_Worker)
        self._environment: Environment | None = None
        self._began = self._due = self._spread = 0.0

    def begin(self, environment: Environment) -> bool:
        """Count from now on, if the store has a history; return whether it does."""
        if has_minutes(environment.store):
            self._environment = environment
            self._began, self._spread = environment.clock.monotonic(), SPREAD * (0.5 + 0.5 * environment.chance.jitter())
            self._due = self._began + self._until_next()
        return self._environment is not None

    def add(self, worker: str, delta: TallyDelta) -> None:
        """Add what a worker has counted. A failed attempt that did not finish its job counts as retried."""
        if self._environment is None:
            return
        tasks = self._open[worker].tasks
        for series, number in delta.counts:
            if series[0] == "attempts":
                _, queue, name, outcome = series
                task = tasks[queue, name]
                task.outcomes[outcome] += number
                task.retried += number if outcome in FAILED else 0
            elif series[0] == "jobs_finished" and series[3] == State.FAILED:
                tasks[series[1], series[2]].retried -= number
        for series, spread in delta.spreads:
            if series[0] == "attempt_duration_seconds":
                tasks[series[1], series[2]].run.add(spread)
            elif series[0] == "job_wait_seconds":
                tasks[series[1], series[2]].wait.add(spread)

    def rescued(self, job: ActiveJob, move: Transition, worker: str) -> None:
        """Count a job that was taken from a worker, and the attempt that this ended, if its code ran."""
        if self._environment is None:
            return
        task = self._open[worker].tasks[job.queue, job.task]
        task.rescued += 1
        if move.record is not None:
            task.outcomes[move.record.value] += 1

    async def step(self) -> float:
        """Look how many slots are in use, and write the minute when it is over; return the seconds until the next look."""
        assert self._environment is not None
        for worker in self._live():
            if worker.lease is not None and worker.pong is not None:
                known = self._open[worker.name]
                known.running.append(worker.pong.running)
                known.lag = max(known.lag or 0.0, worker.lag)
        if (left := self._due - self._environment.clock.monotonic()) > 0:
            return min(SAMPLE, left)
        self._due += self._until_next() - left
        await self._write(WRITE_LIMIT)
        return SAMPLE

    async def close(self) -> None:
        """Write what is left, if the store answers soon."""
        if self._environment is not None and any(each.tasks for each in self._open.values()):
            with suppress(*ERRORS):
                await self._write(LAST_WRITE_LIMIT)

    async def _write(self, limit: float) -> None:
        assert self._environment is not None
        if notes := self._take():
            async with asyncio.timeout(limit):
                await history(self._environment.store).record_minutes(notes)

    def _take(self) -> list[MinuteNote]:
        """Return a note on each worker that lives, or has done something, and begin the next minute."""
        assert self._environment is not None
        now, chance = self._environment.clock.monotonic(), self._environment.chance
        seconds, self._began = now - self._began, now
        found, self._open = self._open, defaultdict(_Worker)
        live = {worker.name: worker for worker in self._live() if worker.lease is not None}
        notes = []
        for name in live.keys() | {name for name, each in found.items() if each.tasks}:
            known, worker = found[name], live.get(name)
            slots = None if worker is None or worker.lease is None else worker.lease.slots
            notes.append(
                MinuteNote(
                    id=chance.uuid7(),
                    worker=name,
                    seconds=round(seconds, 3),
                    slots=slots,
                    in_use=round(sum(known.running) / len(known.running), 3) if known.running else None,
                    memory=None if worker is None else self._host.memory(worker.child.process),
                    loop_lag=None if known.lag is None else round(known.lag, 6),
                    tasks=bounded({key: task.minute(*key) for key, task in known.tasks.items()}),
                )
            )
        return notes

    def _until_next(self) -> float:
        """Return the seconds until a moment shortly after the next full minute."""
        assert self._environment is not None
        left = MINUTE - self._environment.clock.wall() % MINUTE + self._spread
        return left if left >= 2 * SPREAD else left + MINUTE

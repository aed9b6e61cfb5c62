"""One trial: two workers of one peer share some jobs; one is killed or frozen, and its jobs are watched."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bench.peers_torture import journal, processes
from bench.peers_torture.catalogue import Setting
from bench.peers_torture.contestants import CONCURRENCY, SETTING
from bench.peers_torture.run import URL
from bench.peers_torture.sight import Sight
from bench.peers_torture.verdict import Finding, Seen, find

Fault = Literal["kill", "freeze"]

ROOT = Path(__file__).parents[2]
WORKERS = ("a", "b")
JOBS = CONCURRENCY
"""The other worker has a free slot for each job that the victim holds."""
LOOK = 0.5
LAST_LOOKS = 6  # rows are completed a little after their handlers have ended
TIMEOUT = 180.0  # for a start; all trials start at once


class Timing(Struct, frozen=True):
    """How long things take, in seconds but for ``steps``."""

    steps: int = 20
    step: float = 1.0
    window: float = 360.0
    restart: float = 5.0
    tell: float = 60.0
    settling: float = 6.0
    """Between a worker's being up and the first job: it may poll, and elect a leader."""

    @property
    def before_fault(self) -> float:
        """How far the victim's youngest job is by then."""
        return 0.5 * self.steps * self.step

    @property
    def before_thaw(self) -> float:
        """How long another worker has run the frozen worker's jobs by then: less than they need to overtake it."""
        return 0.1 * self.steps * self.step

    @property
    def after_thaw(self) -> float:
        """Time enough for every run that is left."""
        return 3 * self.steps * self.step


class Place(Struct, frozen=True):
    """Where one trial is: its own folder and its own database."""

    folder: Path
    url: str

    @property
    def journal(self) -> Path:
        """What its handlers write."""
        return self.folder / "journal"

    @property
    def log(self) -> Path:
        """What its processes say."""
        return self.folder / "log"


class Trial:
    """Runs once."""

    def __init__(self, setting: Setting, fault: Fault, place: Place, pace: Timing, sight: Callable[[], Sight]) -> None:
        self.setting = setting
        self.fault = fault
        self._place = place
        self._pace = pace
        self._open_sight = sight
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._completed: dict[int, float] = {}
        self._sight: Sight | None = None
        self._is_asked = False

    async def run(self, starts: asyncio.Semaphore) -> Finding:
        """Run from empty tables to figures; a trial that could not be held reports why. ``starts`` limits concurrent starts."""
        try:
            async with starts:
                await self._begin()
            return await self._watch()
        except Exception as error:
            words = self._place.log.read_text(errors="replace")[-1500:] if self._place.log.exists() else ""
            return Finding(setting=self.setting.title, fault=self.fault, error=f"{type(error).__name__}: {error}\n{words}")
        finally:
            processes.kill(self._place.journal)
            for worker in self._workers.values():
                worker.wait()
            if self._sight is not None:
                self._sight.close()

    async def _begin(self) -> None:
        await self._call("prepare")
        for name in WORKERS:
            self._start(name)
        await self._until(lambda: journal.workers_up(self._place.journal) >= set(WORKERS), "both workers are up")

    async def _watch(self) -> Finding:
        await asyncio.sleep(self._pace.settling)
        await self._call("enqueue", str(JOBS))
        self._sight = self._open_sight()
        victim = await self._victim()
        fault = time.monotonic()
        thawed = await (self._kill(victim, fault) if self.fault == "kill" else self._freeze(victim, fault))
        for _ in range(LAST_LOOKS):
            await self._look(victim, fault)
        seen = Seen(
            runs=self._runs(),
            victim=victim,
            fault=fault,
            thawed=thawed,
            window=self._pace.window,
            completed=self._completed,
        )
        return find(self.setting.title, self.fault, JOBS, seen)

    async def _victim(self) -> str:
        """Return the worker that holds most of the jobs, once they are well under way."""
        await self._until(lambda: len(self._runs()) >= JOBS or self._age_of_first() > self._pace.before_fault, "jobs have begun")
        held = [run for run in self._runs() if run.end is None]
        victim = max(WORKERS, key=lambda name: sum(run.worker == name for run in held))
        youngest = max(run.start for run in held if run.worker == victim)
        await asyncio.sleep(youngest + self._pace.before_fault - time.monotonic())
        return victim

    async def _kill(self, victim: str, fault: float) -> None:
        """Kill it, and watch until nothing is left to wait for."""
        await asyncio.to_thread(processes.kill, self._place.journal, victim)
        self._workers.pop(victim).wait()
        while not self._is_over() and (self._since(fault) < self._pace.window or self._is_running_late(fault)):
            if self.setting.restarts and victim not in self._workers and self._since(fault) > self._pace.restart:
                self._start(victim)
            await self._look(victim, fault)

    async def _freeze(self, victim: str, fault: float) -> float:
        """Freeze it until another worker runs its jobs, or the window is over; then let it go on. Return when that was."""
        frozen = await asyncio.to_thread(processes.freeze, self._place.journal, victim)
        held = {run.job for run in self._runs() if run.worker == victim and run.end is None}
        while not self._is_taken_over(held, fault) and self._since(fault) < self._pace.window:
            await self._look(victim, fault)
        thawed = time.monotonic()
        processes.thaw(frozen)
        while self._since(thawed) < self._pace.after_thaw and not (
            self._is_over() and self._since(thawed) > self._pace.before_fault
        ):
            await self._look(victim, fault)
        return thawed

    async def _look(self, victim: str, fault: float) -> None:
        """Note whose rows have been completed since the last look; tell the other worker if it is time."""
        assert self._sight is not None
        for job in await asyncio.to_thread(self._sight.completed):
            self._completed.setdefault(job, time.monotonic())
        if self.setting.tells and not self._is_asked and self._since(fault) > self._pace.tell:
            self._is_asked = True
            self._workers[next(name for name in WORKERS if name != victim)].send_signal(signal.SIGUSR1)
        await asyncio.sleep(LOOK)

    def _is_taken_over(self, held: set[int], fault: float) -> bool:
        """Return whether another worker has run all of them, or as many as there will be, for a little while."""
        new = {run.job: run.start for run in reversed(self._runs()) if run.job in held and run.start > fault}
        if not new:
            return False
        enough = self._pace.before_thaw
        return self._since(min(new.values())) > 2 * enough or (new.keys() == held and self._since(max(new.values())) > enough)

    def _is_over(self) -> bool:
        """Return whether everything is completed, and no worker is running anything."""
        return len(self._completed) == JOBS and not self._is_running()

    def _is_running_late(self, fault: float) -> bool:
        """Return whether a run that began within the window may still end after it."""
        return self._is_running() and self._since(fault) < self._pace.window + self._pace.after_thaw

    def _is_running(self) -> bool:
        return any(run.end is None and processes.is_alive(run.pid) for run in self._runs())

    def _runs(self) -> list[journal.Run]:
        return journal.runs_in(self._place.journal)

    def _age_of_first(self) -> float:
        return self._since(min((run.start for run in self._runs()), default=time.monotonic()))

    @staticmethod
    def _since(moment: float) -> float:
        return time.monotonic() - moment

    def _start(self, worker: str) -> None:
        self._workers[worker] = processes.start(self._command("work"), self._environment(worker), self._place.log, ROOT)

    async def _call(self, verb: str, *words: str) -> None:
        process = processes.start([*self._command(verb), *words], self._environment("client"), self._place.log, ROOT)
        if await asyncio.to_thread(process.wait, TIMEOUT):
            raise RuntimeError(f"{verb} ended with status {process.returncode}")

    def _command(self, verb: str) -> list[str]:
        return [sys.executable, "-m", "bench.peers_torture.run", self.setting.peer, self.setting.name, verb]

    def _environment(self, worker: str) -> dict[str, str]:
        return {
            URL: self._place.url,
            "HOLDFAST_URL": self._place.url,
            SETTING: self.setting.name,
            journal.FILE: str(self._place.journal),
            journal.WORKER: worker,
            journal.STEPS: str(self._pace.steps),
            journal.STEP: str(self._pace.step),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        timeout = time.monotonic() + TIMEOUT
        while not is_so():
            for name, worker in self._workers.items():
                if worker.poll() is not None:
                    raise RuntimeError(f"worker {name} ended with status {worker.returncode} before {what}")
            if time.monotonic() > timeout:
                raise TimeoutError(f"not within {TIMEOUT:g} s: {what}")
            await asyncio.sleep(LOOK)

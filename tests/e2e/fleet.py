"""Real supervisors and workers on one store, and the faults that tests inject into them."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast import App, JobView
from holdfast._core.identity import ProcessIdentity
from holdfast._system import guard
from holdfast._system.host import identify
from proof.checker import history_sqlite
from tests.e2e.journal import Journal
from tests.e2e.machines import HERE, Machine
from tests.e2e.records import record_of
from tests.e2e.scripted_workers import end, is_alive, living
from tests.e2e.waiting import until

ROOT = Path(__file__).parents[2]
HOLDFAST = ("-c", "from holdfast.cli import main; main()")
START = 15.0
"""Seconds in which a process starts on any machine."""
SETTINGS = {"ttl": "3s", "recovery": "0.5s", "poll": "0.2s", "grace": "5s"}
"""Settings of a fleet, unless a test sets others."""


class Crew:
    """One supervisor and its workers."""

    def __init__(self, fleet: "Fleet", *options: str, machine: Machine) -> None:
        self._fleet, self.machine = fleet, machine
        self.log = fleet.folder / f"log-{len(fleet.crews)}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                machine.command([sys.executable, *fleet.main, "worker", fleet.target, *options]),
                cwd=ROOT,
                env={**os.environ, **fleet.environment, **machine.environment(), "E2E_FOLDER": str(fleet.folder)},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.started = time.monotonic()
        self.lock = threading.Lock()  # taken by threads that inject faults into this crew

    @property
    def pid(self) -> int:
        """The process id of the supervisor."""
        return self.process.pid

    def workers(self) -> list[int]:
        """List the living workers: the direct children of the supervisor."""
        return [pid for pid in _all_pids() if (stat := guard.read_stat(pid)) and stat.parent == self.pid and stat.is_alive]

    def identify(self, pid: int) -> ProcessIdentity:
        """Return the identity that this process uses for itself."""
        known = identify(pid)
        return structs.replace(known, host=self.machine.name or known.host)

    def processes(self) -> list[int]:
        """List the supervisor first, then all of its workers' sessions, guards included."""
        return [self.pid, *(pid for worker in self.workers() for pid in living(worker))]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor only."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL to the supervisor and its workers, all frozen: a worker whose supervisor has died returns its jobs."""
        doomed = [self.pid, *self.workers()]
        sessions = [pid for worker in doomed[1:] for pid in living(worker)]
        _send(signal.SIGSTOP, doomed)
        for pid in (*doomed, *sessions):
            end(pid)
        until(lambda: not any(is_alive(pid) for pid in (*doomed, *sessions)), within=START)

    def freeze(self) -> list[int]:
        """Send SIGSTOP to all processes, and return which they were."""
        frozen = self.processes()
        stop(frozen)
        return frozen

    def freeze_outside_of_writes(self) -> list[int]:
        """Freeze all while no process is inside a write: a frozen writer would block every other writer of a SQLite file."""
        while True:
            frozen = self.freeze()
            if not self._fleet.is_locked():
                return frozen
            thaw(frozen)
            time.sleep(0.01)

    def has_ended(self) -> bool:
        """Return whether the supervisor has ended."""
        return self.process.poll() is not None

    def wait(self, within: float) -> int:
        """Wait for its end, and return its exit code."""
        return self.process.wait(within)

    def log_text(self) -> str:
        """Return the log of the supervisor and its workers."""
        return self.log.read_text(errors="replace")


class Fleet:
    """All crews of one test, their store and their journal. ``url``: by default a separate SQLite file."""

    def __init__(self, folder: Path, url: str = "", transport: str = "", **settings: str) -> None:
        self.folder, self.url = folder, url or f"sqlite:///{folder}/jobs.db"
        settings |= {"url": self.url, "transport": transport}
        self.environment = {f"E2E_{name.upper()}": value for name, value in settings.items() if value}
        self.journal, self.record = Journal(folder), record_of(self.url, folder)
        self.app = App(self.url, transport=transport or None)
        self.crews: list[Crew] = []
        self.main: tuple[str, ...] = HOLDFAST
        self.target = "tests.e2e.jobs_app:app"

    def crew(self, *options: str, is_ready: bool = True, machine: Machine = HERE) -> Crew:
        """Start a supervisor; wait until its workers may claim, unless ``is_ready`` is false."""
        before = {view.worker for view in self.app.workers.list()} if is_ready else set()
        crew = Crew(self, *options, machine=machine)
        self.crews.append(crew)
        if is_ready:
            wanted = int(options[options.index("--processes") + 1]) if "--processes" in options else 1
            until(lambda: len({view.worker for view in self.app.workers.list()} - before) >= wanted, within=START)
        return crew

    def enqueue(self, task: str, **payload: object) -> UUID:
        """Enqueue a job, and return its id."""
        return self.app.enqueue(task, **payload).id

    def view(self, job: UUID) -> JobView:
        """Return the job as users see it."""
        return self.app.jobs.get(job)

    def open(self, gate: str) -> None:
        """Open a gate for the jobs that wait for it."""
        (self.folder / gate).touch()

    def entry(self, job: UUID, what: str, *, number: int = 1, within: float = START) -> dict[str, Any]:
        """Wait for the n-th entry of this kind by the job's handler, and return it."""
        return until(lambda: self.journal.read(job, what)[number - 1 : number], within=within)[0]

    def until_state(self, job: UUID, state: str, *, within: float) -> JobView:
        """Wait until the job is in that state, and return it."""
        return until(lambda: (view := self.view(job)).state == state and view, within=within)

    def is_locked(self) -> bool:
        """Return whether a frozen process is inside a write of a SQLite file. Writes to a server or a bucket block no others."""
        return any(self._is_locked(file) for file in self.folder.glob("*.db"))

    def _is_locked(self, file: Path) -> bool:
        with history_sqlite.opened(file, timeout=0.1) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
            return False

    def stop(self) -> None:
        """End all crews, and close the App."""
        self.app.close()
        for crew in self.crews:
            end(crew.pid)
        for pid in living_in(self.folder):
            end(pid)
        for crew in self.crews:
            crew.process.wait(START)

    def logs(self) -> str:
        """Return all logs, for a test that fails."""
        return "\n".join(f"--- {crew.log.name}\n{crew.log_text()}" for crew in self.crews)


@contextmanager
def fleet(folder: Path, **settings: str) -> Iterator[Fleet]:
    """Start a fleet that ends with its test; print its logs if the test fails."""
    made = Fleet(folder, **{**SETTINGS, **settings})
    try:
        if not made.url.startswith("sqlite:"):
            made.app.migrate()  # on a server no process migrates on its first use
        yield made
    except BaseException:
        print(made.logs())
        print("\n".join(map(str, made.journal.read())))
        raise
    finally:
        made.stop()


def stop(pids: Iterable[int]) -> None:
    """Send SIGSTOP to the processes that still exist, and wait until they have stopped."""
    _send(signal.SIGSTOP, pids)
    until(lambda: all(is_stopped(pid) for pid in pids), within=START)


def is_stopped(pid: int) -> bool:
    """Return whether the process runs no instruction. (In state D it waits in the kernel for a child stopped before its exec.)"""
    return state_of(pid) in ("T", "D", "Z", "")


def thaw(pids: Iterable[int]) -> None:
    """Send SIGCONT to the processes that still exist."""
    _send(signal.SIGCONT, pids)


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def state_of(pid: int) -> str:
    """Return the letter of its state in /proc; empty if the process is gone."""
    stat = guard.read_stat(pid)
    return "" if stat is None else stat.state


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def living_in(folder: Path) -> list[int]:
    """List the processes that were started for this test, in any session."""
    variable = f"E2E_FOLDER={folder}".encode()
    found = []
    for pid in _all_pids():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if variable in environment.split(b"\0"):
            found.append(pid)
    return found

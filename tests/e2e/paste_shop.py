"""The application of examples/paste_cleanup: its tables, bucket and workers, the faults they meet, and the final check."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from random import Random
from typing import Any, NamedTuple

import psycopg

from examples.paste_cleanup.bucket_server import BucketServer
from tests.e2e.fleet import HOLDFAST, START, Crew, Fleet, thaw
from tests.e2e.paste_figures import EXAMPLE, Figures
from tests.e2e.scripted_workers import end
from tests.e2e.waiting import until

LOOK = 0.1
WISHED = int(os.environ.get("E2E_PASTES", "0"))
"""The number of pastes of the long run; 0 means no long run."""
LIMIT = 3600.0 if WISHED else 300.0
"""Seconds for a whole test; most of them are for the cleaning."""


class Size(NamedTuple):
    """How many pastes to clean, and how: rows per batch, extra seconds per batch (``delay``), seconds between two kills
    (``every``), and seconds for which a worker may hold a row (``stale_after``)."""

    expired: int
    contents: int
    live: int
    batch: int
    delay: float = 0.1
    every: float = 1.0
    stale_after: float = 3.0

    @classmethod
    def wished(cls, size: "Size") -> "Size":
        """Return the size that ``E2E_PASTES`` asks for, if it is set: ``E2E_PASTES=1000000`` is the long run."""
        return cls(WISHED, WISHED // 10, WISHED // 100, batch=1000, delay=0.0, every=2.0, stale_after=20.0) if WISHED else size


class Frozen(NamedTuple):
    """Frozen processes, and the rows that they held: the table, and the names of the owners."""

    crew: Crew
    pids: list[int]
    table: str
    owners: frozenset[str]


class PasteShop:
    """One store, one bucket. Rows are taken from workers after seconds, and leases last longer. A worker that is frozen in between
    wakes up as the owner of its job, but not of its rows."""

    def __init__(self, ships: Fleet, bucket: BucketServer, size: Size) -> None:
        self.ships, self.bucket, self.size = ships, bucket, size
        ships.target = "app:app"
        path = f"{EXAMPLE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
        ships.environment |= {
            "PYTHONPATH": path,
            "PASTES_URL": ships.url,
            "PASTES_BUCKET": bucket.url,
            "PASTES_CACHE": str(ships.folder / "cache"),
            "PASTES_STALE_AFTER": f"{size.stale_after:g}s",
            "PASTES_TTL": "60s",
            "PASTES_BATCH": str(size.batch),
            "PASTES_RUNS": "4",
            "PASTES_PACE": str(size.delay),
        }
        self._chance, self._clerk = (
            Random(0),
            ThreadPoolExecutor(1),
        )  # this session may have to wait for a lock, other threads must not

    def fill(self) -> None:
        """Make tables, rows, objects and indexes, as the README does."""
        size = self.size
        self.run("fill.py", "--expired", str(size.expired), "--contents", str(size.contents), "--live", str(size.live))
        self.ships.app.migrate()
        self.run(*HOLDFAST, "rows", "indexes", "--app", "app:app", "--create")

    def run(self, *words: str, code: int = 0) -> str:
        """Run a script of the example, or any other command of Python's, and return its output."""
        words = (str(EXAMPLE / words[0]), *words[1:]) if words[0].endswith(".py") else words
        environment = {**os.environ, **self.ships.environment}
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement beside all other sessions."""
        if self.ships.url.startswith("sqlite:"):
            with closing(sqlite3.connect(self.ships.url.removeprefix("sqlite:///"), timeout=30)) as connection:
                return connection.execute(sql).fetchall()
        with psycopg.connect(self.ships.url) as session:
            return session.execute(sql).fetchall()

    def freeze_a_crew_that_holds(self, table: str) -> Frozen:
        """Freeze a new supervisor and its worker, which has one run at a time and claims none ahead; the other crews do all other runs."""
        crew = self.ships.crew("--concurrency", "1", "--prefetch", "0")
        return until(lambda: self.freeze(crew, table), within=START)

    def freeze(self, crew: Crew, table: str) -> Frozen | None:
        """Freeze a crew while it holds rows and is not inside a transaction, whose locks the server would keep for as long."""
        if not self._held_by(crew.workers(), table):
            return None
        pids = crew.freeze_outside_of_writes()
        if (owners := self._held_by(crew.workers(), table)) and self._is_unlocked(table, owners):
            return Frozen(crew, pids, table, frozenset(owners))
        thaw(pids)
        return None

    def is_replaced(self, frozen: Frozen) -> bool:
        """Return whether other workers have or had all rows that it held."""
        return frozen.owners.isdisjoint(self._held(frozen.table))

    def paste(self, content: int) -> None:
        """Add a paste with the content of a paste that exists or existed."""
        self.run("paste.py", f"This is content {content}.\n")

    def clean(self, crew: Crew, frozen: Frozen) -> Figures:
        """Wait until nothing is left to be done. Workers are killed at intervals and new pastes come. Frozen workers wake up once
        others have had their rows; in the long run they are frozen again while there is much to do."""
        size, is_frozen, pastes = self.size, True, list[Future[None]]()
        figures = Figures(self.ask, [crew, frozen.crew], expired=size.expired, live=size.live)
        deadline, next_kill = time.monotonic() + 0.8 * LIMIT, time.monotonic() + size.every
        while is_frozen or not self.is_clean():
            assert time.monotonic() < deadline, self.ships.logs()
            if is_frozen and self.is_replaced(frozen):
                is_frozen = False
                thaw(frozen.pids)
            may_sleep = WISHED and not is_frozen and figures.left > size.expired / 4
            if may_sleep and (again := self.freeze(frozen.crew, frozen.table)):
                frozen, is_frozen = again, True
                figures.freezes += 1
            if time.monotonic() >= next_kill and (workers := crew.workers()):
                next_kill = time.monotonic() + size.every
                figures.killed(self._killed(self._chance.choice(workers)))
                pastes.append(self._clerk.submit(self.paste, self._chance.randrange(size.contents)))
            figures.look(self._holders)
            time.sleep(LOOK)
        figures.end()
        for paste in pastes:
            paste.result()
        return figures

    def close(self, *crews: Crew) -> None:
        """Send all crews the signal to end, and wait for them."""
        for crew in crews:
            crew.send(signal.SIGTERM)
        assert [crew.wait(2 * START) for crew in crews] == [0] * len(crews)

    def is_clean(self) -> bool:
        """Return whether nothing is due and nothing in progress."""
        due = "SELECT 1 FROM pastes WHERE status = 'LIVE' AND expires_at < CURRENT_TIMESTAMP"
        busy = "SELECT 1 FROM pastes WHERE status = 'DELETING'"
        unused = "SELECT 1 FROM contents WHERE status = 'UNUSED'"
        deleting = "SELECT 1 FROM contents WHERE status = 'DELETING'"
        asked = " OR ".join(f"EXISTS ({sql})" for sql in (due, busy, unused, deleting))
        return not self.ask(f"SELECT {asked}")[0][0]

    def judge(self, added: int) -> None:
        """Run the check of the example, and an independent one."""
        self.bucket.fail()
        found = json.loads(self.run("check.py"))
        assert found["wrong"] == {}
        assert found["pastes"] == {"DELETED": self.size.expired, "LIVE": self.size.live + added}
        uses = "SELECT content, count(*) FROM pastes WHERE expires_at > CURRENT_TIMESTAMP GROUP BY content"
        assert self.ask("SELECT id, uses FROM contents WHERE uses <> 0 ORDER BY id") == self.ask(f"{uses} ORDER BY content")
        named = {
            name
            for (name,) in self.ask(
                "SELECT DISTINCT object FROM contents JOIN pastes ON content = contents.id WHERE expires_at > CURRENT_TIMESTAMP"
            )
        }
        assert set(self.bucket.objects) == named
        assert self.ask("SELECT count(*) FROM contents WHERE status NOT IN ('LIVE', 'GONE')") == [(0,)]

    def _held(self, table: str) -> dict[str, int]:
        found = self.ask(f"SELECT claimed_by, count(*) FROM {table} WHERE status = 'DELETING' GROUP BY claimed_by")
        return dict(found)

    def _killed(self, worker: int) -> list[str]:
        """Return the owners under which the killed worker held rows."""
        prefixes = self._marks_of([worker])
        end(worker)
        return [owner for owner in self._holders() if owner.startswith(prefixes)]

    def _holders(self) -> list[str]:
        return [*self._held("pastes"), *self._held("contents")]

    def _held_by(self, workers: list[int], table: str) -> list[str]:
        prefixes = self._marks_of(workers)
        return [owner for owner in self._held(table) if owner.startswith(prefixes)]

    def _marks_of(self, workers: list[int]) -> tuple[str, ...]:
        """Return the prefixes of the owners of their rows: the job of the run, and its attempt."""
        running = self.ships.app.jobs.list(state="running")
        pids = {str(worker) for worker in workers}
        return tuple(f"{job.id.hex}.{job.attempt}." for job in running if job.worker and job.worker.split("-")[-2] in pids)

    def _is_unlocked(self, table: str, owners: list[str]) -> bool:
        if self.ships.url.startswith("sqlite:"):
            return True
        named = ", ".join(f"'{owner}'" for owner in owners)
        rows = f"FROM {table} WHERE status = 'DELETING' AND claimed_by IN ({named})"
        return self.ask(f"SELECT count(*) {rows}") == self.ask(
            f"SELECT count(*) FROM (SELECT {rows} FOR UPDATE SKIP LOCKED) AS free"
        )

"""The application of examples/paste_cleanup: its tables, its bucket and its workers, and how all of it is hurt and judged."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from random import Random
from typing import Any, NamedTuple

import psycopg

from holdfast.testing.servers.bucket import BucketServer
from tests.e2e.cells import end
from tests.e2e.fleet import HOLDFAST, ROOT, START, Crew, Fleet, thaw
from tests.e2e.waiting import until

EXAMPLE = ROOT / "examples" / "paste_cleanup"
LOOK = 0.1
WISHED = int(os.environ.get("E2E_PASTES", "0"))
"""Of the long run; none: there is none."""
LIMIT = 3600.0 if WISHED else 300.0
"""Seconds for a whole test, of which most are for the cleaning."""


class Size(NamedTuple):
    """How much there is to clean, in batches of how many, each of which takes how many seconds longer, and after
    how many seconds the next worker is killed."""

    expired: int
    contents: int
    live: int
    batch: int
    pace: float = 0.1
    every: float = 1.0

    @classmethod
    def wished(cls, size: "Size") -> "Size":
        """That of ``E2E_PASTES``, if it is set: ``E2E_PASTES=1000000`` is the long run."""
        return cls(WISHED, WISHED // 10, WISHED // 100, 1000, 0.05, 2.0) if WISHED else size


class Frozen(NamedTuple):
    """Processes that sleep, and the rows that they held: of which table, and by whose name."""

    crew: Crew
    pids: list[int]
    table: str
    owners: frozenset[str]


class PasteShop:
    """One store, one bucket. Workers forget what they hold after three seconds, and have a lease of their own for longer: who is
    frozen for more than that wakes up as the owner of its job, and not of its rows."""

    def __init__(self, ships: Fleet, bucket: BucketServer, size: Size) -> None:
        self.ships, self.bucket, self.size = ships, bucket, size
        ships.target = "app:app"
        path = f"{EXAMPLE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
        ships.environment |= {
            "PYTHONPATH": path,
            "PASTES_URL": ships.url,
            "PASTES_BUCKET": bucket.url,
            "PASTES_CACHE": str(ships.folder / "cache"),
            "PASTES_STALE_AFTER": "3s",
            "PASTES_TTL": "60s",
            "PASTES_BATCH": str(size.batch),
            "PASTES_PACE": str(size.pace),
        }
        self._chance = Random(0)

    def fill(self) -> None:
        """Tables, rows, objects and indexes, as the README says."""
        size = self.size
        self.run("fill.py", "--expired", str(size.expired), "--contents", str(size.contents), "--live", str(size.live))
        self.ships.app.migrate()
        self.run(*HOLDFAST, "rows", "indexes", "--app", "app:app", "--create")

    def run(self, *words: str, code: int = 0) -> str:
        """A script of the example, or any other command of Python's; what it says."""
        words = (str(EXAMPLE / words[0]), *words[1:]) if words[0].endswith(".py") else words
        environment = {**os.environ, **self.ships.environment}
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Beside everybody else."""
        if self.ships.url.startswith("sqlite:"):
            with closing(sqlite3.connect(self.ships.url.removeprefix("sqlite:///"), timeout=30)) as connection:
                return connection.execute(sql).fetchall()
        with psycopg.connect(self.ships.url) as session:
            return session.execute(sql).fetchall()

    def freeze_a_crew_that_holds(self, table: str) -> Frozen:
        """A supervisor and its worker, both, and nobody is inside a transaction: the server would keep their locks for as long."""
        crew = self.ships.crew()
        while True:
            until(lambda: self._held(table), within=START)
            pids = crew.freeze_outside_of_writes()
            held, free = self._held(table), self._unlocked(table)
            if held and free == sum(held.values()):
                return Frozen(crew, pids, table, frozenset(held))
            thaw(pids)

    def is_replaced(self, frozen: Frozen) -> bool:
        """Whether others have all rows that it held, or had them."""
        return not self._held(frozen.table).keys() & frozen.owners

    def paste(self, content: int) -> None:
        """One more, with the text of one that is there, or was."""
        self.run("paste.py", f"This is content {content}.\n")

    def clean(self, crew: Crew, frozen: Frozen) -> int:
        """Wait until nothing is left to be done, while a worker is killed so often, new pastes come, and the frozen wake up once
        others have had their rows; how many were killed."""
        deadline, next_kill, killed, is_frozen = time.monotonic() + 0.8 * LIMIT, time.monotonic() + self.size.every, 0, True
        while is_frozen or not self.is_clean():
            assert time.monotonic() < deadline, self.ships.logs()
            if is_frozen and self.is_replaced(frozen):
                is_frozen = False
                thaw(frozen.pids)
            if time.monotonic() >= next_kill and (workers := crew.workers()):
                end(self._chance.choice(workers))
                killed += 1
                next_kill = time.monotonic() + self.size.every
                self.paste(self._chance.randrange(self.size.contents))
            time.sleep(LOOK)
        return killed

    def close(self, *crews: Crew) -> None:
        """All of them end by themselves."""
        for crew in crews:
            crew.send(signal.SIGTERM)
        assert [crew.wait(2 * START) for crew in crews] == [0] * len(crews)

    def is_clean(self) -> bool:
        """Nothing is due, and nothing in progress."""
        due = "SELECT 1 FROM pastes WHERE status = 'LIVE' AND expires_at < CURRENT_TIMESTAMP"
        busy = "SELECT 1 FROM pastes WHERE status = 'DELETING'"
        unused = "SELECT 1 FROM contents WHERE status = 'UNUSED'"
        deleting = "SELECT 1 FROM contents WHERE status = 'DELETING'"
        asked = " OR ".join(f"EXISTS ({sql})" for sql in (due, busy, unused, deleting))
        return not self.ask(f"SELECT {asked}")[0][0]

    def judge(self, added: int) -> None:
        """The example's own check, and one that knows nothing of it."""
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

    def _unlocked(self, table: str) -> int:
        lock = "" if self.ships.url.startswith("sqlite:") else "FOR UPDATE SKIP LOCKED"
        return len(self.ask(f"SELECT id FROM {table} WHERE status = 'DELETING' {lock}"))

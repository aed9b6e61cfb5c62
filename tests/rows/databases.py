"""Databases with a table of a user's, and the App that watches it: each story runs on PostgreSQL and on SQLite."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import psycopg

from holdfast._core.table_spec import TableSpec
from holdfast._ports.table import ClaimedRows, Table
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.sqlite import driver
from holdfast.rows import open_table
from holdfast.testing.contracts.scene import PROCESS

TYPES = {
    "postgres": {"stamp": "timestamptz", "long_ago": "now() - interval '3 hours'", "now": "now()"},
    "sqlite": {
        "stamp": "TEXT",
        "long_ago": "strftime('%Y-%m-%d %H:%M:%f', 'now', '-3 hours')",
        "now": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    },
}
PLAIN = {
    "key": "id",
    "status": "status",
    "pending": "NEW",
    "in_progress": "BUSY",
    "done": "GONE",
    "claimed_at": "claimed_at",
    "where": "is_due",
}
OWNED: dict[str, Any] = {"owner": "owner"}
ENDING: dict[str, Any] = {"resets": "resets", "max_resets": 2, "failed": "BAD", "reason": "reason"}

Story = Callable[[Table], Awaitable[None]]


class Ground:
    """One database. ``say`` runs a statement of another program, with the words of ``TYPES`` filled in."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind, self.place, self._closing = kind, place, AsyncExitStack()
        self.url = f"sqlite:///{place}" if kind == "sqlite" else place

    def say(self, statement: str, *values: object) -> list[Any]:
        """Run a statement and return all its rows."""
        text = statement.format(**TYPES[self.kind])
        if self.kind == "sqlite":
            # By the same library: one process must not open a file by both.
            with closing(driver.connect(Path(self.place), use_apsw=driver.is_apsw())) as connection:
                connection.execute("PRAGMA busy_timeout = 5000")
                return connection.execute(text.replace("%s", "?"), values).fetchall()
        with psycopg.connect(self.place, autocommit=True) as connection:
            cursor = connection.execute(text.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def make(self, count: int = 0, *, key: str = "id int PRIMARY KEY", stamp: str = "{stamp}", more: str = "") -> None:
        """Make the table of ``PLAIN``, with rows that are due, numbered from 1."""
        self.say(
            f"CREATE TABLE pastes ({key}, status text NOT NULL, claimed_at {stamp}, owner text, resets int, reason text, "
            f"is_due bool NOT NULL DEFAULT true{more})"
        )
        self.fill(count)

    def fill(self, count: int) -> None:
        """Add more pending rows."""
        numbers = "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < %s) "
        if count:
            self.say(f"INSERT INTO pastes (id, status) {numbers} SELECT id, 'NEW' FROM n", count) if self.kind == "sqlite" else (
                self.say(f"{numbers} INSERT INTO pastes (id, status) SELECT id, 'NEW' FROM n", count)
            )

    def statuses(self) -> dict[Any, str]:
        """Return the status of each row, by its first column."""
        return dict(self.say("SELECT id, status FROM pastes ORDER BY id"))

    def age(self, *, where: str = "true") -> None:
        """Make rows in progress three hours old."""
        self.say(f"UPDATE pastes SET claimed_at = {{long_ago}} WHERE status = 'BUSY' AND {where}")

    def age_of(self, status: object) -> None:
        """Make rows of that status three hours old."""
        self.say("UPDATE pastes SET claimed_at = {long_ago} WHERE status = %s", status)

    def open(self, watch: TableSpec) -> Table:
        """Closed when the story ends."""
        table = open_table(self.url, watch, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
        self._closing.push_async_callback(table.close)
        return table

    def play(self, story: Story, **options: Any) -> None:
        """Play a story with a table that is watched with these options besides ``PLAIN``."""
        self.run(lambda: story(self.open(watch(**options))))

    def run(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run it in an event loop."""

        async def acting() -> None:
            async with self._closing:
                await act()

        asyncio.run(acting())


def watch(table: str = "pastes", /, **options: Any) -> TableSpec:
    """Make the spec of ``PLAIN`` and these options."""
    return TableSpec.of(options.pop("table", table), **{**PLAIN, **options})


def keys(claimed: ClaimedRows | Sequence[dict[str, Any]], name: str = "id") -> list[tuple[Any, ...]]:
    """Return the keys of rows of one key column."""
    rows = claimed.rows if isinstance(claimed, ClaimedRows) else claimed
    return [(row[name],) for row in rows]


def file_in(folder: Path) -> Ground:
    """Make a SQLite file in the folder."""
    path = folder / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    return Ground("sqlite", str(path))

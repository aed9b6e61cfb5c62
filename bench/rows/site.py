"""A database with a user's table, on PostgreSQL or SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg

from bench.peers import Place

WORDS = {
    "postgres": {"int": "bigint", "stamp": "timestamptz", "now": "now()"},
    "sqlite": {"int": "INTEGER", "stamp": "TEXT", "now": "strftime('%Y-%m-%d %H:%M:%f', 'now')"},
}


class Site:
    """``say`` runs a statement with the words of ``WORDS`` put in; ``?`` is a value's place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.kind = "postgres" if place.url else "sqlite"
        path = place.file(".db").absolute()
        self.url = place.url or f"sqlite:///{path}"
        self._connection: Any
        if self.kind == "postgres":
            self._connection = psycopg.connect(place.url, autocommit=True)
        else:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=30, cached_statements=0)
            self._connection.execute("PRAGMA journal_mode = WAL")

    def say(self, statement: str, *values: object) -> list[Any]:
        """Run a statement and return all its rows."""
        text = statement.format(**WORDS[self.kind])
        if self.kind == "postgres":
            text = text.replace("%", "%%").replace("?", "%s") if values else text
        cursor = self._connection.execute(text, values or (() if self.kind == "sqlite" else None))
        return list(cursor.fetchall()) if cursor.description else []

    def tidy(self) -> None:
        """Clean up after the filling, so that no contestant pays for it; statistics are fresh."""
        self.say("VACUUM (ANALYZE)" if self.kind == "postgres" else "ANALYZE")
        self.checkpoint()

    def checkpoint(self) -> None:
        """Return once what was written before has reached the disk."""
        self.say("CHECKPOINT" if self.kind == "postgres" else "PRAGMA wal_checkpoint(TRUNCATE)")

    def server(self) -> int | None:
        """Return the process of which all others of the server are children; a file has none."""
        if self.kind != "postgres":
            return None
        ((data,),) = self.say("SHOW data_directory")
        return int((Path(data) / "postmaster.pid").read_text().splitlines()[0])

    def close(self) -> None:
        """Close the connection to it."""
        self._connection.close()

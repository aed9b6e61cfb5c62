"""An App that watches a table, for a dashboard in another process. ``WATCHED_URL``: its store, a SQLite file that also has the table."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast import App

app = App(os.environ.get("WATCHED_URL", "sqlite:///jobs.db"))
app.rows("pastes", key="id", status="status", claimed_at="taken_at", where="1", pending="LIVE", in_progress="TAKEN", done="GONE")


def add_table(folder: Path) -> None:
    """Add the table, with one row that a worker has had for years."""
    with closing(sqlite3.connect(folder / "jobs.db")) as connection, connection:
        connection.execute("CREATE TABLE pastes (id INTEGER PRIMARY KEY, status TEXT, taken_at TEXT)")
        rows = [("LIVE", None), ("TAKEN", "2020-01-01 00:00:00"), ("GONE", None)]
        connection.executemany("INSERT INTO pastes (status, taken_at) VALUES (?, ?)", rows)

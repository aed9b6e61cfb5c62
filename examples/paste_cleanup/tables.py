"""The two tables, in PostgreSQL or SQLite, and the statements about them."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

URL = os.environ.get("PASTES_URL", "sqlite:///pastes.db")
IS_SQLITE = URL.startswith("sqlite:")

# One row for each object; the name of an object is never given again. `uses`: how many pastes that are not deleted have it.
TABLES = """
CREATE TABLE contents (
    id bigint PRIMARY KEY,
    digest text NOT NULL,
    object text NOT NULL UNIQUE,
    uses bigint NOT NULL CHECK (uses >= 0),
    status text NOT NULL CHECK (status IN ('LIVE', 'UNUSED', 'DELETING', 'GONE')),
    claimed_at {time},
    claimed_by text
);
CREATE UNIQUE INDEX contents_alive ON contents (digest) WHERE status = 'LIVE';
CREATE TABLE pastes (
    id bigint PRIMARY KEY,
    content bigint NOT NULL REFERENCES contents,
    expires_at {time} NOT NULL,
    status text NOT NULL CHECK (status IN ('LIVE', 'DELETING', 'DELETED')),
    claimed_at {time},
    claimed_by text
);
CREATE INDEX pastes_content ON pastes (content);
"""
COLUMNS = {"contents": ("id", "digest", "object", "uses", "status"), "pastes": ("id", "content", "expires_at", "status")}


@contextmanager
def connected() -> Iterator[Any]:
    """Open a connection of psycopg or sqlite3; what was done commits at the end."""
    if IS_SQLITE:
        with closing(sqlite3.connect(URL.removeprefix("sqlite:///"), timeout=30)) as connection, connection:
            yield connection
    else:
        import psycopg

        with psycopg.connect(URL) as session:
            yield session


def create(connection: Any) -> None:
    """Create both tables, with their indexes."""
    for statement in TABLES.format(time="text" if IS_SQLITE else "timestamptz").split(";")[:-1]:
        connection.execute(statement)


def insert(connection: Any, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Any number of rows, quickly."""
    columns = COLUMNS[table]
    named = f"{table} ({', '.join(columns)})"
    if IS_SQLITE:
        connection.executemany(f"INSERT INTO {named} VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608
        return
    with connection.cursor() as cursor, cursor.copy(f"COPY {named} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def lower_uses(connection: Any, by: Mapping[int, int]) -> None:
    """Lower each content's count of pastes; one without any is unused, for good.

    Locked in the order of their ids: two batches with the same contents wait for one another, and do not lock each other out.
    """
    ids = sorted(by)
    if IS_SQLITE:
        connection.executemany(
            "UPDATE contents SET uses = uses - ?, status = CASE uses WHEN ? THEN 'UNUSED' ELSE status END WHERE id = ?",
            [(by[content], by[content], content) for content in ids],
        )
        return
    connection.execute("SELECT FROM contents WHERE id = ANY(%s) ORDER BY id FOR UPDATE", (ids,))
    connection.execute(
        "UPDATE contents SET uses = uses - gone.number, status = CASE uses WHEN gone.number THEN 'UNUSED' ELSE status END "
        "FROM unnest(%s::bigint[], %s::bigint[]) AS gone (id, number) WHERE contents.id = gone.id",
        (ids, [by[content] for content in ids]),
    )

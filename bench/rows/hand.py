"""``python -m bench.rows.hand URL [counted]``: the loop that one writes by hand. If it dies, its rows stay in progress indefinitely;
if it wakes up late, it finishes rows that another worker has by now."""

from __future__ import annotations

import asyncio
import sqlite3
import sys

import asyncpg

from bench.rows.tasks import COUNT

# At its best: joined with what is due, or planned by statistics of another hour, it takes three times as long and more.
POSTGRES_CLAIM = """
UPDATE pastes SET status = 'DELETING', claimed_at = now()
WHERE id = ANY(ARRAY(SELECT id FROM pastes WHERE status = 'LIVE' AND expires_at < now() LIMIT 1000 FOR UPDATE SKIP LOCKED))
RETURNING *
"""
POSTGRES_SETTINGS = {"enable_seqscan": "off", "enable_bitmapscan": "off", "jit": "off", "plan_cache_mode": "force_custom_plan"}
POSTGRES_DONE = "UPDATE pastes SET status = 'DELETED' WHERE id = ANY($1::bigint[])"
SQLITE_CLAIM = """
UPDATE pastes SET status = 'DELETING', claimed_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE id IN (SELECT id FROM pastes WHERE status = 'LIVE' AND expires_at < CURRENT_TIMESTAMP LIMIT 1000) AND status = 'LIVE'
RETURNING *
"""
SQLITE_DONE = "UPDATE pastes SET status = 'DELETED' WHERE id IN ({})"


async def on_postgres(url: str, *, is_counted: bool) -> None:
    """Work on one connection: claim, finish, and so on until nothing is due."""
    connection = await asyncpg.connect(url, server_settings=POSTGRES_SETTINGS)
    while rows := [dict(row) for row in await connection.fetch(POSTGRES_CLAIM)]:
        keys = [row["id"] for row in rows]
        if is_counted:
            async with connection.transaction():
                await connection.execute(POSTGRES_DONE, keys)
                await connection.execute(COUNT, len(keys))
        else:
            await connection.execute(POSTGRES_DONE, keys)
    await connection.close()


def on_sqlite(path: str, *, is_counted: bool) -> None:
    """Work on a file: the same, without an event loop that must not stand still."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("PRAGMA synchronous = FULL")
    connection.row_factory = sqlite3.Row
    while rows := [dict(row) for row in connection.execute(SQLITE_CLAIM).fetchall()]:
        keys = [row["id"] for row in rows]
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SQLITE_DONE.format(", ".join("?" * len(keys))), keys)
        if is_counted:
            connection.execute(COUNT.replace("$1", "?"), (len(keys),))
        connection.execute("COMMIT")
    connection.close()


if __name__ == "__main__":
    url, is_counted = sys.argv[1], sys.argv[2:] == ["counted"]
    if url.startswith("sqlite:"):
        on_sqlite(url.removeprefix("sqlite:///"), is_counted=is_counted)
    else:
        asyncio.run(on_postgres(url, is_counted=is_counted))

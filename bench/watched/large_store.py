"""A store on PostgreSQL with millions of finished jobs, copied by SQL from a few that really ran."""

from __future__ import annotations

from datetime import timedelta

import asyncpg

from bench.watched.tasks import define
from holdfast import App

FAILURES = 50
"""How many failures there are that differ."""
_MOVED = {"created_at", "available_at", "claimed_at", "started_at", "finished_at"}
_COLUMNS = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = 'holdfast.finished'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
_ID = """(
    lpad(to_hex((extract(epoch FROM job.created_at - number * $3::interval) * 1000)::bigint), 12, '0')
    || '7' || substr(md5(number::text), 1, 3) || '8' || substr(md5($1::text || number::text), 1, 15)
)::uuid"""
_COPY = """
INSERT INTO holdfast.finished ({columns})
SELECT {values}
FROM (SELECT *, row_number() OVER (ORDER BY id) AS place, count(*) OVER () AS places FROM holdfast.finished WHERE state = $1) AS job
JOIN generate_series(1, $2::bigint) AS number ON number % job.places = job.place - 1
"""


async def furnish(url: str, completed: int, failed: int, seconds: float) -> None:
    """Fill an empty store. ``seconds``: the finished jobs ended within that time."""
    app = App(url)
    await app.amigrate()
    await define(app)["nothing"].aenqueue_many([{"number": number} for number in range(10)])
    for number in range(FAILURES):
        await app.aenqueue("broken", number=number)
    await app.arun_due()
    await app.aclose()
    connection = await asyncpg.connect(url)
    columns = [row["attname"] for row in await connection.fetch(_COLUMNS)]
    statement = _COPY.format(columns=", ".join(columns), values=", ".join(_value(each) for each in columns))
    for state, count in (("completed", completed), ("failed", failed)):
        await connection.execute(statement, state, count, timedelta(seconds=seconds / count))
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


def _value(column: str) -> str:
    if column == "id":
        return _ID
    return f"job.{column} - number * $3::interval" if column in _MOVED else f"job.{column}"

"""Partitions by the day on which their rows may be deleted: made ahead, and dropped when their day has passed.

A row of a day without a partition goes to the table whose rows are deleted one by one, so nothing fails when this runs late. Neither
making nor dropping a partition blocks other sessions: see ``make_partitions`` in the schema, and DETACH CONCURRENTLY here.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Final

import asyncpg
from asyncpg import Connection

from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.records import Row

AHEAD: Final = 9
"""The number of days for which partitions are made; ``make_partitions`` has the same number."""

_TIMEOUT = "60s"
_MOST_COUNTED: Final = 1_000_000  # counting more would take longer than dropping them

_IN_THE_WAY: Final = (
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.ObjectInUseError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.UndefinedTableError,
    asyncpg.DeadlockDetectedError,
)


class Partitions(StoreDatabase):
    """The part of the store that prunes whole days."""

    async def _tidy_partitions(self, today: date, passed: date, last: date | None, limit: int) -> tuple[int, int]:
        """Make missing partitions and drop past ones, as far as locks allow; return how many jobs and attempts were deleted."""
        if last is None or not AHEAD <= (last - today).days <= AHEAD + 1:
            await self._fetch("make_partitions", today)
        found = await self._fetch("past_partitions", self._schema, passed)
        if not found:
            return 0, 0
        is_ours = all(row["is_ours"] for row in found)
        ((jobs, attempts),) = await self._fetch("empty_partitions", passed, limit, not is_ours)
        if is_ours and jobs < limit:
            jobs += await self._drop(found)
        return jobs, attempts

    async def _drop(self, found: Sequence[Row]) -> int:
        """Drop past partitions and return how many jobs they had; stop for now if another pruner or a long transaction blocks it."""
        dropped, newest = 0, max(row["day"] for row in found)
        # DETACH CONCURRENTLY runs two transactions, and waits between them for the sessions that still see the partition.
        async with self._own_connection(is_checked=True, statement_timeout=_TIMEOUT, lock_timeout=_TIMEOUT) as connection:
            await connection.execute(
                self._placed("UPDATE holdfast.partition_days SET first = greatest(first, $1::date + 1)"), newest
            )
            with suppress(*_IN_THE_WAY):
                for row in found:
                    dropped += await self._drop_one(connection, row)
        return dropped

    async def _drop_one(self, connection: Connection, row: Row) -> int:
        name, parent, number = row["name"], "finished" if row["is_finished"] else "attempts", 0
        if row["is_finished"]:
            counted = f"SELECT count(*) FROM (SELECT FROM holdfast.{name} LIMIT {_MOST_COUNTED}) AS counted"  # noqa: S608 - ours
            number = await connection.fetchval(self._placed(counted))
        if row["is_attached"]:
            how = "FINALIZE" if row["is_pending"] else "CONCURRENTLY"
            await connection.execute(self._placed(f"ALTER TABLE holdfast.{parent} DETACH PARTITION holdfast.{name} {how}"))
        async with connection.transaction(isolation="read_committed"):
            if row["is_finished"]:  # rows that were locked while the other jobs' long payloads were deleted
                long = f"SELECT id FROM holdfast.{name} WHERE payload IS NULL"  # noqa: S608 - ours
                await connection.execute(self._placed(f"DELETE FROM holdfast.payloads WHERE job = ANY (ARRAY({long}))"))  # noqa: S608
                for table in ("steps", "signals"):  # no index finds the few jobs that have some, so one join looks at all
                    theirs = f"DELETE FROM holdfast.{table} AS kept USING holdfast.{name} AS over WHERE kept.job = over.id"  # noqa: S608
                    await connection.execute(self._placed(theirs))
            await connection.execute(self._placed(f"DROP TABLE holdfast.{name}"))
        return int(number)

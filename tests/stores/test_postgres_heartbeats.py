"""A beat costs a worker one statement and one row for any number of running jobs."""

from uuid import UUID

import psycopg
from asyncpg.connection import LoggedQuery

from holdfast.testing.contracts.scene import Scene, play
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_faulty_databases import Site

RUNNING, MARKED = 10_000, 3
FEW_BYTES = 64 * 1024
"""Bytes of the write-ahead log: other processes write, too, but less than a row for each job would be."""

_SEED = """
INSERT INTO holdfast.active (
    id, claim_id, claim_number, lease, worker, task, queue, priority, state, cancel_requested, attempt, failures, crashes, created_at,
    available_at, claimed_at, started_at, policy, payload
)
SELECT
    gen_random_uuid(), gen_random_uuid(), n, %s, 'worker', 'task', 'default', 0, 'running', n <= %s, 1, 0, 0, now(), now(),
    now(), now(), '{}', convert_to('{}', 'UTF8')
FROM generate_series(1, %s) AS series (n)
"""
_WRITTEN = "SELECT pg_current_wal_insert_lsn() - '0/0'"


def written(looking: psycopg.Connection) -> int:
    found = looking.execute(_WRITTEN).fetchone()
    assert found is not None
    return int(found[0])


def test_a_beat_of_ten_thousand_running_jobs_is_one_statement_and_writes_one_row(database: str) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        with psycopg.connect(database, autocommit=True) as looking:
            looking.execute(_SEED, (lease, MARKED, RUNNING))
            looking.execute("ANALYZE holdfast.active")
            await at.store.beat([lease])
            statements = list[str]()
            (link,) = at.store._here().beats._free  # type: ignore[attr-defined]

            def note(query: LoggedQuery) -> None:
                statements.append(query.query)

            link.add_query_logger(note)
            before = written(looking)
            answer = await at.store.beat([lease])
            assert written(looking) - before < FEW_BYTES
        await eventually(lambda: statements, within=STALL)
        assert len(statements) == 1
        assert answer.alive == {lease}
        marked: tuple[UUID, ...] = answer.cancelled[lease]
        assert len(set(marked)) == MARKED

    play(Site(database), act)

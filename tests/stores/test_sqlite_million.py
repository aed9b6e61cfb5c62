"""A million jobs of an unknown task precede one job that a worker can run."""

from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast._system.clock import SystemClock
from holdfast.databases.sqlite import driver
from holdfast.testing.contracts.scene import Scene, play
from tests.stores.support import OnFile

MANY = 1_000_000
SOON = 0.05
"""Seconds that one query may take, the fastest of several: a busy machine must not count as a slow query."""
SEED = """
INSERT INTO holdfast_jobs (id, task, queue, priority, state, created_at, available_at, policy, payload)
WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < ?)
SELECT CAST(printf('%016d', n) AS BLOB), 'unknown', 'default', -9, 'available', n, n, '{}', x'7b7d' FROM many
"""


def seed(path: Path) -> None:
    with closing(driver.connect(path, use_apsw=driver.is_apsw())) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(SEED, (MANY,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@pytest.mark.prove
def test_l4_a_known_job_behind_a_million_of_an_unknown_task_is_found_and_taken_at_once(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        await at.enqueue()
        seed(tmp_path / "jobs.db")
        jobs = await at.enqueue(*(at.new() for _ in range(5)))
        took: dict[str, list[float]] = {"next due": [], "claim": [], "empty claim": [], "enqueue": []}
        clock = SystemClock()

        async def timed(what: str, act: Coroutine[Any, Any, Any]) -> Any:
            began = clock.monotonic()
            answer = await act
            took[what].append(clock.monotonic() - began)
            return answer

        for job in jobs:
            assert await timed("next due", at.store.next_due(["task"])) == 0.0
            (claim,) = await timed("claim", at.claim(lease, 1))
            assert claim.job.id == job
        for _ in range(5):
            assert await timed("empty claim", at.claim(lease, 1)) == ()
            await timed("enqueue", at.enqueue(at.new(delay=1000.0)))
        assert max(min(seconds) for seconds in took.values()) < SOON, took

    play(OnFile(tmp_path / "jobs.db"), act)

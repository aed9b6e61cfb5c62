"""Behind a backlog: a job that was cut short is the next one claimed, in real processes, on a file and on a server."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.fleet import START, fleet
from tests.e2e.waiting import STALL, until

WAITING, SLOTS = 5000, 3


async def wait(gate: str) -> str:
    """Stand for the task of the same name that the workers import."""
    return gate


@pytest.mark.timeout(120)
def test_l10_jobs_of_a_killed_or_drained_worker_run_again_before_the_backlog(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, ttl="30s", recovery="5s", grace="0s") as ships:
        jobs = [ships.enqueue("wait", gate="first") for _ in range(SLOTS)]
        ships.app.task(wait).enqueue_many([{"gate": "later"}] * WAITING)
        crew = ships.crew("--concurrency", str(SLOTS))
        pids = {ships.entry(job, "start")["pid"] for job in jobs}
        assert pids == set(crew.workers())
        killed = time.monotonic()
        os.kill(pids.pop(), signal.SIGKILL)
        again = [ships.entry(job, "start", number=2) for job in jobs]
        assert max(each["time"] for each in again) - killed <= STALL
        crew.send(signal.SIGTERM)
        crew.wait(START)
        assert {ships.view(job).state for job in jobs} == {"available"}
        ships.crew("--concurrency", str(SLOTS))
        for job in jobs:
            ships.entry(job, "start", number=3)
        assert {each["job"] for each in ships.journal.read()} == {str(job) for job in jobs}, "nothing of the backlog has begun"
        ships.open("first")
        for job in jobs:
            ships.until_state(job, "completed", within=START)
        until(lambda: len({each["job"] for each in ships.journal.read()}) == 2 * SLOTS, within=START)

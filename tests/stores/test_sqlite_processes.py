"""Several processes on one file: forked, concurrent, killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast._core.job import State
from holdfast._core.requests import JobFilter
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance
from holdfast.testing.contracts.scene import PROCESS
from tests.stores.support import new_job, sql, store_on

WORK = """
import asyncio, json, sys
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast._ports.store import ClaimRequest, NewLease
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.contracts.scene import PROCESS

async def main() -> None:
    chance = SystemRandomness()
    # A disk that stalls under load is not what is tried here.
    store = SqliteStore(sys.argv[1], clock=SystemClock(), chance=chance, process=PROCESS, busy_limit=50.0)
    lease = NewLease(chance.uuid4(), "w", PROCESS, LeaseTiming.of(60))
    await store.open_lease(lease)
    print("ready", flush=True)
    sys.stdin.readline()
    done, moves = [], []
    while True:
        request = ClaimRequest(lease=lease.id, claim=chance.uuid4(), tasks={"task": Policy()}, limit=7)
        answer = await store.exchange(moves, request)
        done += [[move.job.hex, move.token.number, said] for move, said in zip(moves, answer.answers)]
        moves = [finish(claim.job, Done(), jitter=0.0) for claim in answer.claims]
        if not moves:
            break
    await store.close()
    print(json.dumps(done), flush=True)

asyncio.run(main())
"""


def worker(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, str(path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def system_store(path: Path) -> SqliteStore:
    return SqliteStore(path, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS, busy_limit=50.0)


async def fill(path: Path, count: int) -> None:
    store, chance = system_store(path), SystemRandomness()
    await store.enqueue(chance.uuid4(), [new_job(chance) for _ in range(count)])
    await store.close()


def test_processes_share_the_jobs_without_doubles(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    asyncio.run(fill(path, 600))
    children = [worker(path) for _ in range(3)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    done = [entry for child in children for entry in json.loads(child.communicate()[0])]
    assert {answer for _, _, answer in done} == {"applied"}
    assert len({job for job, _, _ in done}) == len({number for _, number, _ in done}) == len(done) == 600


def test_a_process_killed_in_the_midst_leaves_every_job_in_one_place(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    asyncio.run(fill(path, 3000))
    child = worker(path)
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()
    while sql(path, "SELECT count(*) FROM holdfast_jobs WHERE state = 'completed'")[0][0] < 50:
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.communicate()

    async def look() -> None:
        store = system_store(path)
        counts = await store.counts()
        assert sum(counts.values()) == 3000
        assert counts.get(("", State.RUNNING), 0) <= 7
        (lease,) = await store.workers()
        assert len(await store.held(lease.id)) == counts.get(("", State.RUNNING), 0)
        numbers = [row.token.number for row in await store.list(JobFilter(limit=5000)) if row.token.claim is not None]
        assert len(numbers) == len(set(numbers))
        assert sql(path, "SELECT claim_number FROM holdfast_sequence")[0][0] == max(numbers)
        assert not [finding for finding in await store.check() if finding.level == "error"]
        await store.close()

    asyncio.run(look())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_opens_its_own_connection_and_its_parent_keeps_working(tmp_path: Path) -> None:
    path, chance = tmp_path / "jobs.db", FakeChance()
    store = store_on(path)
    with asyncio.Runner() as runner:
        runner.run(store.enqueue(chance.uuid4(), [new_job(chance)]))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with asyncio.Runner() as runner:
                runner.run(store.enqueue(FakeChance(7).uuid4(), [new_job(FakeChance(8))]))
                runner.run(store.close())
                runner.run(store.close())
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    with asyncio.Runner() as runner:
        runner.run(store.enqueue(chance.uuid4(), [new_job(chance)]))
        assert runner.run(store.counts()) == {("", State.AVAILABLE): 3}
        runner.run(store.close())


def test_a_store_survives_the_end_of_its_event_loop(tmp_path: Path) -> None:
    store, chance = store_on(tmp_path / "jobs.db"), FakeChance()
    for number in range(3):
        asyncio.run(store.enqueue(chance.uuid4(), [new_job(chance)]))
        assert asyncio.run(store.counts()) == {("", State.AVAILABLE): number + 1}
    asyncio.run(store.close())

"""A hook's rows and the change that completes the hook are one commit, in one file."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest
from msgspec import structs

from holdfast._core.job import Json, RescueReason, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._ports.store import Store
from holdfast.databases.sqlite import driver
from holdfast.errors import HoldfastError, JobLost
from holdfast.stores.sqlite.database import QUERIES, StoreDatabase
from holdfast.testing.contracts.scene import Scene, done, play, rescued, stale
from tests.stores.support import inside, sql
from tests.stores.test_sqlite_transactions import (
    LONG,
    SHORT,
    OnFile,
    ThirdWait,
    file,  # noqa: F401 - fixture
    notes,
    plain,  # noqa: F401 - fixture
    write,
)

CRASH = LeaseEnd(RescueReason.CRASHED)
ENDS_AT_ONCE = Policy(has_rescue_hook=True, on_crash=CrashPolicy.FAIL)


async def crashed(at: Scene, policy: Policy = ENDS_AT_ONCE) -> JobRecord:
    """Return a job whose hook is owed."""
    active = await at.running(policy=policy)
    await at.store.end_lease(active.lease, CRASH)
    await at.settle(rescued(active, CRASH))
    return await at.row(active.id)


def run_hook_blocking(at: Scene, row: JobRecord, text: str) -> None:
    with at.store.blocking_transaction(row.id, row.token, idle=LONG, hook_due_at=row.hook_due_at) as connection:
        write(connection, text)


async def run_hook(store: Store, row: JobRecord, text: str) -> None:
    async with store.transaction(row.id, row.token, idle=LONG, hook_due_at=row.hook_due_at) as connection:
        write(connection, text)


async def overstay(store: Store, row: JobRecord) -> None:
    async with store.transaction(row.id, row.token, idle=SHORT, hook_due_at=row.hook_due_at) as connection:
        write(connection)
        while connection.in_transaction:
            await asyncio.to_thread(lambda: None)


def test_the_rows_land_once_in_the_commit_that_completes_the_hook(file: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        first, second = await crashed(at), await crashed(at)
        await run_hook(at.store, first, "first")
        await asyncio.to_thread(run_hook_blocking, at, second, "second")
        for row in (first, second):
            assert (await at.row(row.id)).hook_due_at is None
            with pytest.raises(JobLost):
                await run_hook(at.store, row, "again")
        assert notes(file) == ["first", "second"]

    play(file, act)


def test_of_two_concurrent_runs_of_a_hook_one_commits(file: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        row, loop, waits = await crashed(at), asyncio.get_running_loop(), asyncio.Event()
        other = file.store_that_waits(at.clock, LONG, ThirdWait(lambda: loop.call_soon_threadsafe(waits.set)))
        async with at.store.transaction(row.id, row.token, idle=LONG, hook_due_at=row.hook_due_at) as connection:
            write(connection, "slow")
            late = asyncio.ensure_future(run_hook(other, row, "late"))
            await waits.wait()  # it has found the hook due, and waits for the lock
        with pytest.raises(JobLost):
            await late
        assert notes(file) == ["slow"]

    play(file, act)


def test_a_hook_that_was_offered_again_in_the_meantime_keeps_the_rows_out(file: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        row = await crashed(at)
        (offered,) = await at.store.owed_hooks(["task"], 10, pause=1.0)
        with pytest.raises(JobLost):
            await run_hook(at.store, row, "late")
        await run_hook(at.store, offered, "in time")
        assert notes(file) == ["in time"]

    play(file, act)


def test_a_token_or_a_due_time_that_does_not_match_the_job_begins_nothing(file: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        row, begun = await crashed(at), []
        assert row.hook_due_at is not None
        others = [structs.replace(row, token=token) for token in (stale(row.token), Token(None, row.token.number))]
        others += [
            structs.replace(row, hook_due_at=row.hook_due_at + timedelta(seconds=1)),
            structs.replace(row, id=at.chance.uuid7()),
        ]
        for other in others:
            with pytest.raises(JobLost):
                async with at.store.transaction(other.id, other.token, idle=LONG, hook_due_at=other.hook_due_at):
                    begun.append(other)
        assert begun == []

    play(file, act)


@pytest.mark.parametrize("move", ["claim_id = NULL", "claim_number = claim_number + 1", "hook_due_at = hook_due_at + 1"])
def test_a_job_that_moves_while_its_hook_waits_for_the_lock_keeps_the_rows_out(plain: OnFile, move: str) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        row, loop, waits = await crashed(at), asyncio.get_running_loop(), asyncio.Event()
        other = plain.store_that_waits(at.clock, LONG, ThirdWait(lambda: loop.call_soon_threadsafe(waits.set)))
        with closing(driver.connect(plain.path, use_apsw=False)) as mover:
            mover.execute("BEGIN IMMEDIATE")
            late = asyncio.ensure_future(run_hook(other, row, "late"))
            await waits.wait()  # it has found the hook due, and waits for the lock
            mover.execute(f"UPDATE holdfast_jobs SET {move} WHERE id = ?", (row.id.bytes,))
            mover.execute("COMMIT")
        with pytest.raises(JobLost):
            await late
        assert notes(plain) == []

    play(plain, act)


def test_a_hook_that_takes_too_long_is_rolled_back_and_still_owed(file: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        row = await crashed(at)
        with pytest.raises(HoldfastError, match="was rolled back"):
            await overstay(at.store, row)
        assert notes(file) == []
        assert await at.row(row.id) == row

    play(file, act)


DIES = """
import asyncio, os, signal, sys
from datetime import datetime
from uuid import UUID
from holdfast._core.job import Token
from holdfast._core.identity import ProcessIdentity
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.sqlite.store import SqliteStore

path, job, claim, number, hook_due_at = sys.argv[1:]
store = SqliteStore(path, clock=SystemClock(), chance=SystemRandomness(), process=ProcessIdentity("", 0))
token = Token(UUID(claim), int(number))
with store.blocking_transaction(UUID(job), token, idle=60.0, hook_due_at=datetime.fromisoformat(hook_due_at)) as connection:
    connection.execute("INSERT INTO notes VALUES ('dead')")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_killed_inside_a_hook_leaves_no_rows_and_the_hook_owed(plain: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        row = await crashed(at)
        assert row.hook_due_at is not None
        token = (str(row.token.claim), str(row.token.number))
        arguments = [sys.executable, "-c", DIES, str(plain.path), str(row.id), *token, row.hook_due_at.isoformat()]
        process = await asyncio.to_thread(subprocess.run, arguments, env={**os.environ})
        assert process.returncode == -signal.SIGKILL
        assert notes(plain) == []
        assert await at.row(row.id) == row
        await run_hook(at.store, row, "alive")
        assert notes(plain) == ["alive"]

    play(plain, act)


def test_unreadable_rows_keep_no_hook_of_another_job_from_running(plain: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        spoiled, row = await crashed(at), await crashed(at)
        sql(plain.path, "UPDATE holdfast_jobs SET rescue = 'x' WHERE id = ?", spoiled.id.bytes)
        found = {each.id: each.rescue for each in await at.store.owed_hooks(["task"], 10, pause=1.0)}
        assert found == {spoiled.id: None, row.id: row.rescue}
        sql(plain.path, "UPDATE holdfast_jobs SET policy = 'x' WHERE id = ?", spoiled.id.bytes)
        await run_hook(at.store, await at.row(spoiled.id), "spoiled")
        assert notes(plain) == ["spoiled"]

    play(plain, act)


CHANGES = {
    "healed": "UPDATE holdfast_jobs SET hook_due_at = NULL",
    "reopened": "UPDATE holdfast_jobs SET state = 'available'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_hook_that_completes_or_whose_job_is_reopened_is_not_offered(
    plain: OnFile,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    async def act(at: Scene) -> None:
        first, second = await crashed(at), await crashed(at)
        read = StoreDatabase.read

        def read_late(database: StoreDatabase, name: str, **values: Json) -> list[tuple[Json, ...]]:
            if name == "owed_hooks_jobs":
                sql(plain.path, f"{CHANGES[change]} WHERE id = ?", first.id.bytes)
            return read(database, name, **values)

        monkeypatch.setattr(StoreDatabase, "read", read_late)
        assert [row.id for row in await at.store.owed_hooks(["task"], 10, pause=1.0)] == [second.id]

    play(plain, act)


def test_a_search_for_owed_hooks_reads_only_those_and_writes_nothing_when_there_is_none(plain: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        for _ in range(3):
            await at.settle(done(await at.running(policy=ENDS_AT_ONCE)))
        with closing(driver.connect(plain.path, use_apsw=False)) as other:
            other.execute("BEGIN IMMEDIATE")  # a write would wait, and then fail
            assert await at.store.owed_hooks(["task"], 10, pause=1.0) == ()
            other.execute("ROLLBACK")
        plan = await inside(at.store, lambda database: _plan(database, "owed_hooks_due"))
        assert "USING INDEX holdfast_owed_hooks (task=? AND hook_due_at>? AND hook_due_at<?)" in plan

    play(plain, act)


def _plan(database: StoreDatabase, name: str) -> str:
    connection = database._open(name)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name].statement}", {"tasks": "[]", "wall": 0}).fetchall()
    return "\n".join(str(row[-1]) for row in rows)


def test_a_limit_that_a_worker_was_killed_for_is_the_reason(plain: OnFile) -> None:  # noqa: F811
    async def act(at: Scene) -> None:
        for charge in (RescueReason.UNRESPONSIVE, RescueReason.STALLED, RescueReason.TIMED_OUT):
            active = await at.running(policy=structs.replace(ENDS_AT_ONCE, max_attempts=9))
            why = LeaseEnd(RescueReason.CRASHED, is_free=True, charged_jobs={active.id: charge})
            await at.store.end_lease(active.lease, why)
            await at.settle(rescued(active, why))
            row = await at.row(active.id)
            assert row.rescue is not None
            assert row.rescue.reason is charge
            assert row.hook_due_at is not None

    play(plain, act)

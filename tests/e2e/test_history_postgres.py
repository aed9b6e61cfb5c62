"""The history of a PostgreSQL database, and that the checker sees what is wrong in it."""

import asyncio
import time
from uuid import UUID

import asyncpg
import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.postgres.store import PostgresStore
from proof.checker import history_postgres
from proof.checker.checker import Report, Rules, check
from proof.checker.history import JobRow, LeaseRow
from proof.checker.process_log import ProcessEvent

OURS = ProcessIdentity("host", 1, 1, "boot", "pid", "clock")
LEASE, JOB, CLAIM = UUID(int=1), UUID(int=2), UUID(int=3)


BACK = """
WITH gone AS (DELETE FROM holdfast.{} RETURNING *)
INSERT INTO holdfast.pending (id, task, queue, priority, available_at, created_at, claim_number, crashes, policy)
SELECT id, task, queue, priority, available_at, created_at, claim_number, {}, policy FROM gone
"""
"""A move by a statement of the test: the table it leaves, and the number of crashes."""
KEYED = """
INSERT INTO holdfast.pending (id, task, queue, priority, available_at, created_at, claim_number, policy, unique_key)
SELECT gen_random_uuid(), 'task', 'default', 0, now(), now(), 0, '{}', 'key' FROM generate_series(1, 2)
"""


def one_job(dsn: str, *, is_finished: bool) -> list[ProcessEvent]:
    """Record a job's whole life, or half of it, and return the events of its process."""
    deeds: list[ProcessEvent] = []

    def tell(what: str, token: Token | None = None) -> None:
        deeds.append(ProcessEvent(time.time(), what, OURS, JOB, token))

    async def live() -> None:
        store = PostgresStore(dsn, clock=SystemClock(), chance=SystemRandomness(), process=OURS)
        await store.enqueue(UUID(int=9), [NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())])
        tell("enqueue")
        await store.open_lease(NewLease(LEASE, "worker", OURS, LeaseTiming.of("30s")))
        await store.beat([LEASE])
        answer = await store.exchange([], ClaimRequest(lease=LEASE, claim=CLAIM, tasks={"task": Policy()}, limit=1))
        (active,) = [claim.job for claim in answer.claims]
        tell("handler.start", active.token)
        await store.report([ProgressUpdate(job=JOB, token=active.token, message=str(active.token))])
        tell("handler.end", active.token)
        if is_finished:
            await store.exchange([finish(active, Done(f'"{active.token}"'.encode()), jitter=0.0)])
            await store.end_lease(LEASE, LeaseEnd(RescueReason.CLOSED, is_free=True))
        await store.close()

    async def migrate() -> None:
        store = PostgresStore(dsn, clock=SystemClock(), chance=SystemRandomness(), process=OURS)
        await store.migrate()
        await store.close()

    asyncio.run(migrate())
    history_postgres.watch(dsn)
    asyncio.run(live())
    return deeds


def after(dsn: str, deeds: list[ProcessEvent], wrong: str) -> Report:
    """Return the report after a statement of no process has written this."""

    async def write() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(wrong)
        await connection.close()

    asyncio.run(write())
    return check(history_postgres.read(dsn, deeds), Rules())


def test_a_whole_life_is_recorded_in_order_and_breaks_nothing(postgres_dsn: str) -> None:
    history = history_postgres.read(postgres_dsn, one_job(postgres_dsn, is_finished=True))
    rows = [event.after for event in history if event.what == "job"]
    assert [row.state for row in rows if isinstance(row, JobRow)] == ["available", "running", "running", "completed"]
    leases = [event.after for event in history if isinstance(event.after, LeaseRow)]
    assert [row.is_ended for row in leases] == [False, False, True]
    assert -30 <= leases[-1].overdue < -25
    kinds = [event.what for event in history if event.what not in ("job", "lease")]
    assert kinds == ["enqueue", "handler.start", "handler.end"]
    report = check(history, Rules())
    assert not report.violations, report.explain(history)
    assert report.starts == 1


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (BACK.format("finished", 0), "S4"),
        ("DELETE FROM holdfast.finished", "S6"),
        ("UPDATE holdfast.leases SET ended_at = NULL, end_reason = NULL", "S3"),
    ],
)
def test_a_wrong_write_after_the_end_is_seen(postgres_dsn: str, wrong: str, name: str) -> None:
    deeds = one_job(postgres_dsn, is_finished=True)
    assert name in {violation.name for violation in after(postgres_dsn, deeds, wrong).violations}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("UPDATE holdfast.active SET claim_id = gen_random_uuid()", "S1"),
        ("UPDATE holdfast.active SET message = 'somebody else'", "S3"),
        (BACK.format("active", 3), "S9"),
        ("UPDATE holdfast.active SET claim_number = claim_number - 1", "S2"),
        ("DELETE FROM holdfast.active", "S6"),
        ("""UPDATE holdfast.leases SET ended_at = now(), end_reason = '{"reason": "expired"}'""", "S5"),
        ("UPDATE holdfast.active SET progress_at = now()", "L2"),
        ("UPDATE holdfast.active SET cancel_requested = true; UPDATE holdfast.active SET cancel_requested = false", "S10"),
        (KEYED, "S11"),
    ],
)
def test_a_wrong_write_to_an_active_job_is_seen(postgres_dsn: str, wrong: str, name: str) -> None:
    deeds = one_job(postgres_dsn, is_finished=False)
    assert name in {violation.name for violation in after(postgres_dsn, deeds, wrong).violations}


def test_a_write_that_was_rolled_back_is_not_recorded(postgres_dsn: str) -> None:
    deeds = one_job(postgres_dsn, is_finished=True)
    assert not after(postgres_dsn, deeds, "BEGIN; DELETE FROM holdfast.finished; ROLLBACK").violations


def test_a_death_is_recorded_between_the_events_before_and_after_it(postgres_dsn: str) -> None:
    deeds = one_job(postgres_dsn, is_finished=True)
    (started,) = [deed for deed in deeds if deed.what == "handler.start"]
    history = history_postgres.read(postgres_dsn, [*deeds, ProcessEvent(started.time + 1e-7, "process.end", OURS)])
    events = [event.what for event in history]
    assert events.index("handler.start") < events.index("process.end") < len(events) - 1
    assert State.RUNNING in {event.after.state for event in history if isinstance(event.after, JobRow)}

"""The history of a SQLite file, and that the checker sees what is wrong in it."""

import asyncio
import time
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.sqlite.store import SqliteStore
from proof.checker import history_sqlite
from proof.checker.checker import Report, Rules, check
from proof.checker.history import JobRow, LeaseRow
from proof.checker.process_log import ProcessEvent

OURS = ProcessIdentity("host", 1, 1, "boot", "pid", "clock")
LEASE, JOB, CLAIM = UUID(int=1), UUID(int=2), UUID(int=3)
RELEASED = "UPDATE holdfast_jobs SET state = 'available', claim_id = NULL, lease = NULL"
CLAIMED = """
    UPDATE holdfast_jobs SET state = 'running', claim_id = zeroblob(16), claim_number = claim_number + 1, attempt = attempt + 1,
        lease = (SELECT id FROM holdfast_leases)
"""


async def one_job(database: Path, *, is_finished: bool) -> None:
    """Record a job's whole life, or half of it."""
    store = SqliteStore(database, clock=SystemClock(), chance=SystemRandomness(), process=OURS)
    await store.migrate()
    history_sqlite.watch(database)
    await store.enqueue(UUID(int=9), [NewJob(id=JOB, task="task", payload=b"{}", policy=Policy())])
    history_sqlite.tell(database, "enqueue", JOB, None, OURS)
    await store.open_lease(NewLease(LEASE, "worker", OURS, LeaseTiming.of("30s")))
    await store.beat([LEASE])
    answer = await store.exchange([], ClaimRequest(lease=LEASE, claim=CLAIM, tasks={"task": Policy()}, limit=1))
    (active,) = [claim.job for claim in answer.claims]
    history_sqlite.tell(database, "handler.start", JOB, active.token, OURS)
    await store.report([ProgressUpdate(job=JOB, token=active.token, message=str(active.token))])
    history_sqlite.tell(database, "handler.end", JOB, active.token, OURS)
    if is_finished:
        await store.exchange([finish(active, Done(f'"{active.token}"'.encode()), jitter=0.0)])
        await store.end_lease(LEASE, LeaseEnd(RescueReason.CLOSED, is_free=True))
    await store.close()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    asyncio.run(one_job(tmp_path / "jobs.db", is_finished=True))
    return tmp_path / "jobs.db"


def after(database: Path, wrong: str) -> Report:
    """Return the report after a statement of no process has written this."""
    with history_sqlite.opened(database) as connection:
        for statement in wrong.split(";"):
            connection.execute(statement)
    return check(history_sqlite.read(database), Rules())


def test_a_whole_life_is_recorded_in_order_and_breaks_nothing(database: Path) -> None:
    history = history_sqlite.read(database)
    rows = [event.after for event in history if event.what == "job"]
    assert [row.state for row in rows if isinstance(row, JobRow)] == ["available", "running", "running", "completed"]
    leases = [event.after for event in history if isinstance(event.after, LeaseRow)]
    assert [row.is_ended for row in leases] == [False, False, True]
    assert -30 <= leases[-1].overdue < -25
    deeds = [event.what for event in history if event.what not in ("job", "lease")]
    assert deeds == ["enqueue", "handler.start", "handler.end"]
    report = check(history, Rules())
    assert not report.violations, report.explain(history)
    assert report.starts == 1


def test_events_before_and_after_all_writes_are_recorded_in_order(database: Path) -> None:
    early, late = ProcessEvent(1.0, "process.freeze", OURS), ProcessEvent(time.time() + 60, "process.end", OURS)
    events = list(history_sqlite.read(database, [late, early]))
    assert [events[0].what, events[-1].what] == ["process.freeze", "process.end"]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("UPDATE holdfast_jobs SET state = 'available', claim_id = NULL", "S4"),
        ("DELETE FROM holdfast_jobs", "S6"),
        ("UPDATE holdfast_leases SET ended_at = NULL, end_reason = NULL", "S3"),
    ],
)
def test_a_wrong_write_after_the_end_is_seen(database: Path, wrong: str, name: str) -> None:
    assert name in {violation.name for violation in after(database, wrong).violations}


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("UPDATE holdfast_jobs SET claim_id = zeroblob(16)", "S1"),
        ("UPDATE holdfast_jobs SET message = 'somebody else'", "S3"),
        ("UPDATE holdfast_jobs SET state = 'completed', result = '\"somebody else\"'", "S13"),
        ("UPDATE holdfast_jobs SET claim_number = claim_number - 1", "S2"),
        ("UPDATE holdfast_jobs SET state = 'available', claim_id = NULL, lease = NULL, crashes = 3", "S9"),
        ('UPDATE holdfast_leases SET ended_at = 1, end_reason = \'{"reason": "expired"}\'', "S5"),
        ("UPDATE holdfast_jobs SET progress_at = 1", "L2"),
        ("UPDATE holdfast_jobs SET cancel_requested = 1; UPDATE holdfast_jobs SET cancel_requested = 0", "S10"),
        (f"UPDATE holdfast_jobs SET cancel_requested = 1; {RELEASED}", "S10"),
        (f"{RELEASED}; INSERT INTO holdfast_queues (queue, paused_at) VALUES ('default', 1); {CLAIMED}", "S1"),
        (f"""UPDATE holdfast_leases SET tasks = '["another"]'; {RELEASED}; {CLAIMED}""", "S16"),
        (f"""{RELEASED}; {CLAIMED}; UPDATE holdfast_jobs SET state = 'completed', result = '"' || message || '"'""", "S3"),
    ],
)
def test_a_wrong_write_to_an_active_job_is_seen(tmp_path: Path, wrong: str, name: str) -> None:
    asyncio.run(one_job(tmp_path / "jobs.db", is_finished=False))
    assert name in {violation.name for violation in after(tmp_path / "jobs.db", wrong).violations}


def test_permitted_writes_are_not_reported(tmp_path: Path) -> None:
    asyncio.run(one_job(tmp_path / "jobs.db", is_finished=False))
    marked = "UPDATE holdfast_jobs SET cancel_requested = 1; UPDATE holdfast_jobs SET state = 'cancelled', lease = NULL"
    paused = "INSERT INTO holdfast_queues (queue, paused_at) VALUES ('default', 1); DELETE FROM holdfast_queues"
    again = "INSERT INTO holdfast_queues (queue) VALUES ('default'); UPDATE holdfast_queues SET paused_at = 1"
    paused = f"{paused}; {again}; UPDATE holdfast_queues SET paused_at = NULL"
    allowed = f"{RELEASED}; {paused}; {CLAIMED}; {marked}"
    report = after(tmp_path / "jobs.db", allowed)
    assert not report.violations, report.explain(history_sqlite.read(tmp_path / "jobs.db"))


def test_two_unfinished_jobs_with_one_key_are_seen(tmp_path: Path) -> None:
    asyncio.run(one_job(tmp_path / "jobs.db", is_finished=False))
    columns = "task, queue, priority, state, created_at, available_at, policy, unique_key"
    values = "SELECT randomblob(16), 'task', 'default', 0, 'available', 1, 1, '{}', 'key'"
    twice = f"INSERT INTO holdfast_jobs (id, {columns}) {values}"
    assert not after(tmp_path / "jobs.db", f"DROP INDEX holdfast_unique_keys; {twice}; {twice}").verdict("S11")


def test_a_death_is_recorded_before_the_events_that_followed_it(tmp_path: Path) -> None:
    asyncio.run(one_job(tmp_path / "jobs.db", is_finished=True))
    with history_sqlite.opened(tmp_path / "jobs.db") as connection:
        (claimed,) = connection.execute("SELECT time FROM history WHERE what = 'handler.start'").fetchone()
    history = history_sqlite.read(tmp_path / "jobs.db", [history_sqlite.ProcessEvent(claimed, "process.end", OURS)])
    events = [event.what for event in history]
    assert events.index("process.end") > events.index("handler.start")
    assert events.index("process.end") < len(events) - 1
    assert State.RUNNING in {event.after.state for event in history if isinstance(event.after, JobRow)}

"""The history of real processes on one SQLite file: triggers write down what really happened to each row.

The log lives in the same file, so rows and what handlers write themselves are in one order: that of their commits.
A process that is killed or frozen writes nothing; the process that did it reports that to ``read``.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.driver import Connection
from proof.checker.history import By, Event, History, JobRow, LeaseRow, Phase, label, token_in
from proof.checker.process_log import CALLS, ProcessEvent

BUSY_TIMEOUT = 30.0
CLOCK_ERROR = 0.005
"""Seconds by which two readings of SQLite's wall clock, which counts milliseconds, may be wrong."""

_JOB = """json_object(
    'state', {0}.state, 'claim_id', hex({0}.claim_id), 'claim_number', {0}.claim_number, 'lease', hex({0}.lease), 'attempt', {0}.attempt,
    'failures', {0}.failures, 'crashes', {0}.crashes, 'policy', json({0}.policy), 'cancel_requested', {0}.cancel_requested,
    'message', {0}.message, 'result', CAST({0}.result AS TEXT), 'task', {0}.task, 'queue', {0}.queue, 'key', {0}.unique_key,
    'reason', {0}.reason, 'awaits', {0}.awaits, 'available_at', {0}.available_at, 'expires_at', {0}.expires_at,
    'terms', json_extract({0}.extra, '$.unique'), 'created_at', {0}.created_at
)"""
_LEASE = """json_object(
    'worker', {0}.worker, 'process', json({0}.process), 'timing', json({0}.timing),
    'left', ({0}.expires_at - {0}.renewed_at) / 1e6, 'expires_at', {0}.expires_at, 'end_reason', json({0}.end_reason),
    'tasks', json({0}.tasks), 'is_draining', {0}.is_draining, 'is_isolated', {0}.is_isolated, 'grace', {0}.grace / 1e6, 'slots', {0}.slots
)"""
_NOW = "(julianday('now') - 2440587.5) * 86400.0"


@contextmanager
def opened(database: str | PathLike[str], timeout: float = BUSY_TIMEOUT) -> Iterator[Connection]:
    """Open a connection by the library that the store uses: two libraries in one process would destroy the file."""
    connection = driver.connect(Path(database), use_apsw=driver.is_apsw())
    try:
        connection.execute(f"PRAGMA busy_timeout = {round(timeout * 1000)}")
        yield connection
    finally:
        connection.close()


def watch(database: str | PathLike[str]) -> None:
    """Install the log and its triggers; the schema must be there."""
    statements = ["CREATE TABLE history (place INTEGER PRIMARY KEY, time REAL, what TEXT, id BLOB, before TEXT, after TEXT)"]
    for table, what, row in (("jobs", "job", _JOB), ("leases", "lease", _LEASE)):
        for verb, side, before, after in (
            ("INSERT", "NEW", "NULL", row.format("NEW")),
            ("UPDATE", "NEW", row.format("OLD"), row.format("NEW")),
            ("DELETE", "OLD", row.format("OLD"), "NULL"),
        ):
            trigger = f"CREATE TRIGGER history_{table}_{verb} AFTER {verb} ON holdfast_{table}"
            values = f"{_NOW}, '{what}', {side}.id, {before}, {after}"
            insert = f"INSERT INTO history (time, what, id, before, after) VALUES ({values})"  # noqa: S608 - constants of this file
            statements.append(f"{trigger} BEGIN {insert}; END")
    for verb, side, word, when in (
        ("INSERT", "NEW", "paused", "NEW.paused_at IS NOT NULL"),
        ("UPDATE", "NEW", "paused", "NEW.paused_at IS NOT NULL AND OLD.paused_at IS NULL"),
        ("UPDATE", "OLD", "resumed", "NEW.paused_at IS NULL AND OLD.paused_at IS NOT NULL"),
        ("DELETE", "OLD", "resumed", "OLD.paused_at IS NOT NULL"),
    ):
        trigger = f"CREATE TRIGGER history_{word}_{verb} AFTER {verb} ON holdfast_queues WHEN {when}"
        insert = f"INSERT INTO history (time, what, after) VALUES ({_NOW}, 'queue', '{word} ' || {side}.queue)"  # noqa: S608 - likewise
        statements.append(f"{trigger} BEGIN {insert}; END")
    with opened(database) as connection:
        for statement in statements:
            connection.execute(statement)


def tell(database: str | PathLike[str], what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
    """Append a deed to the history: ``handler.start``, ``handler.end``, or one of ``CALLS``. Call it in the process that did it."""
    after = msgspec.json.encode(_Report(process, token))
    with opened(database) as connection:
        connection.execute(
            f"INSERT INTO history (time, what, id, after) VALUES ({_NOW}, ?, ?, ?)",  # noqa: S608 - likewise
            (what, job.bytes, after.decode()),
        )


def read(database: str | PathLike[str], deeds: Iterable[ProcessEvent] = ()) -> History:
    """Read the history so far, with the deeds in their order."""
    with opened(database) as connection:
        rows = connection.execute("SELECT time, what, id, before, after FROM history ORDER BY place").fetchall()
    began = rows[0][0] if rows else 0.0
    waiting = sorted(deeds, key=lambda deed: deed.time, reverse=True)
    history, beats = History(), dict[UUID, _Beat]()
    for time, what, key, before, after in rows:
        while waiting and waiting[-1].time < time:
            deed = waiting.pop()
            history.add(deed.event(began))
        if what == "queue":
            history.add(Event(time=time - began, process="", what=what, phase=Phase.TRUTH, note=after))
        elif what != "job" or before != after:  # else it changed what no property looks at, such as the retention of a member
            history.add(_event(time - began, what, UUID(bytes=key), before, after, beats))
    for deed in reversed(waiting):
        history.add(deed.event(began))
    return history


def job_row(text: str | None, wall: int) -> JobRow | None:
    """Decode what a trigger wrote of a job, at a time of the wall clock in microseconds."""
    return None if text is None else msgspec.json.decode(text, type=_Job).row(wall)


def lease_row(text: str | None, monotonic: int) -> LeaseRow | None:
    """Decode what a trigger wrote of a lease, at a time of the clock that leases are judged by, in microseconds."""
    if text is None:
        return None
    entry = msgspec.json.decode(text, type=_Lease)
    return entry.row((monotonic - entry.expires_at) / 1e6)


class _Job(Struct):
    state: State
    claim_id: str
    claim_number: int
    lease: str
    attempt: int
    failures: int
    crashes: int
    policy: Policy
    cancel_requested: int
    message: str | None
    result: str | None
    task: str
    queue: str
    key: str | None
    reason: Reason | None = None
    awaits: str | None = None
    available_at: int = 0
    expires_at: int | None = None
    terms: Uniqueness | None = None
    created_at: int = 0

    def row(self, wall: int | None = None) -> JobRow:
        expires = None if wall is None or self.expires_at is None else (self.expires_at - wall) / 1e6
        return JobRow(
            state=self.state,
            token=Token(UUID(self.claim_id) if self.claim_id else None, self.claim_number),
            lease=UUID(self.lease) if self.lease else None,
            attempt=self.attempt,
            failures=self.failures,
            crashes=self.crashes,
            policy=self.policy,
            is_cancel_requested=bool(self.cancel_requested),
            witness=self.message or "",
            result=_text(self.result),
            task=self.task,
            queue=self.queue,
            key="" if self.key is None else f"{self.task}/{self.key}",
            key_terms=self.terms or UNTIL_FINISHED,
            key_kept=None if wall is None else self._key_kept(wall),
            reason=self.reason,
            awaits=self.awaits or "",
            due_in=0.0 if wall is None else (self.available_at - wall) / 1e6,
            expires_in=expires,
        )

    def _key_kept(self, wall: int) -> float | None:
        period = None if self.key is None or self.terms is None else self.terms.seconds
        return None if period is None else (self.created_at - wall) / 1e6 + period


class _Lease(Struct):
    worker: str
    process: ProcessIdentity
    timing: LeaseTiming
    left: float
    end_reason: LeaseEnd | None
    tasks: tuple[str, ...]
    is_draining: int
    is_isolated: int
    grace: float
    slots: int
    expires_at: int = 0

    def row(self, overdue: float) -> LeaseRow:
        return LeaseRow(
            process=label(self.process),
            worker=self.worker,
            ttl=self.timing.ttl,
            margin=self.timing.margin,
            overdue=overdue,
            is_ended=self.end_reason is not None,
            is_free=self.end_reason is not None and self.end_reason.with_drain(is_draining=bool(self.is_draining)).is_free,
            culprits={} if self.end_reason is None else self.end_reason.charged_jobs,
            is_draining=bool(self.is_draining),
            is_isolated=bool(self.is_isolated),
            grace=self.grace,
            slots=self.slots,
            tasks=self.tasks,
            beat=self.timing.beat,
        )


class _Beat(Struct):
    """The last beat of a lease. ``began``: by the wall clock, when its writer read the clock from which the lease counts.

    ``ahead``: how far the wall clock is ahead of that one, as the quickest write of this lease shows. A write that waits for a core
    after it has read the clock is recorded later than it began.
    """

    began: float
    ahead: float
    row: LeaseRow


class _Report(Struct):
    process: ProcessIdentity
    token: Token | None = None


def _event(time: float, what: str, key: UUID, before: str | None, after: str | None, beats: dict[UUID, _Beat]) -> Event:
    match what:
        case "job":
            old, new = _row(before), _row(after)
            known = [row for row in (new, old) if row is not None]
            lease = next((row.lease for row in known if row.lease), None)
            made = Event(time=time, process="", what=what, phase=Phase.TRUTH, job=key, token=known[0].token, lease=lease)
            return structs.replace(made, before=old, after=new)
        case "lease":
            return _lease_event(time, key, after, beats)
        case _:
            report = msgspec.json.decode(after or "", type=_Report)
            phase = Phase.OK if what in CALLS else Phase.LIFE
            return Event(time=time, process=label(report.process), what=what, phase=phase, job=key, token=report.token)


def _lease_event(time: float, key: UUID, after: str | None, beats: dict[UUID, _Beat]) -> Event:
    """Make the event of a lease. Its clock is not SQLite's: how much of it is left at its end follows from its last beat."""
    last = beats.get(key)
    before = None if last is None else last.row
    if after is None:
        return Event(time=time, process="", what="lease", phase=Phase.TRUTH, lease=key, before=before)
    entry = msgspec.json.decode(after, type=_Lease)
    overdue, clock = -entry.left, entry.expires_at / 1e6 - entry.left
    if entry.end_reason is not None and last is not None:
        overdue = last.row.overdue + time - last.began
        overdue = 0.0 if -CLOCK_ERROR < overdue < 0 else overdue
    row, ahead = entry.row(overdue), time - clock if last is None else min(last.ahead, time - clock)
    beats[key] = _Beat(clock + ahead, ahead, row)
    by = None if entry.end_reason is None else By("end_lease", is_judged=entry.end_reason.reason is RescueReason.EXPIRED)
    ender = row.process if entry.end_reason is not None and entry.end_reason.reason is RescueReason.CLOSED else ""
    made = Event(time=time, process=ender, what="lease", phase=Phase.TRUTH, lease=key, before=before, after=row)
    return structs.replace(made, by=by)


def _row(text: str | None) -> JobRow | None:
    return None if text is None else msgspec.json.decode(text, type=_Job).row()


def _text(result: str | None) -> str:
    """Decode a result; one that is a string is the token that its handler returned."""
    value = None if result is None else msgspec.json.decode(result)
    return token_in(value)

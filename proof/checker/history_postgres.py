"""The history of real processes on one PostgreSQL database: triggers record each change of a row.

They write in the transaction that makes the change, so changes that are rolled back leave no record. Their order is that of the
server's clock. On one machine that is also the clock of the process log, which is a file: during an outage no row can be written.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Struct, structs

from holdfast._core.encoding import uniqueness_in
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Reason, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming
from holdfast._core.uniqueness import Uniqueness
from proof.checker.history import By, Event, History, JobRow, LeaseRow, Phase, label, token_in
from proof.checker.process_log import ProcessEvent

# SECURITY DEFINER: changes by a role that may not write to this schema are recorded as well.
# A job that its lease has started with others is stored as claimed: here its row is what the store would answer.
_TRIGGER = """
CREATE SCHEMA history;
CREATE TABLE history.rows (
    place bigserial PRIMARY KEY, time double precision, move text, asked_at timestamptz, what text, id uuid, before jsonb, after jsonb
);
CREATE TABLE history.starts (lease uuid PRIMARY KEY, started bigint NOT NULL);
CREATE FUNCTION history.started(job jsonb, through bigint) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN job ->> 'state' = 'claimed' AND (job ->> 'claim_number')::bigint <= through
        THEN job || jsonb_build_object('state', 'running', 'attempt', (job ->> 'attempt')::int + 1) ELSE job END
$$;
CREATE FUNCTION history.seen(job jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT history.started(
        job, coalesce((SELECT started FROM history.starts WHERE lease = (job ->> 'lease')::uuid), 0)
    ) - 'payload'
$$;
CREATE FUNCTION history.add(what text, id uuid, before jsonb, after jsonb) RETURNS void LANGUAGE sql AS $$
    INSERT INTO history.rows (time, move, asked_at, what, id, before, after) VALUES (
        extract(epoch FROM pg_catalog.clock_timestamp()), pg_current_xact_id()::text, statement_timestamp(), what, id, before, after
    )
$$;
CREATE FUNCTION history.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM history.add(TG_ARGV[0], coalesce(NEW.id, OLD.id), history.seen(to_jsonb(OLD)), history.seen(to_jsonb(NEW)));
    RETURN NULL;
END
$$;
CREATE FUNCTION history.record_starts() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM history.add('job', job.id, history.seen(to_jsonb(job)), history.started(to_jsonb(job) - 'payload', NEW.started))
    FROM SCHEMA.active AS job WHERE job.lease = NEW.lease AND job.state = 'claimed' AND job.claim_number <= NEW.started
        AND job.claim_number > coalesce((SELECT started FROM history.starts WHERE lease = NEW.lease), 0);
    INSERT INTO history.starts AS known (lease, started) VALUES (NEW.lease, NEW.started)
    ON CONFLICT (lease) DO UPDATE SET started = greatest(known.started, excluded.started);
    RETURN NULL;
END
$$;
CREATE TRIGGER history AFTER INSERT OR UPDATE ON SCHEMA.lease_starts FOR EACH ROW EXECUTE FUNCTION history.record_starts();
"""
_JOB_TABLES = ("pending", "active", "finished")


def watch(url: str, *, schema: str = "holdfast") -> None:
    """Install the log and its triggers; the schema must be there."""
    asyncio.run(install(url, schema=schema))


async def install(url: str, *, schema: str = "holdfast") -> None:
    """Install the log and its triggers from within a running event loop."""
    statements = [_TRIGGER.replace("SCHEMA.", f"{schema}.")]
    for table, what in (*((table, "job") for table in _JOB_TABLES), ("leases", "lease")):
        trigger = f"CREATE TRIGGER history AFTER INSERT OR UPDATE OR DELETE ON {schema}.{table}"
        statements.append(f"{trigger} FOR EACH ROW EXECUTE FUNCTION history.record('{what}')")
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(";".join(statements))
    finally:
        await connection.close()


def read(url: str, process_log: Iterable[ProcessEvent] = ()) -> History:
    """Return the history so far, with the events of the process log, in the order of time."""

    async def fetch() -> Sequence[asyncpg.Record]:
        connection = await asyncpg.connect(url)
        try:
            found: Sequence[asyncpg.Record] = await connection.fetch("SELECT * FROM history.rows ORDER BY place")
            return found
        finally:
            await connection.close()

    rows = asyncio.run(fetch())
    began = rows[0]["time"] if rows else 0.0
    events = [*_job_events(rows, began), *_lease_events(rows, began), *(each.event(began) for each in process_log)]
    return History(sorted(events, key=lambda event: event.time))


def _job_events(rows: Sequence[asyncpg.Record], began: float) -> Iterable[Event]:
    """Yield changes of jobs: a row that one transaction deletes from one table and inserts into another has moved."""
    jobs = [row for row in rows if row["what"] == "job"]
    left = {(row["move"], row["id"]): row for row in jobs if row["after"] is None}
    for row in jobs:
        if row["after"] is not None:
            before = row["before"] or left.pop((row["move"], row["id"]), {"before": None})["before"]
            yield _job_event(row["time"] - began, row["id"], _job(before), _job(row["after"]))
    yield from (_job_event(row["time"] - began, row["id"], _job(row["before"]), None) for row in left.values())


def _job_event(time: float, job: UUID, before: JobRow | None, after: JobRow | None) -> Event:
    known = [row for row in (after, before) if row is not None]
    lease = next((row.lease for row in known if row.lease), None)
    made = Event(time=time, process="", what="job", phase=Phase.TRUTH, job=job, token=known[0].token, lease=lease)
    return structs.replace(made, before=before, after=after)


def _lease_events(rows: Sequence[asyncpg.Record], began: float) -> Iterable[Event]:
    for row in rows:
        if row["what"] == "lease":
            yield _lease_event(row["time"], began, row["id"], _lease(row["before"]), _lease(row["after"]))


def _lease_event(time: float, began: float, key: UUID, before: "_Lease | None", after: "_Lease | None") -> Event:
    made = Event(time=time - began, process="", what="lease", phase=Phase.TRUTH, lease=key)
    old = None if before is None else before.row(time)
    if after is None:
        return structs.replace(made, before=old)
    why = after.end()
    by = None if why is None else By("end_lease", is_judged=why.reason is RescueReason.EXPIRED)
    ender = label(after.identity()) if why is not None and why.reason is RescueReason.CLOSED else ""
    return structs.replace(made, process=ender, before=old, after=after.row(time), by=by)


def job_row(text: str | None, now: datetime) -> JobRow | None:
    """Return the row of a job that a trigger recorded, at a time of the server's clock."""
    return None if text is None else msgspec.json.decode(text, type=_Job).row(now)


def lease_row(text: str | None, now: datetime) -> LeaseRow | None:
    """Return the row of a lease that a trigger recorded, at a time of the server's clock."""
    return None if text is None else msgspec.json.decode(text, type=_Lease).row(now.timestamp())


class _Job(Struct):
    state: State
    claim_number: int
    policy: str
    attempt: int
    failures: int
    crashes: int
    claim_id: UUID | None = None
    lease: UUID | None = None
    cancel_requested: bool = False
    message: str | None = None
    result: str | None = None
    task: str = ""
    queue: str = ""
    unique_key: str | None = None
    reason: Reason | None = None
    available_at: datetime | None = None
    expires_at: datetime | None = None
    awaits: str | None = None
    extra: str | None = None
    created_at: datetime | None = None

    def row(self, now: datetime | None = None) -> JobRow:
        due, expires = (
            None if now is None or at is None else (at - now).total_seconds() for at in (self.available_at, self.expires_at)
        )
        terms = uniqueness_in(self.extra)
        return JobRow(
            state=self.state,
            token=Token(self.claim_id, self.claim_number),
            lease=self.lease,
            attempt=self.attempt,
            failures=self.failures,
            crashes=self.crashes,
            policy=msgspec.json.decode(self.policy, type=Policy),
            is_cancel_requested=self.cancel_requested,
            witness=self.message or "",
            result=_text(self.result),
            task=self.task,
            queue=self.queue,
            key="" if self.unique_key is None else f"{self.task}/{self.unique_key}",
            key_terms=terms,
            key_kept=self._key_kept(now, terms),
            reason=self.reason,
            awaits=self.awaits or "",
            due_in=due or 0.0,
            expires_in=expires,
        )

    def _key_kept(self, now: datetime | None, terms: Uniqueness) -> float | None:
        if now is None or self.unique_key is None or self.created_at is None or terms.period is None:
            return None
        return (self.created_at + terms.period - now).total_seconds()


class _Lease(Struct):
    worker: str
    process: str
    timing: str
    expires_at: datetime
    is_draining: bool
    is_isolated: bool
    grace: float
    slots: int
    tasks: str
    ended_at: datetime | None = None
    end_reason: str | None = None

    def identity(self) -> ProcessIdentity:
        return msgspec.json.decode(self.process, type=ProcessIdentity)

    def end(self) -> LeaseEnd | None:
        return None if self.ended_at is None or self.end_reason is None else msgspec.json.decode(self.end_reason, type=LeaseEnd)

    def row(self, time: float) -> LeaseRow:
        timing, why = msgspec.json.decode(self.timing, type=LeaseTiming), self.end()
        return LeaseRow(
            process=label(self.identity()),
            worker=self.worker,
            ttl=timing.ttl,
            margin=timing.margin,
            overdue=time - self.expires_at.timestamp(),
            is_ended=self.ended_at is not None,
            is_free=why is not None and why.with_drain(is_draining=self.is_draining).is_free,
            culprits={} if why is None else why.charged_jobs,
            is_draining=self.is_draining,
            is_isolated=self.is_isolated,
            grace=self.grace,
            slots=self.slots,
            tasks=msgspec.json.decode(self.tasks, type=tuple[str, ...]),
            beat=timing.beat,
        )


def _job(text: str | None) -> JobRow | None:
    return None if text is None else msgspec.json.decode(text, type=_Job).row()


def _lease(text: str | None) -> _Lease | None:
    return None if text is None else msgspec.json.decode(text, type=_Lease)


def _text(result: str | None) -> str:
    """Return a result that is a string: the token that its handler returned. PostgreSQL prints bytes as ``\\x`` and hex digits."""
    value = None if result is None else msgspec.json.decode(bytes.fromhex(result.removeprefix("\\x")))
    return token_in(value)

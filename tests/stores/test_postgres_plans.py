"""Plans that were made while all tables were empty still read only what they answer when every table has a million rows."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from holdfast._core.job import ActiveJob, State, Token
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done, Snooze
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, IsolatedJobs, JobFilter
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.claim_cursor import ClaimCursor
from holdfast.stores.postgres.lane_walk import Walk
from holdfast.stores.postgres.reading import conditions_of
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers import PostgresServer

MILLION = 1_000_000
ROOM = 100
LEASE, CLAIM, JOB = UUID(int=1), UUID(int=2), UUID(int=3)
FLOW = UUID("00000000-0000-7000-d000-000000000001")
CHANCE = FakeChance()

# One group for all, so that they run one after another and one process fills the tables.
pytestmark = [pytest.mark.timeout(300), pytest.mark.prove]

_FILL = """
INSERT INTO holdfast.{table} (id, task, queue, priority, state, created_at, policy, {more})
SELECT ('00000000-0000-7000-{kind}-' || lpad(to_hex(n), 12, '0'))::uuid, '{task}', 'default', {priority}, '{state}',
    now(), '{{}}', {values}
FROM generate_series(1, {count}) AS n
"""
_OPTIONS = "SELECT name, setting FROM pg_settings WHERE name LIKE 'enable_%' OR name IN ('plan_cache_mode', 'jit', 'timezone')"
_DUE = "now() - interval '1 hour' + n * interval '1 microsecond'"
_LATER = "now() + interval '1 day' + n * interval '1 microsecond'"
_MEMBERS = """
INSERT INTO holdfast.members (job, flow, position, node, on_failure, is_gate, needs, waits)
SELECT ('00000000-0000-7000-' || kind || lpad(to_hex(n), 12, '0'))::uuid,
    ('00000000-0000-7000-d000-' || lpad(to_hex(n / 10), 12, '0'))::uuid, n, n, 'fail', false, 1, 1
FROM generate_series(1, %s) AS n CROSS JOIN (VALUES ('8000-'), ('c000-')) AS kinds (kind)
"""
_EDGES = """
INSERT INTO holdfast.edges (parent, child, tolerates, is_child)
SELECT
    ('00000000-0000-7000-c000-' || lpad(to_hex(n), 12, '0'))::uuid, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
    false, false
FROM generate_series(1, %s) AS n
"""
_OVER = "n, false, 1, 0, 0, now(), now(), now() + interval '7 days', '\\x7b7d'"
_OVER_COLUMNS = "claim_number, cancel_requested, attempt, failures, crashes, available_at, finished_at, delete_after, payload"


class Plans:
    """One session of a worker: its statements were planned when nothing was there."""

    def __init__(self, dsn: str, store: PostgresStore, options: dict[str, str]) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.ClientCursor)
        for name, value in options.items():
            self.connection.execute(f"SET {name} = '{value}'")
        self._store, self._types = store, dict[str, list[str]]()

    def prepare(self, name: str, values: tuple[Any, ...]) -> None:
        """Prepare a statement, and let the server plan it for the tables as they are now."""
        words = name.replace(" ", "_")
        self.connection.execute(f"PREPARE {words} AS {self._store._sql(name)}")
        ((kinds,),) = self.connection.execute(
            "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = %s", [words]
        ).fetchall()
        self._types[name] = kinds
        self.read(name, values)

    def read(self, name: str, values: tuple[Any, ...]) -> int:
        """Return how many rows of tables and indexes the statement read; its effects are rolled back."""
        placeholders = ", ".join(f"%s::{kind}" for kind in self._types[name])
        given = [list(value) if isinstance(value, tuple) else value for value in values]
        with self.connection.transaction(force_rollback=True):
            call = f"{name.replace(' ', '_')}({placeholders})".removesuffix("()")
            cursor = self.connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {call}", given)
            ((plan,),) = cursor.fetchall()
        return looked_at((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"])


def looked_at(node: dict[str, Any]) -> int:
    """Return the number of rows that the scans of a plan read, including those they filtered out."""
    own = 0
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        gone = sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
        own = round((node["Actual Rows"] + gone) * node["Actual Loops"])
    elif node["Node Type"] == "Bitmap Index Scan":
        own = round(node["Actual Rows"] * node["Actual Loops"])
    return own + sum(looked_at(each) for each in node.get("Plans", ()))


REQUEST = ClaimRequest(
    lease=LEASE, claim=CLAIM, tasks={"due": Policy(), "other": Policy()}, limit=ROOM, isolated=IsolatedJobs.INCLUDE
)
ONE = ClaimCursor(sole=("due", 0, "default", "")).due_range
SEVERAL = Walk(look=ROOM).parameters(REQUEST)
CAPS = '{"queue": {"default": {"room": 5000, "keys": {}}}}'
WITHIN_LIMITS = Walk(look=ROOM, turns=ROOM, caps=CAPS).parameters(REQUEST)


def held(count: int) -> list[tuple[UUID, Token]]:
    """Return the ids and tokens of running jobs."""
    return [(UUID(f"00000000-0000-7000-c000-{n:012x}"), Token(CLAIM, n)) for n in range(1, count + 1)]


def moves(count: int, *, snooze: bool = False) -> list[Any]:
    """Return transitions that complete or snooze those jobs."""
    shared = {
        "lease": LEASE,
        "task": "due",
        "state": State.RUNNING,
        "attempt": 1,
        "failures": 0,
        "crashes": 0,
        "policy": Policy(),
    }
    active_jobs = [ActiveJob(id=job, token=token, **shared) for job, token in held(count)]  # type: ignore[arg-type]
    return [finish(active, Snooze(for_="1s") if snooze else Done(b"1"), jitter=0.0) for active in active_jobs]


def exchange(name: str, where: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the statement and the values of an exchange that looks there."""
    return f"exchange {name}", (*packing.settling(moves(ROOM)), *packing.claiming(REQUEST), *where)


def statements() -> dict[str, tuple[Any, ...]]:
    """Return the statements, each with values for its parameters."""
    jobs = [JOB] + [job for job, _ in held(3)]
    return {
        **dict([exchange("due_range", ONE), exchange("lanes", SEVERAL)]),
        "claim due_range": (*packing.settling(()), *packing.claiming(REQUEST), *ONE),
        "claim lanes": (*packing.settling(()), *packing.claiming(REQUEST), *SEVERAL),
        "claim due_ids": (*packing.settling(()), *packing.claiming(REQUEST), jobs, None),
        "claim due_chosen": (*packing.settling(()), *packing.claiming(REQUEST), jobs),
        "settle_plain": packing.settling(moves(ROOM)),
        "lock_limits": (LEASE, False, None, ["due", "other"], None),
        "has_limits": (LEASE,),
        "limit_uses": (),
        "limited_lanes": (["due", "other"], True, True, *WITHIN_LIMITS),
        "set_rates": (["queue"], ["default"], [True], [""], [1]),
        "limits": (),
        "limit_holders": (ROOM, None),
        "mark_counted": (True,),
        "settle": (*packing.settling(moves(ROOM, snooze=True)), packing.rare_kinds(moves(ROOM, snooze=True)), [FLOW]),
        "exchange_answers": packing.tokens(held(ROOM)),
        "start": packing.starts(held(ROOM))[0],
        "report": (*packing.tokens(held(3)), [None] * 3, [0.5] * 3, [None] * 3, [None] * 3, [1] * 3, [None] * 3),
        "annotate": (*packing.tokens(held(3)), [b"1"] * 3, [None] * 3, [None] * 3),
        "request_cancel": (jobs,),
        "lock": (jobs,),
        "matching": (jobs, *conditions_of(JobFilter(state=State.AVAILABLE))),
        "states": (jobs,),
        "reschedule": (jobs, 1.0, None),
        "reopen": (jobs, True, [FLOW]),
        "delete": (jobs, False),
        "purge": ("default", ROOM, None),
        "expire": (ROOM,),
        "owed_hooks": (["due"], ROOM, 1.0, 3600.0),
        "beat": ([LEASE], False),
        "beat_noted": ([LEASE], False, [LEASE], [1], [0], [1], [0.1], [0.1], [86_400.0]),
        "worker_history": ("w1", ROOM),
        "estimates": (),
        "errors": (100 * ROOM, ROOM),
        "held": (LEASE, ROOM),
        "expired": (ROOM,),
        "overdue": (ROOM,),
        "has_waiting": (["due", "other"],),
        "next_due": (["due", "other"], None, True, False),
        "next_due_ranges": (["due", "other"], None, True, False),
        "due": (["due", "other"], None, True, False, 0, ROOM),
        "waiting_tasks": (),
        "get": (JOB, ROOM),
        "steps": (JOB,),
        "record_step": (JOB, CLAIM, 1, "charge", 1, 0, True, b"1"),
        "take_signal": (JOB, CLAIM, 1, "go", ":wait_for:go", 1, 0, True),
        "signal": (JOB, CLAIM, "go", b"1", 1000),
        "job_with_key": ("due", "order-7"),
        "pause": (["default"],),
        "prune": (ROOM, 900_000_000),
        "empty_partitions": (date(2020, 1, 1), ROOM, True),
        "store_facts": (900_000_000, 3_600_000_000, ROOM),
        **workflow_statements([job for job, _ in held(ROOM)]),
    }


def workflow_statements(jobs: list[UUID]) -> dict[str, tuple[Any, ...]]:
    """Return the statements of workflows, each with values for its parameters."""
    ones = [1] * len(jobs)
    return {
        "lock_flows": ([FLOW],),
        "lock_free_flows": ([FLOW],),
        "lock_waiting": (None, FLOW),
        "flows_of": (jobs,),
        "members": (jobs,),
        "links": (jobs, ones, [FLOW]),
        "settle_members": (*packing.settling(moves(ROOM)), [FLOW]),
        "links_behind": (jobs[:3],),
        "graph": ([FLOW],),
        "reachable": (FLOW,),
        "outside": (jobs,),
        "dependents": ([FLOW],),
        "places_of": (jobs,),
        "make_roots": ([UUID(f"00000000-0000-7000-b000-{n:012x}") for n in range(1, ROOM + 1)],),
        "insert_dependents": (jobs, None, 1, 1, jobs[:3], [FLOW] * 3, False),
        "purgeable_roots": ("default", ROOM, datetime(2100, 1, 1, tzinfo=UTC)),
        "root": (FLOW,),
        "take_root_key": (FLOW,),
        "set_policies": (jobs, "fail"),
        "advance_members": (jobs, ones, ones, jobs, "{" + ",".join(map(str, jobs)) + "}", False),
        "count_alike": ("{" + ",".join(map(str, jobs)) + "}", 1, 1),
        "end_members": (jobs, ones, ["failed"], ["EXPIRED"], ["{}"]),
        "block_members": (jobs, True),
        "hold_members": (FLOW,),
        "resume_members": (FLOW,),
        "mark_members": (None, FLOW),
        "culprits": (jobs[:3], jobs[3:]),
        "expired_members": (jobs,),
        "delete_members": ([FLOW], False, [FLOW]),
        "prune_flows": ([FLOW], ROOM, 900_000_000),
        "unfinished_flows": (None, None, ROOM),
        "restore_flow": (FLOW,),
        "outcomes": (jobs,),
        "items": (jobs,),
        "cancel_after_children": (jobs,),
        "begin_flows": ([FLOW],),
        "forget_flows": ([FLOW],),
        "adopter": (JOB,),
        "near": (JOB,),
        "grow": (JOB, FLOW, "a", "fail", False, None, True, "[]", "[]"),
        "keep_steps": (JOB, ["charge"], [1], [0], [True], [b"1"]),
        "receipt": (CLAIM,),
        "forget_receipt": (CLAIM,),
    }


@pytest.fixture(scope="module")
def plans(postgres_server: PostgresServer) -> Iterator[Plans]:
    """Return the statements planned on empty tables, which are filled afterwards and never analyzed."""
    dsn = postgres_server.create_database()

    async def migrated() -> tuple[PostgresStore, dict[str, str]]:
        store = PostgresStore(dsn, clock=FakeClock(), chance=CHANCE, process=PROCESS)
        await store.migrate()
        connection = await store._connect()
        options = dict(await connection.fetch(_OPTIONS))
        await connection.close()
        await store.close()
        return store, options

    made = Plans(dsn, *asyncio.run(migrated()))
    sql = made.connection.execute
    for table in ("pending", "finished_other"):
        sql(f"ALTER TABLE holdfast.{table} SET (autovacuum_enabled = false)")
        sql(f"ALTER TABLE holdfast.{table} SET UNLOGGED")
    for name, values in statements().items():
        made.prepare(name, values)
    for kind, task, priority, due in (("8000", "due", 0, _DUE), ("9000", "due", -1, _LATER), ("a000", "away", -9, _DUE)):
        more = {"more": "available_at, payload", "values": f"{due}, '\\x7b7d'", "state": "available"}
        sql(_FILL.format(table="pending", kind=kind, task=task, priority=priority, count=MILLION, **more))
    more = {"more": _OVER_COLUMNS, "values": _OVER, "state": "completed"}
    sql(_FILL.format(table="finished", kind="b000", task="due", priority=0, count=MILLION, **more))
    more = {
        "more": "claim_id, claim_number, lease, worker, attempt, failures, crashes, available_at, claimed_at, started_at, payload",
        "values": f"'{CLAIM}', n, '{LEASE}', 'w', 1, 0, 0, now(), now(), now(), '\\x7b7d'",
        "state": "running",
    }
    sql(_FILL.format(table="active", kind="c000", task="due", priority=0, count=10_000, **more))
    sql(
        "INSERT INTO holdfast.leases (id, worker, process, timing, ttl, grace, queues, tasks, slots, is_isolated, opened_at, renewed_at,"
        " expires_at) VALUES (%s, 'w', '{}', '{}', 30, 20, '[]', '[]', 9, false, now(), now(), now() + interval '1 day')",
        [LEASE],
    )
    sql(
        "INSERT INTO holdfast.beats (worker, at, slots, delete_after) SELECT 'w' || mod(n, 1000), now() + n * interval '1 ms', 9,"
        " now() + (n - 100) * interval '1 s' FROM generate_series(1, %s) AS n",
        [MILLION],
    )
    sql("INSERT INTO holdfast.flows (id) SELECT gen_random_uuid() FROM generate_series(1, 100000)")
    sql(_MEMBERS, [MILLION // 2])
    sql(_EDGES, [MILLION])
    yield made
    made.connection.close()


@pytest.mark.parametrize("name", list(statements()))
def test_a_statement_reads_only_the_rows_it_needs(plans: Plans, name: str) -> None:
    assert plans.read(name, statements()[name]) <= 20 * ROOM


def test_the_claims_of_these_plans_are_full(plans: Plans) -> None:
    """Without full claims the other tests would count nothing."""
    name, values = exchange("due_range", ONE)
    assert plans.read(name, values) >= 3 * ROOM

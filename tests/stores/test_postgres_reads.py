"""Statements that look for jobs do not read rows that are not for them; a few hundred such rows are enough to show it."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.claim_cursor import ClaimCursor
from holdfast.stores.postgres.lane_walk import Walk
from tests.stores.postgres_faulty_databases import store_at
from tests.stores.test_postgres_adversary import AS_OURS
from tests.stores.test_postgres_plans import JOB, LEASE, REQUEST, Plans

MANY, ROOM = 500, 3
FEW = 100
ASKED = structs.replace(REQUEST, limit=ROOM)
ONE = ClaimCursor(sole=("due", 0, "default", ""))

_WAITING = """
INSERT INTO holdfast.pending (id, task, queue, priority, state, available_at, created_at, policy, payload, claimable_until)
SELECT gen_random_uuid(), '{}', '{}', {}, '{}', now() + {} * interval '1 hour', now(), '{{}}', '', {} FROM generate_series(1, {})
"""
_LINES = [
    ("due", "default", 0, "available", -1, "NULL"),
    ("due", "default", -1, "available", 1, "NULL"),
    ("due", "default", -2, "held", -1, "NULL"),
    ("due", "aside", -3, "held", -1, "NULL"),
    ("away", "default", -9, "available", -1, "NULL"),
    ("far", "default", -9, "held", -1, "NULL"),
]
_ACTIVE = """
INSERT INTO holdfast.active (
    id, claim_id, claim_number, lease, worker, task, queue, priority, state, attempt, failures, crashes, created_at, available_at,
    claimed_at, started_at, policy, payload
) SELECT gen_random_uuid(), gen_random_uuid(), n, '{}', '', 'due', 'default', 0, 'running', 1, 0, 0, now(), now(), now(), now(), '{{}}', ''
FROM generate_series(1, {}) AS n
"""


_OWNER = """
INSERT INTO holdfast.leases (
    id, worker, process, timing, ttl, grace, queues, tasks, slots, is_isolated, opened_at, renewed_at, expires_at
) VALUES ('{}', 'w', '{{}}', '{{}}', 30, 20, '[]', '[]', 9, false, now(), now(), now() + interval '1 day')
"""


def statements(queues: tuple[str, ...] | None = None) -> dict[str, tuple[Any, ...]]:
    """Return the statements, each with values for its parameters."""
    asked = structs.replace(ASKED, queues=queues)
    claim = (*packing.settling(()), *packing.claiming(asked))
    return {
        "claim due_range": (*claim, *ONE.due_range),
        "claim due_range_wanted": (*claim, *ONE.due_range, queues or ("default", "other")),
        "claim lanes": (*claim, *Walk(look=ROOM).parameters(asked)),
        "claim due_ids": (*claim, [JOB], queues),
        "next_due": (["due", "other"], queues, True, False),
        "due": (["due", "other"], queues, True, False, 0, ROOM),
        "waiting_tasks": (),
        "purge": ("default" if queues is None else queues[-1], ROOM, None),
        "held": (LEASE, ROOM),
    }


@pytest.fixture
def plans(database: str) -> Iterator[Plans]:
    """Return the statements planned on empty tables, which are filled afterwards."""
    made = Plans(database, store_at(database), AS_OURS)
    for name, values in statements().items():
        made.prepare(name, values)
    for line in _LINES:
        made.connection.execute(_WAITING.format(*line, MANY))
    made.connection.execute(_ACTIVE.format(LEASE, MANY))
    made.connection.execute(_OWNER.format(LEASE))
    yield made
    made.connection.close()


def test_statements_that_look_for_jobs_read_few_rows(plans: Plans) -> None:
    for queues in (None, ("default", "aside")):
        assert {name: rows for name, values in statements(queues).items() if (rows := plans.read(name, values)) > FEW} == {}

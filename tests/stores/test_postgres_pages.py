"""No statement of a page looks at more than 50,000 rows, beside those that it returns, in a store with many finished jobs."""

import asyncio
import json
from typing import Any

import pytest

from holdfast import App
from holdfast._engine.operators.looking import MOST_LOOKED
from holdfast.dashboard import Dashboard
from holdfast.dashboard.views.jobs import PAGE
from holdfast.databases.postgres import session_settings as sessions
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.testing.servers import PostgresServer
from tests.dashboard.browser import OWN, ask
from tests.stores.postgres_faulty_databases import store_at
from tests.stores.test_postgres_plans import looked_at

PAGES = (
    "/", "/jobs", "/jobs?state=failed", "/jobs?state=completed", "/jobs?state=cancelled", "/jobs?state=held", "/jobs?rescued=yes",
    "/jobs?task=broken&state=completed", "/jobs?text=nowhere", "/errors", "/queues", "/queues/default", "/workers", "/schedules",
    "/workflows", "/limits", "/audit",
)  # fmt: skip
LIVE = (OWN, (b"x-holdfast-live", b"1"))
FINISHED, MEMBERS = 120_000, 60_000
_FILL = """
INSERT INTO holdfast.finished (
    id, task, queue, priority, state, reason, error, created_at, policy, claim_number, cancel_requested, attempt, failures, crashes,
    available_at, finished_at, delete_after, payload
)
SELECT ('00000000-0000-7000-%s-' || lpad(to_hex(n), 12, '0'))::uuid, 't', 'default', 0, '%s', %s, now(), '%s', n, false, 1, 0, 0, now(),
    now() + n * interval '1 us', now() + interval '7 days', ''
FROM generate_series(1, %s) AS n
"""
_ERROR = """'HANDLER_ERROR', '{"type":"E","message":"' || n || '","traceback":"","key":"0123456789abcdef"}'"""
_POLICY = '{"max_attempts":1,"backoff":{"kind":"fixed","delays":[1.0],"cap":1.0,"spread":0.0},"retention":604800.0}'
_FLOWS = """
INSERT INTO holdfast.%s SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid FROM generate_series(1, %s) AS n
"""
_MEMBERS = """
INSERT INTO holdfast.members (job, flow, position, node, on_failure, is_gate, needs, waits)
SELECT id, id, 0, 'n', 'fail', true, 0, 0 FROM holdfast.flows
"""

pytestmark = [pytest.mark.timeout(300), pytest.mark.prove]


@pytest.fixture(scope="module")
def large(postgres_server: PostgresServer) -> str:
    """Return the address of a store with many finished jobs, of which many are workflows."""
    dsn = postgres_server.create_database()
    app = App(dsn)
    app.migrate()
    app.close()
    fill = [
        _FILL % ("8000", "completed", "NULL, NULL", _POLICY, FINISHED),
        _FILL % ("9000", "failed", _ERROR, _POLICY, FINISHED),
        _FLOWS % ("flows (id)", MEMBERS),
        _MEMBERS,
    ]
    postgres_server.sql(*fill, "VACUUM ANALYZE", dsn=dsn)
    return dsn


@pytest.mark.parametrize("headers", [(OWN,), LIVE], ids=["opened", "renewed"])
@pytest.mark.parametrize("path", PAGES)
def test_no_statement_of_a_page_looks_at_more_than_50000_rows(
    large: str, path: str, headers: tuple[tuple[bytes, bytes], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[tuple[str, tuple[Any, ...]]]()
    for way in ("_search", "_fetch"):
        _record(monkeypatch, way, sent)

    async def run() -> dict[str, int]:
        app = App(large)
        assert (await ask(Dashboard(app), path, headers=headers)).status == 200
        await app.aclose()
        return {f"{number} {name}": await _rows_of(large, name, values) for number, (name, values) in enumerate(sent)}

    read = asyncio.run(run())
    assert read
    assert {name: rows for name, rows in read.items() if rows > MOST_LOOKED + PAGE} == {}


def _record(monkeypatch: pytest.MonkeyPatch, way: str, sent: list[tuple[str, tuple[Any, ...]]]) -> None:
    fetch = getattr(StoreDatabase, way)

    async def recorded(self: StoreDatabase, name: str, *values: Any, **more: Any) -> Any:
        sent.append((name, values))
        return await fetch(self, name, *values, **more)

    monkeypatch.setattr(StoreDatabase, way, recorded)


async def _rows_of(dsn: str, name: str, values: tuple[Any, ...]) -> int:
    """Return how many rows a statement reads, planned for its values."""
    store = store_at(dsn)
    connection = await store._connect()
    try:
        async with connection.transaction():
            await connection.execute(sessions.SEARCHING)
            plan = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {store._sql(name)}", *values)
    finally:
        await connection.close()
    return looked_at(json.loads(plan)[0]["Plan"])

"""Which index each statement goes along beside all those rows, and how many of them it looks at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from bench.rows.crowd import BATCH
from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence, Table
from holdfast.databases.postgres import session_settings as sessions
from holdfast.rows.postgres.statements import Statements
from holdfast.rows.postgres.table import PostgresTable
from holdfast.rows.sqlite.database import RowsFile
from holdfast.rows.sqlite.statements import Statements as SqliteStatements
from holdfast.rows.sqlite.table import SqliteTable

DUE, STUCK, DONE = "holdfast_pastes_due", "holdfast_pastes_stuck", "holdfast_pastes_done"
_ALONG = re.compile(r'"Index Name": "(\w+)"|USING (?:COVERING )?INDEX (\w+)|USING (INTEGER PRIMARY KEY)')


class Plan(Struct, frozen=True):
    """Of one statement. ``along``: indexes. ``looked_at``: rows; SQLite does not say. ``is_sound``: along the one that is its own,
    and no further than it must."""

    statement: str
    along: str
    looked_at: int | None
    is_sound: bool
    text: str


async def plans_of(table: Table) -> list[Plan]:
    """Explain every statement that is asked repeatedly; nothing it does stays."""
    if isinstance(table, PostgresTable):
        return [plan async for plan in _of_postgres(table)]
    assert isinstance(table, SqliteTable)
    statements = await table._ready()
    return await table._thread.run(lambda file: [*_of_sqlite(file, statements)])


def _questions(statements: Statements) -> dict[str, tuple[tuple[Any, ...], int | None, str]]:
    """Yield each statement with how many rows it may read, and its index."""
    stamp, keys = RowFence("2024-01-02T03:04:05.000006", "somebody"), [(n,) for n in range(1003, 1000 * BATCH, 1000)]
    return {
        "claim": (statements.claim("somebody", BATCH), 4 * BATCH, DUE),
        "has_due": ((statements.texts.of("has_due"),), 2, DUE),
        "reset": (statements.reset(BATCH), 4 * BATCH, STUCK),
        "adopt": (statements.adopt(BATCH), 2, STUCK),
        "move": (statements.move(stamp, keys, RowOutcome.DONE), 4 * BATCH, ""),
        "release": (statements.release(stamp), 2, STUCK),
        "prune": (statements.prune(BATCH), 4 * BATCH, DONE),
        "states: due, stuck, oldest": ((statements.texts.of("standing"),), None, DUE),
    }


class _Undone(Exception):
    """Nothing of it stays."""


async def _of_postgres(table: PostgresTable) -> Any:
    for name, (question, most, index) in _questions(await table._ready()).items():
        plan = await _explained(table, question, is_search=most is None)
        text = json.dumps(plan)
        is_along = "Seq Scan" not in text and (f'"Index Name": "{index}' in text)
        is_along = is_along and (most is not None or STUCK in text)
        looked_at = _looked_at(plan)
        yield Plan(name, _along(text), looked_at, is_along and (most is None or looked_at <= most), text)


async def _explained(table: PostgresTable, question: tuple[Any, ...], *, is_search: bool) -> dict[str, Any]:
    """Return the plan by which it ran, in a session as the table's own."""
    sql, *values = question
    found: list[str] = []
    try:
        async with table._way._transaction() as link:
            if is_search:
                await link.execute(sessions.SEARCHING)
            ((plan,),) = await link.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *values)
            found.append(plan)
            raise _Undone
    except _Undone:
        pass
    plan = json.loads(found[0])[0]["Plan"]
    assert isinstance(plan, dict)
    return plan


def _along(text: str) -> str:
    return ", ".join(dict.fromkeys("".join(found) for found in _ALONG.findall(text)))


def _looked_at(node: dict[str, Any]) -> int:
    """Count the rows that the scans of a plan have passed, those they left out included."""
    own = 0
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        gone = sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
        own = round((node["Actual Rows"] + gone) * node["Actual Loops"])
    return own + sum(_looked_at(each) for each in node.get("Plans", ()))


def _of_sqlite(file: RowsFile, statements: SqliteStatements) -> Iterator[Plan]:
    mark, named = (
        RowFence("2024-01-02 03:04:05.000006", ""),
        {"limit": 9, "now": "", "stale": "3", "ahead": "4", "forgettable": "2", "from": "", "past": 0, "fence": "", "owner": ""},
    )
    ((move, moved),) = statements.move(mark, [(1,), (2,)], RowOutcome.DONE, "", lambda: 0.0)
    ((reset, taken),) = statements.reset([("", 1), ("", 2)])
    questions: dict[str, tuple[str, Any, str]] = {
        "claim": (statements.claim, named, DUE),
        "has_due": (statements.texts.of("has_due"), named, DUE),
        "reset: which": (statements.texts.of("stuck"), named, STUCK),
        "reset": (reset, taken, STUCK),
        "adopt": (statements.texts.of("adopt"), named, STUCK),
        "move": (move, moved, ""),
        "move, all of a batch": (*statements.move_all(mark, RowOutcome.DONE, "", lambda: 0.0), STUCK),
        "release": (statements.release(), named, STUCK),
        "prune": (statements.texts.of("prune"), named, DONE),
        "states: due, stuck, oldest": (statements.texts.of("standing"), named, DUE),
    }
    for name, (sql, values, index) in questions.items():
        lines = [str(row[3]) for row in file.ask("explain", f"EXPLAIN QUERY PLAN {sql}", values)]
        is_along = any(index in line for line in lines) and (
            index != DUE or "states" not in name or any(STUCK in each for each in lines)
        )
        has_scan = any(line.startswith("SCAN pastes") and "INDEX" not in line for line in lines)
        yield Plan(name, _along(" ".join(lines)), None, is_along and not has_scan, "; ".join(lines))

"""Whether the type of the status, and the CHECK constraints of the table, allow each state of a row."""

import asyncpg

from holdfast._core.table_spec import TableSpec
from holdfast.databases.postgres.errors import first_line
from holdfast.rows import messages as wording
from holdfast.rows.postgres import remedies
from holdfast.rows.postgres.catalog import TEXTS, Column, TableFacts
from holdfast.rows.postgres.database import RowsDatabase
from holdfast.rows.postgres.statements import Statements, literal
from holdfast.rows.sql import quoted


async def findings(way: RowsDatabase, watch: TableSpec, facts: TableFacts, statements: Statements) -> tuple[list[str], list[str]]:
    """Return problems and warnings."""
    problems, values = [], wording.values_of(watch)
    status = facts.columns[watch.status]
    for what, value in values.items():
        answer = await way.try_out(f"SELECT {statements.typed(value)}::text, {literal(value)}")
        if isinstance(answer, asyncpg.PostgresError):
            remedy = remedies.admitting(statements.table, status, value, answer)
            problems.append(
                wording.misfit(what, status.name, status.type, f"{first_line(answer)}: {remedy}, or name another value")
            )
        elif status.category == "S" and answer[0][0] != answer[0][1]:
            remedy = f"too short for {value!r}: {remedies.retyped(statements.table, status, 'text')}"
            problems.append(wording.misfit(what, status.name, status.type, remedy))
    return (problems, []) if problems else await _of_checks(way, watch, facts, statements)


async def _of_checks(
    way: RowsDatabase, watch: TableSpec, facts: TableFacts, statements: Statements
) -> tuple[list[str], list[str]]:
    problems, unread = [], []
    states, names = _states(watch, facts, statements)
    for name, expression, columns in await way.ask("checks", TEXTS.of("checks"), facts.oid):
        if not set(columns) & set(names):
            continue
        label = f"the CHECK constraint {quoted(name)}"
        if not set(columns) <= set(names):
            if watch.status in columns:
                unread.append(wording.unread_constraint(watch, label, expression))
            continue
        parts = {"states": states, "columns": ", ".join(map(quoted, names)), "expression": expression}
        answer = await way.try_out(TEXTS.of("allowed", **parts))
        if isinstance(answer, asyncpg.PostgresError):
            unread.append(wording.unread_constraint(watch, label, f"{expression}: {first_line(answer)}"))
        elif answer:
            failing = [state for (state,) in answer]
            remedy = f"`ALTER TABLE {statements.table} DROP CONSTRAINT {quoted(name)}`, ADD another"
            problems.append(wording.forbidden(watch, label, failing, expression, remedy))
    return problems, unread


def _states(watch: TableSpec, facts: TableFacts, statements: Statements) -> tuple[str, list[str]]:
    """Describe a row in each state, by the columns that Holdfast writes."""
    names = [watch.status, watch.claimed_at, *filter(None, (watch.owner, watch.resets, watch.reason))]
    columns = [facts.columns[name] for name in names]
    rows = []
    for what, value in wording.values_of(watch).items():
        cells = [_cell(watch, what, column) for column in columns[1:]]
        label = literal(f"{what}={value!r}")
        rows.append(f"({', '.join([label, statements.typed(value), *cells])})")
    return ", ".join(rows), names


def _cell(watch: TableSpec, what: str, column: Column) -> str:
    is_pending = what == "pending"
    if column.name == watch.claimed_at:
        value = "NULL" if is_pending and not column.is_required else "now()"
    elif column.name == watch.owner:
        value = ("''" if column.is_required else "NULL") if is_pending else "'owner'"
    elif column.name == watch.resets:
        value = "0"
    else:
        value = "'reason'" if what == "failed" else "NULL"
    return f"CAST({value} AS {column.type})"

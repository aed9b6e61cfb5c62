"""Statements for psql that end what a message about a table reports; each stands whole between backticks. Pure functions."""

from typing import Final

import asyncpg

from holdfast._core.table_spec import Value
from holdfast.rows.postgres.catalog import Column
from holdfast.rows.postgres.statements import literal
from holdfast.rows.sql import quoted

_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "citext"})
_SECONDS: Final = frozenset({"int4", "int8", "float4", "float8", "numeric"})


def retyped(table: str, column: Column, kind: str) -> str:
    """Return what gives a column another type."""
    name = quoted(column.name)
    return f"`ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind} USING {name}::{kind}`"


def timed(table: str, column: Column, zone: str) -> str | None:
    """Return what gives a column the type of times; ``None`` where its values are none. ``zone``: that in which they were written."""
    name = quoted(column.name)
    if column.base == "timestamp":
        using = f"{name} AT TIME ZONE {literal(zone)}"
    elif column.base in _SECONDS:
        using = f"to_timestamp({name})"
    elif column.base in _TEXTS or column.base == "date":
        using = f"{name}::timestamptz"
    else:
        return None
    return f"`ALTER TABLE {table} ALTER COLUMN {name} TYPE timestamptz USING {using}`"


def required(table: str, column: str) -> str:
    """Return what forbids NULL in a column."""
    return f"`ALTER TABLE {table} ALTER COLUMN {quoted(column)} SET NOT NULL`"


def admitting(table: str, status: Column, value: Value, refusal: asyncpg.PostgresError) -> str:
    """Return what lets the column of the status hold a value that its type refuses."""
    if isinstance(refusal, asyncpg.CheckViolationError) and refusal.constraint_name:
        return f"`ALTER DOMAIN {status.plain} DROP CONSTRAINT {quoted(refusal.constraint_name)}`, ADD another"
    if status.category == "E":
        return f"`ALTER TYPE {status.base_type} ADD VALUE {literal(value)}`"
    return retyped(table, status, "text")

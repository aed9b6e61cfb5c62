"""Whether a table of PostgreSQL fits its watch: reports everything that does not, at once, and changes nothing."""

from collections.abc import AsyncIterator, Iterator, Sequence

import asyncpg

from holdfast._core.table_spec import TableSpec
from holdfast._ports.table import Findings
from holdfast.databases.postgres.errors import first_line
from holdfast.errors import ConfigurationError
from holdfast.rows import messages as wording
from holdfast.rows.indexes import Wanted, serves
from holdfast.rows.postgres import checks as constraints
from holdfast.rows.postgres import remedies
from holdfast.rows.postgres.catalog import TEXTS, Column, TableFacts, Usable, facts_of, indexes_of, name_of
from holdfast.rows.postgres.database import RowsDatabase
from holdfast.rows.postgres.grants import granting
from holdfast.rows.postgres.statements import Statements
from holdfast.rows.sql import nearest, quoted

OWNER_LENGTH = 64
"""Characters that an owner's name may have."""

BY_HAND = "paste it into psql while no other program writes to the table, or create it on each partition CONCURRENTLY before"
"""How the indexes of a table with partitions are created."""

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_MICROSECONDS = 6
_TEXTS, _NUMBERS = ("text", "varchar", "citext"), ("int2", "int4", "int8", "numeric")
# What every driver reads, hashes and sends back as the same value: numbers, strings, booleans, times, addresses and enums among them.
_NAMING = (*"NSBDTIE", "uuid", "bytea", "macaddr")


async def inspect(way: RowsDatabase, watch: TableSpec) -> Findings:
    """Inspect the table and return all findings."""
    try:
        facts = await facts_of(way, watch)
    except ConfigurationError as error:
        return Findings(problems=tuple(error.problems))
    if isinstance(facts, str):
        return Findings(problems=(facts,))
    if facts.kind not in ("r", "p"):
        return Findings(problems=(wording.not_a_table(watch, _KINDS.get(facts.kind, "no table")),))
    if facts.kind == "r" and facts.has_children:
        heirs = await way.ask("heirs", TEXTS.of("heirs"), facts.oid)
        return Findings(problems=(wording.has_heirs(watch, name_of(watch, facts), [each for (each,) in heirs]),))
    if missing := [*wording.missing_columns(watch, facts.columns)]:
        return Findings(problems=tuple(missing))
    statements, there = Statements(watch, facts), await indexes_of(way, facts)
    problems = [*_of_types(watch, facts), *_of_rights(watch, facts), *_of_key(watch, facts, there)]
    deletes = watch.deletes or watch.retention is not None
    published = await way.ask("published", TEXTS.of("published"), facts.oid, deletes)
    problems += [wording.no_identity(name, publication) for name, publication in published]
    forbidden, unread = await constraints.findings(way, watch, facts, statements)
    problems += forbidden
    if not problems:
        problems = [problem async for problem in _of_contents(way, watch, facts, statements)]
    triggers = await way.ask("triggers", TEXTS.of("triggers"), facts.oid, deletes)
    warnings = [*unread, *_of_time(watch, facts), *_of_nulls(watch, facts)]
    warnings += [wording.surprising_trigger(watch, quoted(name)) for (name,) in triggers]
    indexes = [statements.create_index(want) for want in missing_indexes(statements, watch, there)]
    return Findings(tuple(problems), tuple(warnings), tuple(indexes), BY_HAND if facts.kind == "p" else "")


def missing_indexes(statements: Statements, watch: TableSpec, there: Sequence[Usable]) -> list[Wanted]:
    """List the wanted indexes that no usable index replaces."""
    usable = [each.index for each in there if each.is_valid]
    return [want for want in statements.wanted if not any(serves(index, want, watch) for index in usable)]


def _of_types(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    written = [watch.status, watch.claimed_at, *filter(None, (watch.owner, watch.resets, watch.reason))]
    for column in (facts.columns[name] for name in written):
        if column.is_generated:
            yield wording.misfit("columns", column.name, "generated", "name one that can be written")
    stamp = facts.columns[watch.claimed_at]
    table = name_of(watch, facts)
    for what, column in (("status", facts.columns[watch.status]), *(("key", facts.columns[name]) for name in watch.key)):
        if column.category == "E" and column.plain != column.base_type:
            remedy = f"PostgreSQL has no = for a domain over an enum: {remedies.retyped(table, column, column.base_type)}"
            yield wording.misfit(what, column.name, column.type, remedy)
    if stamp.base not in ("timestamptz", "timestamp"):
        change = remedies.timed(table, stamp, facts.zone)
        yield wording.misfit("claimed_at", stamp.name, stamp.type, f"name one of a time{f', or {change}' if change else ''}")
    elif watch.owner is None and 0 <= stamp.modifier < _MICROSECONDS:
        yield wording.too_coarse(watch, table, stamp.type)
    if watch.stamps is not None:
        yield f"stamps={watch.stamps!r}: column {quoted(stamp.name)} is {stamp.type}, whose form is fixed: leave it out"
    for what, name, kinds in (
        ("owner", watch.owner, _TEXTS),
        ("reason", watch.reason, _TEXTS),
        ("resets", watch.resets, _NUMBERS),
    ):
        if name is not None and facts.columns[name].base not in kinds:
            kind = "text" if kinds == _TEXTS else "integer"
            change = remedies.retyped(table, facts.columns[name], kind)
            yield wording.misfit(what, name, facts.columns[name].type, f"name one of type {kind}, or {change}")
    if watch.owner is not None and 0 <= _length(facts.columns[watch.owner]) < OWNER_LENGTH:
        remedy = f"it needs {OWNER_LENGTH} characters: {remedies.retyped(table, facts.columns[watch.owner], 'text')}"
        yield wording.misfit("owner", watch.owner, facts.columns[watch.owner].type, remedy)


def _of_rights(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    columns, deletes = facts.columns, watch.deletes or watch.retention is not None
    read = {*columns} if watch.columns is None else {*watch.columns, *watch.named.values()}
    written = {watch.status, watch.claimed_at, *filter(None, (watch.owner, watch.resets, watch.reason))}
    lacking = {
        "SELECT": [*sorted(name for name in read if not columns[name].may_read), *([] if facts.may_find else ["ctid"])],
        "UPDATE": sorted(name for name in written if not columns[name].may_write),
        "DELETE": [] if facts.may_delete or not deletes else [""],
    }
    for right, names in lacking.items():
        if names:
            whole = right == "DELETE" or len(names) >= len(columns)
            what = right if whole else f"{right} ({', '.join(map(quoted, names))})"
            grant = f"`GRANT {what} ON {name_of(watch, facts)} TO {facts.reader}`"
            yield f"this user may not {what} in {wording.shown(watch)}: {grant}, or name another user"
    if facts.is_filtered:
        yield (
            f"row security hides rows of {wording.shown(watch)} from this user, and a hidden row stays stuck: "
            f"`ALTER ROLE {facts.reader} BYPASSRLS`, or name the table's owner"
        )


def _of_key(watch: TableSpec, facts: TableFacts, there: Sequence[Usable]) -> Iterator[str]:
    for column in (facts.columns[name] for name in watch.key):
        if column.category not in _NAMING and column.base not in _NAMING:
            yield wording.misfit("key", column.name, column.type, "name one of numbers, texts, uuids or times")
    unique = [each.index.columns for each in there if each.is_unique and each.is_valid]
    if not any(set(columns) <= set(watch.key) for columns in unique):
        yield wording.not_unique(watch, name_of(watch, facts), [[name for name in columns if name] for columns in unique])


async def _of_contents(way: RowsDatabase, watch: TableSpec, facts: TableFacts, statements: Statements) -> AsyncIterator[str]:
    for name in watch.key:
        if not facts.columns[name].is_required:
            ((found,),) = await way.ask("inspect", statements.texts.of("null_key", column=quoted(name)))
            if found:
                yield wording.null_keys(watch, name, remedies.required(name_of(watch, facts), name))
    for name in ("condition", "trial"):
        if isinstance(answer := await way.try_out(statements.texts.of(name)), asyncpg.PostgresError):
            break
    match answer:
        case asyncpg.InsufficientPrivilegeError():
            error = first_line(answer)
            yield wording.wrong_sql(watch, error, granting(error, facts.reader, on_tables="SELECT"))
        case asyncpg.UndefinedColumnError():
            remedy = f"correct the SQL; {nearest(_name_in(first_line(answer)), facts.columns)}"
            yield wording.wrong_sql(watch, first_line(answer), remedy)
        case asyncpg.PostgresError():
            yield wording.wrong_sql(watch, first_line(answer))


def _of_time(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    change = remedies.timed(name_of(watch, facts), facts.columns[watch.claimed_at], facts.zone)
    if facts.columns[watch.claimed_at].base == "timestamp" and facts.zone not in ("UTC", "Etc/UTC", "GMT"):
        yield (
            f"claimed_at: {quoted(watch.claimed_at)} has no time zone, and sessions here have {facts.zone}: when "
            f"its clocks are put forward, rows look an hour older and may be reset too early: {change}"
        )


def _of_nulls(watch: TableSpec, facts: TableFacts) -> Iterator[str]:
    for name in watch.key:
        if not facts.columns[name].is_required:
            yield wording.may_be_null(name, remedies.required(name_of(watch, facts), name))


def _length(column: Column) -> int:
    return column.modifier - 4 if column.base == "varchar" and column.modifier >= 0 else -1


def _name_in(error: str) -> str:
    return error.partition('"')[2].partition('"')[0] or error.split(" ")[1]

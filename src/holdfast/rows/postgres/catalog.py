"""The facts of the catalog about a table, read once, before its statements are made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast._core.table_spec import TableSpec
from holdfast.rows.indexes import Index
from holdfast.rows.messages import missing_table
from holdfast.rows.postgres.database import RowsDatabase
from holdfast.rows.sql import Queries, quoted

TEXTS = Queries(Path(__file__).parent / "queries", {})


class Column(Struct, frozen=True):
    """``type`` and ``plain``, with and without its modifier, as SQL writes them; ``base``, in SQL ``base_type``: of what a domain is
    made."""

    name: str
    type: str
    plain: str
    base: str
    base_type: str
    modifier: int
    category: str
    is_required: bool
    is_generated: bool
    may_read: bool
    may_write: bool

    @property
    def array(self) -> str:
        """The type of an array of them."""
        return "bpchar[]" if self.plain == "character" else f"{self.plain}[]"


class TableFacts(Struct, frozen=True):
    """``kind``: a letter of ``pg_class.relkind``; ``reader``: this user, in SQL. ``is_filtered``: by row security, for
    this user. ``may_find``: it may read where rows are. ``is_touched``: triggers of the user's run with an UPDATE.
    ``has_children``: it has partitions, or other tables inherit from it."""

    oid: int
    kind: str
    schema: str
    zone: str
    reader: str
    is_filtered: bool
    may_find: bool
    may_delete: bool
    is_touched: bool
    has_children: bool
    columns: Mapping[str, Column]


class Usable(Struct, frozen=True):
    """An index, and whether it makes its columns unique."""

    index: Index
    is_unique: bool
    is_valid: bool


async def facts_of(way: RowsDatabase, watch: TableSpec) -> TableFacts | str:
    """Read the facts; a string if there is no such table: the message."""
    name = ".".join(map(quoted, watch.table))
    found = await way.ask("table", TEXTS.of("table"), name)
    if not found:
        schema = watch.table[0] if len(watch.table) > 1 else None
        known = await way.ask("tables", TEXTS.of("tables"), schema, watch.table[-1])
        return missing_table(watch, way.public, [each for (each,) in known])
    columns = [Column(**dict(row)) for row in await way.ask("columns", TEXTS.of("columns"), found[0]["oid"])]
    return TableFacts(**dict(found[0]), columns={column.name: column for column in columns})


def name_of(watch: TableSpec, facts: TableFacts) -> str:
    """Return the table's full name in SQL."""
    return f"{quoted(facts.schema)}.{quoted(watch.table[-1])}"


async def indexes_of(way: RowsDatabase, facts: TableFacts) -> list[Usable]:
    """List the usable indexes, the primary key first."""
    return [_usable(dict(row)) for row in await way.ask("indexes", TEXTS.of("indexes"), facts.oid)]


def _usable(row: dict[str, Any]) -> Usable:
    index = Index(row["name"], tuple(row["columns"]), row["predicate"])
    return Usable(index, row["is_unique"], row["is_valid"])

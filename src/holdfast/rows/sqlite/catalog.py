"""The facts of a SQLite file about a table, read once, before its statements are made."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from holdfast._core.table_spec import TableSpec
from holdfast.rows.indexes import Index
from holdfast.rows.messages import missing_table
from holdfast.rows.sql import Queries
from holdfast.rows.sqlite.database import RowsFile

TEXTS = Queries(Path(__file__).parent / "queries", {})
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)
_EVENTS = ("INSERT", "UPDATE", "DELETE")
TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<word>\w+)"""
    r"""|(?P<sign>.)""",
    re.DOTALL,
)
"""Patterns of the words and signs of SQL."""


class Column(Struct, frozen=True):
    """``type``: as it was written. ``is_key``: of the primary key. ``is_required``: never NULL."""

    name: str
    type: str
    is_required: bool
    is_key: bool
    is_generated: bool

    @property
    def affinity(self) -> str:
        """The affinity by SQLite's rules, https://www.sqlite.org/datatype3.html#determination_of_column_affinity."""
        written = self.type.upper()
        if "INT" in written:
            return "INTEGER"
        if any(part in written for part in ("CHAR", "CLOB", "TEXT")):
            return "TEXT"
        if not written or "BLOB" in written:
            return "BLOB"
        return "REAL" if any(part in written for part in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


class TableFacts(Struct, frozen=True):
    """``kind``: table, view or virtual table; ``sql``: how it was made. ``unique``: sets of columns that no two rows share.
    ``triggers``: their names and events."""

    kind: str
    sql: str
    columns: Mapping[str, Column]
    unique: tuple[tuple[str, ...], ...]
    indexes: tuple[Index, ...]
    triggers: tuple[tuple[str, str], ...]

    @property
    def is_strict(self) -> bool:
        """Return whether its columns take nothing but their types."""
        return re.search(r"\bSTRICT\b[^)]*$", self.sql, re.IGNORECASE) is not None


def facts_of(file: RowsFile, watch: TableSpec) -> TableFacts | str:
    """Read the facts; a string if there is no such table: the message."""
    name = watch.table[-1]
    if watch.table[:-1] not in ((), ("main",)):
        return f"a SQLite file has no schemas, so {watch.table[0]!r} cannot be one: write {name!r}"
    found = file.ask("inspect", TEXTS.of("table"), {"name": name})
    if not found:
        return missing_table(watch, str(file.path), [each for (each,) in file.ask("inspect", TEXTS.of("tables"))])
    ((kind, sql),) = found
    read = file.ask("inspect", TEXTS.of("columns"), {"name": name})
    number_of_keys = sum(1 for _, _, _, place, _ in read if place)
    has_no_rowid = re.search(r"\bWITHOUT\s+ROWID\b[^)]*$", sql, re.IGNORECASE) is not None
    columns = {}
    for column, type_, is_required, place, hidden in read:
        is_rowid = number_of_keys == 1 and bool(place) and type_.upper() == "INTEGER"
        required = bool(is_required) or is_rowid or bool(place and has_no_rowid)
        if hidden != 1:
            columns[column] = Column(column, type_, required, bool(place), hidden in (2, 3))
    is_virtual = sql.upper().startswith("CREATE VIRTUAL")
    key = tuple(column.name for column in columns.values() if column.is_key)
    unique, indexes = _indexes(file, name)
    whole = (*([key] if key else []), *unique)
    return TableFacts("virtual table" if is_virtual else kind, sql, columns, whole, indexes, tuple(_triggers(file, name)))


def _triggers(file: RowsFile, name: str) -> Iterator[tuple[str, str]]:
    for trigger, sql in file.ask("inspect", TEXTS.of("triggers"), {"name": name}):
        words = (token["word"].upper() for token in TOKEN.finditer(sql) if token["word"])
        if event := next((word for word in words if word in _EVENTS), None):
            yield trigger, event


def _indexes(file: RowsFile, name: str) -> tuple[list[tuple[str, ...]], tuple[Index, ...]]:
    parts: dict[str, list[str | None]] = {}
    about: dict[str, tuple[bool, bool, str | None]] = {}
    for index, is_unique, is_partial, column, sql in file.ask("inspect", TEXTS.of("indexes"), {"name": name}):
        parts.setdefault(index, []).append(column)
        about[index] = bool(is_unique), bool(is_partial), sql
    whole = [
        tuple(column for column in parts[each] if column is not None)
        for each, (is_unique, is_partial, _) in about.items()
        if is_unique and not is_partial and None not in parts[each]
    ]
    indexes = [
        Index(each, tuple(parts[each]), _WHERE.split(sql or "", maxsplit=1)[-1] if is_partial else None)
        for each, (_, is_partial, sql) in about.items()
    ]
    return whole, tuple(indexes)

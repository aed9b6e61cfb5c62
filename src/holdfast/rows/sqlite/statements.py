"""The statements for one table: its names, and the values of its status, put into the files of ``queries``."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.json import encode

from holdfast._core.table_spec import Key, RowOutcome, TableSpec, Value
from holdfast._core.text import storable_text
from holdfast._ports.table import RowFence
from holdfast.rows.assignments import Assignments, Dialect
from holdfast.rows.indexes import Wanted, wanted
from holdfast.rows.records import Reader, Record, keys_of
from holdfast.rows.sql import Queries, ended, quoted
from holdfast.rows.sqlite.catalog import TableFacts
from holdfast.rows.sqlite.forms import Stamp, form_of

MOST_VALUES = 32_000
"""The most values in one statement: SQLite takes 32,766."""

_FOLDER = Path(__file__).parent / "queries"
_FENCE, _NOW, _REASON = "?1", "?2", "?3"
_PLACES = [f"?{number}" for number in range(4, 4 + MOST_VALUES)]
_NUL = rb"\u0000"  # how SQLite reads it in a list depends on its release


class Statements:
    """Makes the SQL statement of each verb; no method runs it. Keys are bound by number: by name they would take quadratic time."""

    def __init__(self, watch: TableSpec, facts: TableFacts) -> None:
        self._watch, self._facts = watch, facts
        self.form = form_of(watch, facts.columns)
        read = tuple(facts.columns) if watch.columns is None else tuple(dict.fromkeys((*watch.key, *watch.columns)))
        # Columns that a claim writes need not be read from each row: that saves a sixth of its time.
        self._written = tuple(name for name in (watch.status, watch.claimed_at, watch.owner) if name in read)
        self._read = [name for name in read if name not in self._written]
        self._reader = Reader(read, self._written)
        self.texts = Queries(_FOLDER, self._parts())
        self.finds_fences = False
        """Whether all rows of a fence are found along an index, and no trigger makes other rows like them."""

    def fence_of(self, stamp: Stamp, owner: str) -> RowFence:
        """Return the fence of a batch."""
        return RowFence(str(stamp), owner if self._watch.owner else "")

    def fence_value(self, fence: RowFence) -> Stamp:
        """Return the value that the rows of a batch hold."""
        if self._watch.owner is not None:
            return fence.owner
        return self.form.read(fence.stamp)

    def keys_of(self, rows: Sequence[tuple[Any, ...]]) -> tuple[Key, ...]:
        """Take the keys from a claim's answer."""
        return keys_of(rows, [self._read.index(name) for name in self._watch.key])

    def records_of(self, rows: Sequence[tuple[Any, ...]], stamp: Stamp, owner: str) -> tuple[Record, ...]:
        """Make the full rows from the answer of a claim with that stamp, for that owner."""
        written = {self._watch.status: self._in_progress, self._watch.claimed_at: stamp, self._watch.owner: owner}
        return tuple(self._reader.records(rows, *(written[name] for name in self._written)))

    @cached_property
    def claim(self) -> str:
        """The statement that claims rows and returns their columns, without those that it writes."""
        return self.claim_of("")

    def claim_of(self, among: str, *, is_begun: bool = False) -> str:
        """Make the statement that claims a part of a batch. ``is_begun``: rows of other parts have the batch's fence already."""
        fence_value = "0" if is_begun else self._fence(":now" if self._watch.owner is None else ":owner")
        return self.texts.of("claim", taken=self._changes(":now").taken(":owner", ":now"), fence=fence_value, among=among)

    @cached_property
    def held(self) -> str:
        """The statement that returns the keys of a fence's rows, in the order in which they were due."""
        return self.texts.of("held", fence=self._fence(":fence"))

    @property
    def is_touched(self) -> bool:
        """Return whether a trigger of the user's runs with each claim, and may change what the claim writes."""
        return any(event == "UPDATE" for _, event in self._facts.triggers)

    def move(
        self,
        fence: RowFence,
        keys: Sequence[Key],
        end: RowOutcome,
        reason: str,
        now: Callable[[], float],
        *,
        returns_keys: bool = True,
    ) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the statements that move rows, each with its values. With ``returns_keys`` each returns the keys of those that moved."""
        name = "remove" if end is RowOutcome.DONE and self._watch.deletes else "move"
        # Along the keys, and not along an index whose entries the statement itself removes: so it needs one pass.
        parts = {"moved": self._changes(_NOW).moved(end, _REASON), "fence": f"+{self._fence(_FENCE)}"}
        parts["told"] = f"RETURNING {', '.join(map(quoted, self._watch.key))}" if returns_keys else ""
        for part in _parts_of(keys, len(self._watch.key)):
            given, values = _given(part)
            yield (
                self.texts.of(name, keys=given, **parts),
                (self.fence_value(fence), self.form.stamp(now()), storable_text(reason), *values),
            )

    def move_all(self, fence: RowFence, end: RowOutcome, reason: str, now: Callable[[], float]) -> tuple[str, tuple[Any, ...]]:
        """Make the statement that moves all rows of a fence: to send and read a thousand keys would take longer than the move."""
        name = "remove_all" if end is RowOutcome.DONE and self._watch.deletes else "move_all"
        sql = self.texts.of(
            name, moved=self._changes(_NOW).moved(end, _REASON), fence=f"+{self._fence(_FENCE)}", stamp=_PLACES[0]
        )
        return sql, (self.fence_value(fence), self.form.stamp(now()), storable_text(reason), self.form.read(fence.stamp))

    def undone(self, keys: Sequence[Key]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield statements, each with its values, that count how many of these rows are in progress."""
        for part in _parts_of(keys, len(self._watch.key)):
            given, values = _given(part)
            yield self.texts.of("undone", keys=given), (None, None, None, *values)

    def release(self, among: str = "") -> str:
        """Make the statement that releases the rows of a fence and returns their number."""
        return self.texts.of(
            "release", moved=self._changes(":now").moved(RowOutcome.RETRY), fence=self._fence(":fence"), among=among
        )

    def renew(self) -> str:
        """Make the statement that gives a fence's rows a new stamp and returns their number."""
        return self.texts.of("renew", fence=self._fence(":fence"))

    def reset(self, keys: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the statements that reset rows by stamp and key, each with its values. Each returns whether the row failed, and its key."""
        for part in _parts_of(keys, len(self._watch.key) + 1):
            given, values = _given(part)
            yield self.texts.of("reset", moved=self._changes(_NOW).reset(), keys=given), (None, None, None, *values)

    def among(self, keys: Sequence[Key] | None) -> tuple[str, dict[str, Any]]:
        """Return a condition that restricts a statement to these rows, a part of a batch, and its values by name."""
        if keys is None:
            return "", {}
        values = {f"k{place}": value for place, value in enumerate(value for key in keys for value in key)}
        places, width = [f":{name}" for name in values], len(self._watch.key)
        rows = (f"({', '.join(places[start : start + width])})" for start in range(0, len(places), width))
        return f"AND {self._parts()['these']} IN (VALUES {', '.join(rows)})", values

    def candidates(self, verb: str) -> str:
        """Make the statement that returns the keys of the rows that a verb would change."""
        part = self._parts()
        held = f"{part['status']} = {part['in_progress']}"
        unjudged = f"{part['claimed_at']} IS NULL OR {part['since']} > :ahead AND {part['readable']}"
        kept = f"{part['since']} >= :from AND {part['since']} < :forgettable AND {part['readable']}"
        which, order = {
            "claim": (part["due"], part["order"]),
            "release": (f"{held} AND {self._fence(':fence')}", ""),
            "adopt": (f"{held} AND ({unjudged})", ""),
            "prune": (f"{part['status']} = {part['done']} AND {kept}", f"ORDER BY {part['since']}"),
        }[verb]
        return self.texts.of("candidates", which=which, order=order)

    # indexes

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """List the indexes that the table should have."""
        return wanted(self._watch, self._facts.columns, folds=False, since=self.form.since_of)

    def create_index(self, want: Wanted) -> str:
        """Make the statement that creates an index; writers wait until it is done."""
        where = f"{quoted(self._watch.status)} = {literal(want.status)}"
        return f"CREATE INDEX IF NOT EXISTS {quoted(want.name)} ON {quoted(self._watch.table[-1])} ({want.columns}) WHERE {where}"

    # parts

    @cached_property
    def _in_progress(self) -> Any:
        """Return the status of a claimed row as it is read: the type of its column may change the value."""
        status = self._facts.columns[self._watch.status]
        with closing(sqlite3.connect(":memory:")) as scratch:
            scratch.execute(f"CREATE TABLE scratch (status {status.type}) {'STRICT' if self._facts.is_strict else ''}")
            scratch.execute(f"INSERT INTO scratch VALUES ({literal(self._watch.in_progress)})")  # noqa: S608 - a literal
            return scratch.execute("SELECT status FROM scratch").fetchone()[0]

    def _changes(self, now: str) -> Assignments:
        required = frozenset(column.name for column in self._facts.columns.values() if column.is_required)
        return Assignments(self._watch, Dialect(literal=literal, typed=literal, cut=str, now=now, own="", required=required))

    def _fence(self, place: str) -> str:
        return f"{quoted(self._watch.owner or self._watch.claimed_at)} = {place}"

    def _parts(self) -> dict[str, str]:
        watch = self._watch
        key = ", ".join(map(quoted, watch.key))
        may_be_null = [f"{quoted(name)} IS NOT NULL" for name in watch.key if not self._facts.columns[name].is_required]
        due = [f"{quoted(watch.status)} = {literal(watch.pending)}", f"(\n{watch.where}\n)", *may_be_null]
        return {
            "table": quoted(watch.table[-1]),
            "key": key,
            "these": f"({key})" if len(watch.key) > 1 else key,
            "columns": ", ".join(map(quoted, self._read)),
            "status": quoted(watch.status),
            "claimed_at": quoted(watch.claimed_at),
            "since": self.form.since_of,
            "readable": self.form.readable,
            "pending": literal(watch.pending),
            "in_progress": literal(watch.in_progress),
            "done": literal(watch.done),
            "where": watch.where,
            "due": " AND ".join(due),
            "order": f"ORDER BY {ended(watch.order_by)}" if watch.order_by else "",
            "whose": "NULL" if watch.owner is None else quoted(watch.owner),
            "held": self.form.held,
            "among": "",
        }


def literal(value: Value) -> str:
    """Write a value of any type, as SQLite reads it; it has no booleans.

    >>> print(literal("it's"), literal(3), literal(True))
    'it''s' 3 1
    """
    if not isinstance(value, str):
        return str(int(value))
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _parts_of(keys: Sequence[Any], width: int) -> Iterator[Sequence[Any]]:
    most = MOST_VALUES // width
    return (keys[start : start + most] for start in range(0, len(keys), most))


def _given(keys: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
    """Return what follows IN, and its values: one list where that is possible, because to compile a thousand placeholders takes
    longer than to look for their rows."""
    width, values = len(keys[0]), [value for key in keys for value in key]
    if width == 1 and {*map(type, values)} <= {int, str} and _NUL not in (written := encode(values)):
        return f"SELECT value FROM json_each({_PLACES[0]})", [written.decode()]  # noqa: S608 - a place
    rows = (f"({', '.join(_PLACES[start : start + width])})" for start in range(0, len(values), width))
    return f"VALUES {', '.join(rows)}", values

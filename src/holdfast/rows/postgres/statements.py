"""The statements for one table: its names and types, and the values of its status, put into the files of ``queries``."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast._core.table_spec import Key, RowOutcome, TableSpec, Value
from holdfast._core.text import storable_text
from holdfast._ports.table import RowFence
from holdfast.rows.assignments import Assignments, Dialect
from holdfast.rows.indexes import Wanted, wanted
from holdfast.rows.postgres.catalog import TableFacts, name_of
from holdfast.rows.sql import Queries, ended, quoted

_FOLDER = Path(__file__).parent / "queries"
_STAMP = """'YYYY-MM-DD"T"HH24:MI:SS.US'"""
# Once for each statement. A savepoint that is rolled back reverts the count together with the rows.
_COUNTED = """
    (SELECT set_config('holdfast_rows.moves', (current_setting('holdfast_rows.moves')::int + 1)::text, true)) IS NOT NULL
"""
Question = tuple[Any, ...]
"""A statement and its values."""
Keys = Sequence[Key] | None
"""The keys of a part of a batch; ``None`` for all rows there are."""


class Statements:
    """Makes the SQL statement of each verb, with its values. No method runs it."""

    def __init__(self, watch: TableSpec, facts: TableFacts) -> None:
        self._watch, self._facts = watch, facts
        self._stamp, self._status = facts.columns[watch.claimed_at], facts.columns[watch.status]
        self._keys = [facts.columns[name] for name in watch.key]
        self.texts = Queries(_FOLDER, self._parts())
        required = frozenset(column.name for column in facts.columns.values() if column.is_required)
        self._changes = Assignments(
            watch, Dialect(literal=literal, typed=self.typed, cut=self._cut, now=self._ago(0.0), own="own.", required=required)
        )

    # moving

    def claim(self, owner: str, limit: int, keys: Keys = None) -> Question:
        """Make the statement that claims rows.

        It returns for each row: its ctid, its stamp, whether the row is as it was written, and its columns.
        """
        shared = (limit,) if self._watch.owner is None else (limit, owner)
        if keys is None:
            return self._claim, *shared
        among, values = self._among(keys, 1 + len(shared))
        return self._claiming(among), *shared, *values

    def move(
        self,
        fence: RowFence,
        keys: Sequence[Key],
        end: RowOutcome,
        reason: str = "",
        *,
        returns_keys: bool = True,
        is_counted: bool = False,
    ) -> Question:
        """Make the statement that moves rows; with ``returns_keys`` it returns the keys of those that moved.

        ``is_counted``: it also counts the move, so that the end of the transaction can detect a savepoint that reverted it.
        """
        place = len(self._keys) + 1
        arrays = [list(values) for values in zip(*keys, strict=True)]
        values: list[Any] = [*arrays, self._fenced_by(fence)]
        has_reason = end is RowOutcome.FAIL and self._watch.reason is not None
        if has_reason:
            values.append(storable_text(reason))
        returned = f"RETURNING {', '.join(f'own.{quoted(name)}' for name in self._watch.key)}" if returns_keys else ""
        parts = {
            "these": self._these(),
            "fence": self._fence(place),
            "told": returned,
            "counted": _COUNTED if is_counted else "true",
        }
        if end is RowOutcome.DONE and self._watch.deletes:
            return (self.texts.of("remove", **parts), *values)
        return (
            self.texts.of("move", **parts, moved=self._changes.moved(end, f"${place + 1}::text" if has_reason else None)),
            *values,
        )

    def release(self, fence: RowFence, keys: Keys = None) -> Question:
        """Make the statement that releases the rows of a fence and returns their number."""
        among, values = self._among(keys, 2)
        sql = self.texts.of("release", fence=self._fence(1), moved=self._changes.moved(RowOutcome.RETRY), among=among)
        return sql, self._fenced_by(fence), *values

    def renew(self, fence: RowFence) -> Question:
        """Make the statement that gives a fence's rows a new stamp, and returns their number and that stamp."""
        return self.texts.of("renew", fence=self._fence(1)), self._fenced_by(fence)

    @property
    def is_touched(self) -> bool:
        """Return whether a trigger of the user's runs with each claim, and may change what the claim writes."""
        return self._facts.is_touched

    def reset(self, limit: int, past: int = 0, keys: Keys = None) -> Question:
        """Make the statement that resets stuck rows, oldest first, without the first ``past``.

        It returns for each row: whether the row failed, its owner, for how many seconds that had it, and its key.
        """
        among, values = self._among(keys, 3)
        return self.texts.of("reset", moved=self._changes.reset(), among=among), limit, past, *values

    def adopt(self, limit: int, keys: Keys = None) -> Question:
        """Make the statement that stamps rows without a valid stamp, and returns their keys."""
        among, values = self._among(keys, 2)
        return self.texts.of("adopt", among=among), limit, *values

    def prune(self, limit: int, keys: Keys = None) -> Question:
        """Make the statement that deletes rows past their retention, and returns their number."""
        among, values = self._among(keys, 2)
        return self.texts.of("prune", forgettable=self._forgettable, among=among), limit, *values

    def candidates(self, verb: str, most: int, fence: RowFence | None = None) -> Question:
        """Make the statement that returns the keys of the rows that a verb would change."""
        part = self._parts()
        held, oldest = f"{part['status']} = {part['in_progress']}", f"ORDER BY {part['claimed_at']}"
        which, order = {
            "claim": (part["due"], part["order"]),
            "release": (f"{held} AND {self._fence(2)}", ""),
            "adopt": (f"{held} AND ({part['claimed_at']} IS NULL OR {part['claimed_at']} > {part['ahead']})", ""),
            "reset": (f"{held} AND {part['claimed_at']} < {part['stale']}", oldest),
            "prune": (f"{part['status']} = {part['done']} AND {part['claimed_at']} < {self._forgettable}", oldest),
        }[verb]
        source = self.table if fence is None else f"{self.table} AS own"
        values = [] if fence is None else [self._fenced_by(fence)]
        return self.texts.of("candidates", source=source, which=which, order=order), most, *values

    # indexes

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """List the indexes that the table should have."""
        return wanted(self._watch, self._facts.columns, folds=True)

    def create_index(self, want: Wanted) -> str:
        """Make the statement that creates an index. It blocks writers only where the table has partitions: there it cannot avoid that."""
        words = "CREATE INDEX" if self._facts.kind == "p" else "CREATE INDEX CONCURRENTLY"
        where = f"{quoted(self._watch.status)} = {literal(want.status)}"
        return f"{words} IF NOT EXISTS {quoted(want.name)} ON {self.table} ({want.columns}) WHERE {where}"

    def drop_index(self, want: Wanted) -> str:
        """Make the statement that drops an index whose creation was begun and never finished."""
        return f"DROP INDEX CONCURRENTLY IF EXISTS {quoted(self._facts.schema)}.{quoted(want.name)}"

    # parts

    @property
    def table(self) -> str:
        """The table's full name in SQL."""
        return name_of(self._watch, self._facts)

    def typed(self, value: Value) -> str:
        """Write a value of the status with its type, where its context does not make the type clear."""
        return f"CAST({literal(value)} AS {self._status.type})"

    @cached_property
    def _claim(self) -> str:
        return self._claiming("")

    def _claiming(self, among: str) -> str:
        is_plain = self._watch.order_by is None and self._facts.kind != "p"
        stamp = "(SELECT at FROM stamp)"
        fence = (self._watch.owner, "$2") if self._watch.owner else (self._watch.claimed_at, stamp)
        return self.texts.of(
            "claim_any" if is_plain else "claim",
            unique=self._unique(),
            taken=self._changes.taken("$2", stamp),
            told="NULL::text" if self._watch.owner else f"(SELECT {self._as_text('at')} FROM stamp)",  # noqa: S608 - only a format
            ours=f"own.{quoted(fence[0])} = {fence[1]}",
            among=among,
        )

    def _parts(self) -> dict[str, str]:
        watch = self._watch
        names = [quoted(name) for name in watch.key]
        may_be_null = [f"{quoted(column.name)} IS NOT NULL" for column in self._keys if not column.is_required]
        due = [f"{quoted(watch.status)} = {literal(watch.pending)}", f"(\n{watch.where}\n)", *may_be_null]
        read = [*watch.key, *(name for name in watch.columns or () if name not in watch.key)]
        return {
            "table": self.table,
            "key": ", ".join(names),
            "own_key": ", ".join(f"own.{name}" for name in names),
            "same": " AND ".join(f"own.{name} = given.{name}" for name in names),
            "columns": "own.*" if watch.columns is None else ", ".join(f"own.{quoted(name)}" for name in read),
            "status": quoted(watch.status),
            "claimed_at": quoted(watch.claimed_at),
            "pending": literal(watch.pending),
            "in_progress": literal(watch.in_progress),
            "done": literal(watch.done),
            "where": watch.where,
            "due": " AND ".join(due),
            "order": f"ORDER BY {ended(watch.order_by)}" if watch.order_by else "",
            "whose": "NULL::text" if watch.owner is None else f"{quoted(watch.owner)}::text",
            "now": self._ago(0.0),
            "stale": self._ago(watch.stale_after),
            "ahead": self._ago(-watch.stale_after),
            "stamp": self._as_text(f"own.{quoted(watch.claimed_at)}"),
        }

    @property
    def _has_zone(self) -> bool:
        return self._stamp.base == "timestamptz"

    def _as_text(self, stamp: str) -> str:
        return f"to_char({stamp}{' AT TIME ZONE ' + repr('UTC') if self._has_zone else ''}, {_STAMP})"

    def _ago(self, seconds: float) -> str:
        return f"CAST(now() - interval '{seconds:.6f} seconds' AS {self._stamp.type})"

    @property
    def _forgettable(self) -> str:
        return self._ago(self._watch.retention or 0.0)

    def _among(self, keys: Keys, first: int) -> tuple[str, list[Any]]:
        """Return a condition that restricts a statement to these rows, a part of a batch, and its values, numbered from ``first`` on."""
        if keys is None:
            return "", []
        return f"AND {self._these('', first)}", [list(values) for values in zip(*keys, strict=True)]

    def _these(self, own: str = "own.", first: int = 1) -> str:
        """Return a condition on the keys that uses an index of the key, even where the planner has no statistics."""
        arrays = [f"${number}::{column.array}" for number, column in enumerate(self._keys, first)]
        names = [f"{own}{quoted(column.name)}" for column in self._keys]
        among = [f"{name} = ANY({array})" for name, array in zip(names, arrays, strict=True)]
        if len(names) > 1:
            together = f"unnest({', '.join(arrays)})"
            among.append(f"({', '.join(names)}) IN (SELECT * FROM {together})")  # noqa: S608 - only places and types
        return " AND ".join(among)

    def _unique(self) -> str:
        """Return an SQL expression for a stamp that no other claim has.

        With an owner column the stamp need not be unique. Else its microseconds are the transaction's number modulo 1000: two claims
        with the same stamp would need a thousand transactions in between, in one millisecond.
        """
        if self._watch.owner is not None:
            return self._ago(0.0)
        number = "pg_current_xact_id()::text::bigint % 1000"
        return f"CAST(date_trunc('milliseconds', now()) + ({number}) * interval '1 microsecond' AS {self._stamp.type})"

    def _fence(self, place: int) -> str:
        if self._watch.owner is not None:
            return f"own.{quoted(self._watch.owner)} = ${place}"
        read = f"CAST(${place}::text AS timestamp)"
        return (
            f"own.{quoted(self._watch.claimed_at)} = {f'({read} AT TIME ZONE {chr(39)}UTC{chr(39)})' if self._has_zone else read}"
        )

    def _fenced_by(self, fence: RowFence) -> str:
        return fence.stamp if self._watch.owner is None else fence.owner

    def _cut(self, reason: str) -> str:
        # Only an explicit cast cuts a string to the length of its column.
        return f"CAST({reason} AS {self._facts.columns[self._watch.reason or ''].type})"


def literal(value: Value) -> str:
    """Write a value of any type, as PostgreSQL reads it under any setting of ``standard_conforming_strings``.

    >>> print(literal("it's"), literal("a\\\\b"), literal(3), literal(True))
    'it''s' E'a\\\\b' '3' 'true'
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    escaped = text.replace("'", "''").replace("\\", r"\\")
    return f"E'{escaped}'" if "\\" in text else f"'{escaped}'"

"""The statements for one table: its names and types, and the values of its status, put into the files of ``queries``."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast._core.texts import text
from holdfast._core.watch import End, Key, Value, Watch
from holdfast._ports.rows import Mark
from holdfast.rows.changes import Changes, Dialect
from holdfast.rows.indexes import Wanted, wanted
from holdfast.rows.postgres.facts import Facts
from holdfast.rows.spelling import Texts, ended, quoted

_FOLDER = Path(__file__).parent / "queries"
_STAMP = """'YYYY-MM-DD"T"HH24:MI:SS.US'"""
# Once for each statement. A savepoint that is rolled back takes the count back with the rows.
_COUNTED = """
    (SELECT set_config('holdfast_rows.moves', (current_setting('holdfast_rows.moves')::int + 1)::text, true)) IS NOT NULL
"""
Question = tuple[Any, ...]
"""A statement and its values."""


class Statements:
    """What each verb asks."""

    def __init__(self, watch: Watch, facts: Facts) -> None:
        self._watch, self._facts = watch, facts
        self._stamp, self._status = facts.columns[watch.claimed_at], facts.columns[watch.status]
        self._keys = [facts.columns[name] for name in watch.key]
        self.texts = Texts(_FOLDER, self._parts())
        required = frozenset(column.name for column in facts.columns.values() if column.is_required)
        self._changes = Changes(
            watch, Dialect(literal=literal, typed=self.typed, cut=self._cut, now=self._ago(0.0), own="own.", required=required)
        )

    # moving

    def claim(self, owner: str, limit: int) -> Question:
        """Rows: their place, their stamp, whether they are as they were written, their columns."""
        return (self._claim, limit) if self._watch.owner is None else (self._claim, limit, owner)

    def move(
        self, mark: Mark, keys: Sequence[Key], end: End, reason: str = "", *, is_told: bool = True, is_counted: bool = False
    ) -> Question:
        """Rows: their keys, if that ``is_told``. ``is_counted``: the caller's transaction can tell whether the move is kept."""
        place = len(self._keys) + 1
        arrays = [list(values) for values in zip(*keys, strict=True)]
        values: list[Any] = [*arrays, self._fenced_by(mark)]
        has_reason = end is End.FAIL and self._watch.reason is not None
        if has_reason:
            values.append(text(reason))
        told = f"RETURNING {', '.join(f'own.{quoted(name)}' for name in self._watch.key)}" if is_told else ""
        parts = {"these": self._these(), "fence": self._fence(place), "told": told, "counted": _COUNTED if is_counted else "true"}
        if end is End.DONE and self._watch.deletes:
            return (self.texts.of("remove", **parts), *values)
        return (
            self.texts.of("move", **parts, moved=self._changes.moved(end, f"${place + 1}::text" if has_reason else None)),
            *values,
        )

    def release(self, mark: Mark) -> Question:
        """How many."""
        return self.texts.of("release", fence=self._fence(1), moved=self._changes.moved(End.RETRY)), self._fenced_by(mark)

    def renew(self, mark: Mark) -> Question:
        """How many, and their stamp."""
        return self.texts.of("renew", fence=self._fence(1)), self._fenced_by(mark)

    @property
    def is_touched(self) -> bool:
        """Whether somebody else's code runs with each claim, and may change what it writes."""
        return self._facts.is_touched

    @cached_property
    def reset(self) -> str:
        """Rows: whether each failed, whose it was, for how long, its key."""
        return self.texts.of("reset", moved=self._changes.reset())

    @cached_property
    def adopt(self) -> str:
        """Rows: their keys."""
        return self.texts.of("adopt")

    @cached_property
    def prune(self) -> str:
        """How many."""
        return self.texts.of("prune", forgettable=self._ago(self._watch.retention or 0.0))

    # indexes

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """Which indexes it should have."""
        return wanted(self._watch, self._facts.columns, folds=True)

    def create_index(self, want: Wanted) -> str:
        """Nobody waits for it, unless the table has partitions: then that is not possible."""
        words = "CREATE INDEX" if self._facts.kind == "p" else "CREATE INDEX CONCURRENTLY"
        where = f"{quoted(self._watch.status)} = {literal(want.status)}"
        return f"{words} IF NOT EXISTS {quoted(want.name)} ON {self.table} ({want.columns}) WHERE {where}"

    def drop_index(self, want: Wanted) -> str:
        """One that was begun and never finished."""
        return f"DROP INDEX CONCURRENTLY IF EXISTS {quoted(self._facts.schema)}.{quoted(want.name)}"

    # parts

    @property
    def table(self) -> str:
        """Its whole name."""
        return f"{quoted(self._facts.schema)}.{quoted(self._watch.table[-1])}"

    def typed(self, value: Value) -> str:
        """A value of the status where its type is not clear from what stands beside it."""
        return f"CAST({literal(value)} AS {self._status.type})"

    @cached_property
    def _claim(self) -> str:
        is_plain = self._watch.order_by is None and self._facts.kind != "p"
        stamp = "(SELECT at FROM stamp)"
        fence = (self._watch.owner, "$2") if self._watch.owner else (self._watch.claimed_at, stamp)
        return self.texts.of(
            "claim_any" if is_plain else "claim",
            unique=self._unique(),
            taken=self._changes.taken("$2", stamp),
            told="NULL::text" if self._watch.owner else f"(SELECT {self._said('at')} FROM stamp)",  # noqa: S608 - only a format
            ours=f"own.{quoted(fence[0])} = {fence[1]}",
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
            "stamp": self._said(f"own.{quoted(watch.claimed_at)}"),
        }

    @property
    def _has_zone(self) -> bool:
        return self._stamp.base == "timestamptz"

    def _said(self, stamp: str) -> str:
        return f"to_char({stamp}{' AT TIME ZONE ' + repr('UTC') if self._has_zone else ''}, {_STAMP})"

    def _ago(self, seconds: float) -> str:
        return f"CAST(now() - interval '{seconds:.6f} seconds' AS {self._stamp.type})"

    def _these(self) -> str:
        """Those of the keys, along an index of the key even where nothing is known of the table."""
        arrays = [f"${number}::{column.array}" for number, column in enumerate(self._keys, 1)]
        names = [f"own.{quoted(column.name)}" for column in self._keys]
        among = [f"{name} = ANY({array})" for name, array in zip(names, arrays, strict=True)]
        if len(names) > 1:
            together = f"unnest({', '.join(arrays)})"
            among.append(f"({', '.join(names)}) IN (SELECT * FROM {together})")  # noqa: S608 - only places and types
        return " AND ".join(among)

    def _unique(self) -> str:
        """A stamp that no other claim has: two may begin in one microsecond, but not a thousand transactions in between."""
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

    def _fenced_by(self, mark: Mark) -> str:
        return mark.stamp if self._watch.owner is None else mark.owner

    def _cut(self, reason: str) -> str:
        # Only a cast that is written down cuts a text to the length of its column.
        return f"CAST({reason} AS {self._facts.columns[self._watch.reason or ''].type})"


def literal(value: Value) -> str:
    """A value of whatever type, as PostgreSQL reads it whatever ``standard_conforming_strings`` says.

    >>> print(literal("it's"), literal("a\\\\b"), literal(3), literal(True))
    'it''s' E'a\\\\b' '3' 'true'
    """
    said = str(value).lower() if isinstance(value, bool) else str(value)
    escaped = said.replace("'", "''").replace("\\", r"\\")
    return f"E'{escaped}'" if "\\" in said else f"'{escaped}'"

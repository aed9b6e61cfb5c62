"""The values written into a row when a worker claims it, finishes it or loses it: the same in every database."""

from collections.abc import Callable

from msgspec import Struct

from holdfast._core.table_spec import RowOutcome, TableSpec, Value
from holdfast.errors import ConfigurationError
from holdfast.rows.sql import quoted


class Dialect(Struct, frozen=True):
    """How a database writes things. ``typed``: a value whose type is not clear from its context. ``cut``: a reason as
    its column can hold it. ``own``: the prefix of a column of the row. ``required``: columns that must not be NULL."""

    literal: Callable[[Value], str]
    typed: Callable[[Value], str]
    cut: Callable[[str], str]
    now: str
    own: str
    required: frozenset[str]


class Assignments:
    """Makes the list of ``column = value`` for each UPDATE that changes the state of a row."""

    def __init__(self, watch: TableSpec, dialect: Dialect) -> None:
        self._watch, self._dialect = watch, dialect

    def taken(self, owner: str, stamp: str) -> str:
        """Return the assignments when an owner claims a row, now."""
        watch, literal = self._watch, self._dialect.literal
        taken = {watch.status: literal(watch.in_progress), watch.claimed_at: stamp}
        return _set(taken if watch.owner is None else {**taken, watch.owner: owner})

    def moved(self, end: RowOutcome, reason: str | None = None) -> str:
        """Return the assignments when its owner finishes a row. ``ConfigurationError`` where the spec has no status for failed rows."""
        watch, literal = self._watch, self._dialect.literal
        match end:
            case RowOutcome.DONE:
                # The stamp shows for how long a finished row has been kept; no other column holds that time.
                restamped = {} if watch.retention is None else {watch.claimed_at: self._dialect.now}
                return _set({watch.status: literal(watch.done), **restamped})
            case RowOutcome.RETRY:
                return _set({watch.status: literal(watch.pending), **self._unowned()})
            case RowOutcome.FAIL:
                if watch.failed is None:
                    raise ConfigurationError([f"rows {watch.name}: name the status of a failed row, as failed='FAILED'"])
                details = {} if watch.reason is None or reason is None else {watch.reason: self._dialect.cut(reason)}
                return _set({watch.status: literal(watch.failed), **details})

    def reset(self) -> str:
        """Return the assignments when a row is taken from its owner. After too many resets the row fails, and keeps owner and stamp."""
        watch, dialect = self._watch, self._dialect
        if watch.resets is None:
            return self.moved(RowOutcome.RETRY)
        counted = f"coalesce({dialect.own}{quoted(watch.resets)}, 0) + 1"
        if watch.max_resets is None or watch.failed is None:
            return f"{self.moved(RowOutcome.RETRY)}, {quoted(watch.resets)} = {counted}"
        is_over = f"{counted} > {watch.max_resets}"

        def either(then: str, otherwise: str) -> str:
            return f"CASE WHEN {is_over} THEN {then} ELSE {otherwise} END"

        changed = {watch.status: either(dialect.typed(watch.failed), dialect.typed(watch.pending)), watch.resets: counted}
        changed |= {column: either(f"{dialect.own}{quoted(column)}", value) for column, value in self._unowned().items()}
        if watch.reason is not None:
            why = dialect.literal(f"held for longer than {watch.stale_after:g} s more than {watch.max_resets} times")
            changed[watch.reason] = either(dialect.cut(why), f"{dialect.own}{quoted(watch.reason)}")
        return _set(changed)

    def _unowned(self) -> dict[str, str]:
        watch, required = self._watch, self._dialect.required
        found = {} if watch.claimed_at in required else {watch.claimed_at: "NULL"}
        return found if watch.owner is None else {**found, watch.owner: "''" if watch.owner in required else "NULL"}


def _set(values: dict[str, str]) -> str:
    return ", ".join(f"{quoted(column)} = {value}" for column, value in values.items())

"""In what form a column of SQLite holds its stamps: the type of a column stops no value, and numbers sort before text."""

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct

from holdfast._core.table_spec import STAMPS, TableSpec
from holdfast.rows.sql import quoted
from holdfast.rows.sqlite.catalog import Column

Stamp = str | float | int

_EPOCH_DIGITS = 10  # of seconds from 2001 to 2286; milliseconds have three more
_DAY, _EPOCH_AS_JULIAN_DAY = 86400.0, 2440587.5
_HEAD = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]{between}[0-9][0-9]:[0-9][0-9]:[0-9][0-9]*"


class Form(Struct, frozen=True):
    """The form of the stamps of one column. ``name``: as ``stamps=`` names it, ``"text"`` for the default form. ``column``: quoted.
    ``affinity``: of the column, which decides whether numbers are kept as numbers."""

    name: str
    column: str
    affinity: str

    def stamp(self, seconds: float) -> Stamp:
        """Return a time, in seconds since the epoch, as a stamp of this form."""
        if self.name == "text":
            return iso(seconds)
        if self.name == "iso":
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
        places = 6 - self._shift
        micros, unit = round(seconds * 1e6), int(10**places)
        if self.is_whole:
            return micros // unit
        return f"{micros // unit}.{micros % unit:0{places}}" if self._is_text else micros / unit

    def read(self, text: str) -> Stamp:
        """Return a stamp as the column holds it, from the text of its fence."""
        return float(text or 0) if self._is_number else text

    def since(self, seconds: float) -> Stamp:
        """Return a time, in seconds since the epoch, as a value that compares with the expression ``since_of``."""
        return seconds / _DAY + _EPOCH_AS_JULIAN_DAY if self.name == "iso" else self.stamp(seconds)

    @property
    def since_of(self) -> str:
        """Return an SQL expression that orders stamps by their time: the column, or a call for a form whose strings have offsets."""
        return f"julianday({self.column})" if self.name == "iso" else self.column

    @property
    def least(self) -> Stamp:
        """Return a lower bound of every ``since`` of this form. A search from it skips numbers among strings, which precede them."""
        return 0.0 if self._is_number or self.name == "iso" else ""

    @property
    def usual(self) -> Stamp:
        """Return a lower bound that also skips strings which are not dates: seconds since 1970, stored as strings, precede ``1970-``."""
        return "1970-" if self.name == "text" else self.least

    @property
    def held(self) -> str:
        """An SQL expression: the seconds for which a row has been held at ``:now``, a ``since``; NULL for stamps of another form."""
        if self.name == "text":
            found = f"(julianday(:now) - julianday({self.column})) * {_DAY}"
        elif self.name == "iso":
            found = f"(:now - {self.since_of}) * {_DAY}"
        else:
            found = f"(CAST(:now AS REAL) - CAST({self.column} AS REAL)) / {10.0**self._shift}"
        return f"CASE WHEN {self.readable} THEN {found} END"

    @property
    def readable(self) -> str:
        """An SQL condition, never NULL: the stamp is of this form."""
        return " AND ".join(self._conditions)

    @property
    def is_whole(self) -> bool:
        """Whether stamps of this form are integers, too coarse to distinguish one claim from the next."""
        return self._is_number and self.affinity == "INTEGER"

    @property
    def _conditions(self) -> list[str]:
        column = self.column
        if self.name in ("text", "iso"):
            head = _HEAD.format(between=" " if self.name == "text" else "[ T]")
            ours = [f"typeof({column}) = 'text'", f"{column} GLOB '{head}'", f"julianday({column}) IS NOT NULL"]
            # An offset would put strings in another order than their times.
            return ours if self.name == "iso" else [*ours, f"substr({column}, 20) NOT GLOB '*[^.0-9]*'"]
        digits = _EPOCH_DIGITS + self._shift
        if self._is_text:
            rest = digits + 1
            return [
                f"typeof({column}) = 'text'",
                f"{column} GLOB '[1-9]{'[0-9]' * (digits - 1)}*'",
                f"substr({column}, {rest}, 1) IN ('', '.')",
                f"substr({column}, {rest + 1}) NOT GLOB '*[^0-9]*'",
            ]
        return [f"typeof({column}) IN ('integer', 'real')", f"{column} >= 1e{digits - 1}", f"{column} < 1e{digits + 1}"]

    @property
    def _shift(self) -> int:
        return 3 if self.name == "epoch_ms" else 0

    @property
    def _is_text(self) -> bool:
        return self.affinity == "TEXT"

    @property
    def _is_number(self) -> bool:
        return self.name in ("epoch", "epoch_ms") and not self._is_text


def form_of(watch: TableSpec, columns: Mapping[str, Column]) -> Form:
    """Return the form that a watch names, or else the one that the type of the column suggests."""
    affinity = columns[watch.claimed_at].affinity
    name = watch.stamps or ("epoch" if affinity in ("INTEGER", "REAL") else "text")
    return Form(name, quoted(watch.claimed_at), affinity)


def forms_of(form: Form) -> list[Form]:
    """Return all forms that stamps in the same column may have."""
    return [Form(name, form.column, form.affinity) for name in ("text", *STAMPS)]


def iso(seconds: float) -> str:
    """Write a time as SQLite does, but with microseconds: UTC, and in the order of time.

    >>> iso(1_700_000_000.25)
    '2023-11-14 22:13:20.250000'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

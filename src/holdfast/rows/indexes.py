"""Which partial indexes a watched table should have: one for each question that is asked repeatedly."""

import re
from collections.abc import Collection

from msgspec import Struct

from holdfast._core.table_spec import TableSpec, Value
from holdfast.rows.sql import ended, quoted

_COMPARED = re.compile(r"""\s*\(*\s*(?:"((?:[^"]|"")+)"|([^\W\d]\w*))\s*(?:<=?|>=?|=)""")
_NAME_LIMIT = 40


class Wanted(Struct, frozen=True):
    """An index that a table should have: on ``columns``, in SQL, of the rows with that status.

    ``leading``: the first of the columns, if it is a plain column.
    """

    name: str
    columns: str
    status: Value
    leading: str | None


class Index(Struct, frozen=True):
    """An existing index. ``columns``: ``None`` for an expression. ``predicate``: the condition of a partial index, in SQL."""

    name: str
    columns: tuple[str | None, ...]
    predicate: str | None


def wanted(watch: TableSpec, columns: Collection[str], *, folds: bool, since: str | None = None) -> tuple[Wanted, ...]:
    """List the indexes that a table should have: for claims, for resets, and for retention if there is one.

    ``folds``: the database reads names without quotes in small letters. ``since``: an SQL expression that orders stamps by their
    time, if their column does not.
    """
    leading = None if watch.order_by else compared_first(watch.where, columns, folds=folds) or watch.key[0]
    first = ended(watch.order_by or "") or (
        ", ".join(map(quoted, watch.key)) if leading == watch.key[0] else quoted(leading or "")
    )
    stamp = since or quoted(watch.claimed_at)
    stamped = watch.claimed_at if stamp == quoted(watch.claimed_at) else None
    found = [
        Wanted(_named(watch, "due"), first, watch.pending, leading),
        Wanted(_named(watch, "stuck"), stamp, watch.in_progress, stamped),
    ]
    if watch.retention is not None:
        found.append(Wanted(_named(watch, "done"), stamp, watch.done, stamped))
    return tuple(found)


def compared_first(where: str, columns: Collection[str], *, folds: bool) -> str | None:
    """Find the column that a condition begins with, as in ``expires_at < now()``: rows are found along it.

    >>> compared_first("Expires_At < now() AND kind = 1", ["expires_at", "kind"], folds=True)
    'expires_at'
    """
    if not (found := _COMPARED.match(where)):
        return None
    name = found[1].replace('""', '"') if found[1] else found[2].lower() if folds else found[2]
    return name if name in columns else None


def serves(index: Index, want: Wanted, watch: TableSpec) -> bool:
    """Return whether an existing index makes the wanted one unnecessary.

    It does if it has the same name, if it begins with the leading column and has only rows with that status, or if it begins with
    the status and the leading column.
    """
    if index.name == want.name:
        return True
    if want.leading is None:
        return False  # only the database can know whether two expressions are the same
    if index.predicate is None:
        return index.columns[:2] == (watch.status, want.leading)
    value = f"'{want.status}'" if isinstance(want.status, str) else str(want.status).lower()
    values = {value, str(int(want.status))} if isinstance(want.status, bool) else {value}
    literal = "|".join(map(re.escape, values))
    is_of_these = watch.status in index.predicate and re.search(rf"(?<![\w'-])(?:{literal})(?![\w'])", index.predicate)
    return bool(is_of_these) and index.columns[:1] == (want.leading,)


def _named(watch: TableSpec, what: str) -> str:
    plain = re.sub(r"\W", "_", watch.name, flags=re.ASCII)[:_NAME_LIMIT]
    return f"holdfast_{plain}_{what}"

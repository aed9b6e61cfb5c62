"""Messages about a table that does not fit its spec, the same for every database. The functions only build them.

SQL of a remedy stands between backticks, whole, so that it can be pasted. ``table``: the table's name in SQL.
"""

from collections.abc import Collection, Iterable, Iterator

from holdfast._core.table_spec import STAMPS, TableSpec, Value
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.rows.sql import nearest, quoted

_FORMS = {
    "text": "'YYYY-MM-DD HH:MM:SS' of UTC",
    "iso": "ISO 8601 with a T, a Z or an offset",
    "epoch": "seconds since 1970",
    "epoch_ms": "milliseconds since 1970",
    "": "a value that is not a time in any form that can be compared",
}


def shown(watch: TableSpec) -> str:
    """Format the table's name for people."""
    return ".".join(watch.table)


def refusal(watch: TableSpec, *problems: str) -> ConfigurationError:
    """Make the error for a caller whose table does not fit."""
    return ConfigurationError([f"rows {watch.name}: {problem}" for problem in problems])


def missing_table(watch: TableSpec, public: str, known: Collection[str]) -> str:
    """Return the message that there is no such table."""
    return f"there is no table {shown(watch)} in {public}: {nearest(shown(watch), known)}"


def not_a_table(watch: TableSpec, what: str) -> str:
    """Return the message that the name belongs to something other than a table, such as a view."""
    return f"{shown(watch)} is {what}, whose rows cannot be locked and marked: name the table beneath it"


def has_heirs(watch: TableSpec, table: str, heirs: Iterable[str]) -> str:
    """Return why a table from which others inherit cannot be watched."""
    name = shown(watch)
    statements = ", ".join(f"`ALTER TABLE {heir} NO INHERIT {table}`" for heir in heirs)
    return (
        f"other tables inherit from {name} (INHERITS), so its statements reach their rows too, and no key is unique in all of them: "
        f"name each of those tables in a separate app.rows and {statements}, or partition {name} instead"
    )


def missing_columns(watch: TableSpec, known: Collection[str]) -> Iterator[str]:
    """Yield a message for each named column that does not exist."""
    named = {**watch.named, **{f"columns[{place}]": column for place, column in enumerate(watch.columns or ())}}
    for what, column in named.items():
        if column not in known:
            yield f"{what}: {shown(watch)} has no column {quoted(column)}: {nearest(column, known)}"


def values_of(watch: TableSpec) -> dict[str, Value]:
    """Return the values that Holdfast writes to the status column, by their meaning."""
    found = {"pending": watch.pending, "in_progress": watch.in_progress}
    if not watch.deletes:
        found["done"] = watch.done
    return found if watch.failed is None else {**found, "failed": watch.failed}


def not_unique(watch: TableSpec, table: str, keys: Iterable[Collection[str]]) -> str:
    """Return the message that no constraint makes the key unique."""
    others = " or ".join(f"key={tuple(each) if len(each) > 1 else next(iter(each))!r}" for each in keys)
    columns = ", ".join(map(quoted, watch.key))
    index = quoted(f"{watch.table[-1]}_{'_'.join(watch.key)}_unique")
    remedy = f"use {others}" if others else f"`CREATE UNIQUE INDEX {index} ON {table} ({columns})`"
    return f"nothing makes key {columns} of {shown(watch)} unique, so it may name several rows: {remedy}"


def no_identity(table: str, publication: str) -> str:
    """Return why the server refuses to update rows of a table."""
    return (
        f"{table} belongs to publication {publication} and has no replica identity, so the server refuses each UPDATE and DELETE: "
        f"`ALTER TABLE {table} REPLICA IDENTITY FULL`, or give it a primary key, or take it out of the publication"
    )


def null_keys(watch: TableSpec, column: str, remedy: str) -> str:
    """Return the message that some rows have no key. ``remedy``: how the database forbids more of them."""
    return f"{shown(watch)} has rows whose key {quoted(column)} is NULL, and such a row cannot be named: give them a value, then {remedy}"


def may_be_null(column: str, remedy: str) -> str:
    """Return the message that rows without a key are possible."""
    return f"key {quoted(column)} may be NULL, and rows where it is are never claimed: {remedy}"


def forbidden(watch: TableSpec, constraint: str, values: Iterable[str], definition: str, remedy: str) -> str:
    """Return the message about a constraint that forbids a status which Holdfast writes."""
    return f"{constraint} of {shown(watch)} forbids {', '.join(values)}: {definition}: {remedy}, or name values that it allows"


def unread_constraint(watch: TableSpec, constraint: str, definition: str) -> str:
    """Return the message about a constraint on columns that Holdfast writes together with others."""
    return f"{constraint} of {shown(watch)} depends on other columns too: see that it holds in each state of a row: {definition}"


def misfit(what: str, column: str, kind: str, remedy: str) -> str:
    """Return the message about a column whose type cannot hold what is written there."""
    return f"{what}: column {quoted(column)} is {kind}: {remedy}"


def too_coarse(watch: TableSpec, table: str, kind: str) -> str:
    """Return the message that two claims could have the same stamp."""
    return (
        f"claimed_at: column {quoted(watch.claimed_at)} is {kind}, too coarse to tell one claim from the next: name a text column "
        f"for the owner of a row, as owner='claimed_by' after `ALTER TABLE {table} ADD COLUMN claimed_by text`"
    )


def foreign_stamps(watch: TableSpec, ours: str, form: str, number: int, sample: str) -> str:
    """Return the message about stamps of another form than the one that is compared. ``form``: ``""`` if they can be read in no form."""
    remedy = f"use stamps={form!r}" if form in STAMPS else "leave out stamps=…" if form else "UPDATE them to that form"
    return (
        f"claimed_at: column {quoted(watch.claimed_at)} holds {_FORMS[form]} in {number:,} rows, such as {sample}; a stamp is "
        f"compared as {_FORMS[ours]}, and such rows are left alone, never reset or deleted: {remedy}"
    )


def surprising_trigger(watch: TableSpec, trigger: str) -> str:
    """Return the message about a trigger of the user that runs with each write of Holdfast."""
    return (
        f"trigger {trigger} of {shown(watch)} runs whenever rows are claimed or moved: see that it is quick, "
        "and leaves their status, stamp and owner alone"
    )


def not_writable(watch: TableSpec, error: str) -> str:
    """Return the message that a session with these rights and settings cannot change the rows."""
    return f"rows of {shown(watch)} cannot be changed from here: {error}: leave it out of its constraints, indexes and triggers"


def not_stored(watch: TableSpec, what: str, error: str) -> str:
    """Return the message about a value that a STRICT table does not take."""
    return f"{what}: {shown(watch)} is STRICT: {error}: name another value, or a column of another type"


def meddling_trigger(watch: TableSpec) -> str:
    """Return the message that claimed rows do not carry their fence, so that no worker could finish them."""
    fence = f"owner {quoted(watch.owner)}" if watch.owner else f"stamp {quoted(watch.claimed_at)}"
    return (
        f"a trigger of {shown(watch)} changes the status or the {fence} of rows that are claimed, so nothing was: "
        "have it leave them alone, or name columns that no other code writes"
    )


def wrong_sql(watch: TableSpec, error: str, remedy: str = "correct the SQL") -> str:
    """Return the message that the database does not understand ``where`` or ``order_by``."""
    return f"where={watch.where!r}, order_by={watch.order_by!r}: {error}: {remedy}"


def undone_moves(what: str) -> HoldfastError:
    """Return why a transaction of the user's must not commit: a savepoint reverted moves of rows."""
    return HoldfastError(
        f"{what}: a savepoint was rolled back after done(), retry() or fail(), and reverted their rows; nothing of the transaction "
        "is kept. Call them after the savepoint has ended, or use a transaction for each part"
    )

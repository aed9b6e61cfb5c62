"""The checks of the options of ``app.rows``: all problems at once, before any option is used."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from holdfast._core.durations import seconds
from holdfast._core.table_spec import MAX_BATCH, STAMPS, Value

STATES = ("pending", "in_progress", "done", "failed")
OPTIONAL = ("failed",)


def problems_of_watch(table: object, options: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a declaration, one sentence each with its remedy; ``options`` as ``app.rows`` takes them.

    >>> given = {"key": "id", "status": "s", "pending": "a", "in_progress": "b", "done": "c", "claimed_at": "t", "where": ""}
    >>> problems_of_watch("pastes", given)
    ["where='': say which pending rows are due, for example where='expires_at < now()'; where='true' is all of them"]
    """
    return [*_of_table(table), *_of_columns(options), *_of_values(options), *_of_texts(options), *_of_numbers(options)]


def _of_table(table: object) -> Iterator[str]:
    if not isinstance(table, str) or not all(map(_is_name, table.split("."))) or table.count(".") > 1:
        yield f"table={table!r}: use 'table' or 'schema.table'"


def _of_columns(options: Mapping[str, Any]) -> Iterator[str]:
    key = options["key"]
    keys = (key,) if isinstance(key, str) else key
    if not isinstance(keys, Sequence) or not keys or not all(map(_is_name, keys)):
        yield f"key={key!r}: use the column that names a row, or a tuple of them"
        keys = ()
    columns = [("key", name) for name in keys]
    for option in ("status", "claimed_at", "owner", "resets", "reason"):
        name = options.get(option)
        if name is None and option not in ("status", "claimed_at"):
            continue
        if _is_name(name):
            columns.append((option, name))
        else:
            yield f"{option}={name!r}: use the name of a column"
    names = [name for _, name in columns]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        uses = " and ".join(option for option, each in columns if each == name)
        yield f"{uses}: column {name!r} cannot be all of them; use one column for each"
    shown = options.get("columns")
    if shown is not None and (isinstance(shown, str) or not isinstance(shown, Sequence) or not all(map(_is_name, shown))):
        yield f"columns={shown!r}: use a list of columns that the handler reads, or None for all"


def _of_values(options: Mapping[str, Any]) -> Iterator[str]:
    given = [(state, options.get(state)) for state in STATES if options.get(state) is not None or state not in OPTIONAL]
    for state, value in given:
        if type(value) not in get_args(Value):
            yield f"{state}={value!r}: use the text, whole number or boolean that {options['status']!r} holds"
    for place, (state, value) in enumerate(given):
        for other, same in given[:place]:
            if same == value:
                yield f"{other} and {state} are both {value!r}: nothing could tell such rows apart"


def _of_texts(options: Mapping[str, Any]) -> Iterator[str]:
    where, order = options["where"], options.get("order_by")
    if not isinstance(where, str) or not where.strip():
        example = "where='expires_at < now()'; where='true' is all of them"
        yield f"where={where!r}: say which pending rows are due, for example {example}"
    if order is not None and (not isinstance(order, str) or not order.strip()):
        yield f"order_by={order!r}: use SQL such as 'expires_at', or None for any order"
    if (stamps := options.get("stamps")) is not None and stamps not in STAMPS:
        yield f"stamps={stamps!r}: use one of {', '.join(map(repr, STAMPS))}, or None for 'YYYY-MM-DD HH:MM:SS'"
    if not isinstance(options.get("delete", False), bool):
        yield f"delete={options['delete']!r}: use True to delete rows that are done, or False to mark them"


def _of_numbers(options: Mapping[str, Any]) -> Iterator[str]:
    batch, most = options.get("batch", 1), options.get("max_resets")
    if type(batch) is not int or not 1 <= batch <= MAX_BATCH:
        yield f"batch={batch!r}: use a whole number from 1 to {MAX_BATCH:,}"
    if most is not None and (type(most) is not int or most < 0):
        yield f"max_resets={most!r}: use a whole number from 0, or None for no limit"
    missing = [option for option in ("resets", "failed") if options.get(option) is None]
    if most is not None and missing:
        yield f"max_resets: it needs {' and '.join(f'{each}=' for each in missing)}, to count by and to end in"
    if options.get("reason") is not None and options.get("failed") is None:
        yield "reason: it needs failed=, because only rows that failed have a reason"
    for option in ("stale_after", "retention", "interval"):
        duration = options.get(option, "1s")
        if duration is None and option == "retention":
            continue
        try:
            if seconds(duration) == 0:
                yield f"{option}={duration!r}: use more than nothing, for example '2h'"
        except ValueError as error:
            yield f"{option}: {error}"
    if options.get("retention") is not None and options.get("delete"):
        yield "retention and delete=True: use one of them; rows that are deleted at once are not kept"


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name) and "\0" not in name

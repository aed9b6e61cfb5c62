"""The options of a watched table, and everything that is wrong with them at once."""

from typing import Any

from holdfast._core.durations import seconds
from holdfast._core.schemes import BUCKETS
from holdfast._core.table_problems import problems_of_watch
from holdfast._core.table_spec import RowsSettings, TableSpec
from holdfast._engine.tasks.registry import problems_of_names
from holdfast.errors import ConfigurationError
from holdfast.settings import problems_of_url, public_url

MOST_RUNS = 1000
"""Runs at once of one table: each look for due rows names all of them."""


def settings_of(table: str, options: dict[str, Any], url: str) -> RowsSettings:
    """Check the options of ``app.rows``, and return the settings; ``ConfigurationError`` with every problem."""
    given = dict(options)
    name = table if given["name"] is None else given["name"]
    problems = [*problems_of_watch(table, given), *_problems_of_runs(name, given), *_problems_of_database(url)]
    if problems:
        raise ConfigurationError([f"rows {name}: {problem}" for problem in problems])
    del given["url"]
    runs = {"queue": given.pop("queue"), "concurrency": given.pop("concurrency"), "interval": seconds(given.pop("interval"))}
    keys = (given["key"],) if isinstance(given["key"], str) else tuple(given["key"])
    if (columns := given.pop("columns")) is not None:
        counting = (given["resets"],) if given["max_resets"] is not None else ()
        given["columns"] = tuple(dict.fromkeys((*keys, *columns, *counting)))
    return RowsSettings(watch=TableSpec.of(table, deletes=given.pop("delete"), **given), url=url, **runs)


def _problems_of_runs(name: object, options: dict[str, Any]) -> list[str]:
    task = f"rows.{name}" if isinstance(name, str) and name else name
    found = [each.replace("'rows.", "'", 1) for each in problems_of_names(task, options["queue"], 0)]
    concurrency = options["concurrency"]
    if type(concurrency) is not int or not 1 <= concurrency <= MOST_RUNS:
        found.append(f"concurrency={concurrency!r}: use an integer from 1 to {MOST_RUNS}")
    return found


def _problems_of_database(url: str) -> list[str]:
    if found := problems_of_url(url):
        return found
    if url.startswith("memory:") or url.partition("://")[0] in BUCKETS:
        return [f"{public_url(url)} has no tables: pass url='postgresql://…' or url='sqlite:///…', where the table is"]
    return []

"""``app.rows(…)``: the options of a watched table, and everything that is wrong with them at once."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from holdfast._core.bucket_url import SCHEMES as BUCKETS
from holdfast._core.durations import Duration, seconds
from holdfast._core.table_problems import problems_of_watch
from holdfast._core.table_spec import RowsSettings, TableSpec, Value
from holdfast._engine.rows.rows import Rows, RowsContext
from holdfast._engine.tasks.registry import problems_of_names
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings, problems_of_url, public_url

MOST_RUNS = 1000
"""Runs at once of one table: each look for due rows names all of them."""


class RowsDeclarations:
    """What watches over tables: an App."""

    settings: Settings
    _surroundings: RowsContext

    def rows(
        self,
        table: str,
        *,
        key: str | tuple[str, ...],
        status: str,
        pending: Value,
        in_progress: Value,
        done: Value,
        claimed_at: str,
        where: str,
        order_by: str | None = None,
        batch: int = 1000,
        stale_after: Duration = "2h",
        owner: str | None = None,
        resets: str | None = None,
        max_resets: int | None = None,
        failed: Value | None = None,
        reason: str | None = None,
        delete: bool = False,
        retention: Duration | None = None,
        columns: Sequence[str] | None = None,
        stamps: str | None = None,
        name: str | None = None,
        url: str | None = None,
        queue: str = "default",
        concurrency: int = 1,
        interval: Duration = "5s",
    ) -> Rows:
        """Watch over a table of yours with a status column: handlers finish its rows in batches, and none stays stuck.

        No row of it moves into Holdfast's own tables. ``ConfigurationError`` with everything that cannot work. A worker's start and
        ``holdfast check`` find what only the database knows.

        >>> pastes = app.rows(  # doctest: +SKIP
        ...     "pastes", key="id", status="deletion_status", pending="NOT_EXPIRED", in_progress="DELETION_IN_PROGRESS",
        ...     done="DELETED", claimed_at="deletion_initiated_at", where="expires_at < now()",
        ... )
        """
        # size: a line for each option
        options = {option: value for option, value in locals().items() if option not in ("self", "table", "__class__")}
        settings = settings_of(table, options, self._url_of_tables() if url is None else url)
        named = settings.watch.name
        if named in self.watches:
            raise ConfigurationError([f"rows {named}: watched twice; give one of them name='…'"])
        self.watches[named] = rows = Rows(settings, self._surroundings)
        return rows

    @cached_property
    def watches(self) -> dict[str, Rows]:
        """The tables declared with ``rows``, by name."""
        return {}

    def _url_of_tables(self) -> str:
        url, pooler = self.settings.url, self.settings.pooler
        return url if pooler is None else f"{url}{'&' if '?' in url else '?'}pooler={pooler}"


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

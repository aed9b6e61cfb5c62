"""``app.rows(…)``: the declaration of a watched table. What reads it is loaded by a program that declares one."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast._core.durations import Duration
from holdfast._engine.client.connections import Connections
from holdfast._engine.events import Events
from holdfast._engine.rows.tables import Tables
from holdfast._engine.tasks.registry import Registry
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast._core.table_spec import Value
    from holdfast._engine.rows.rows import Rows


class RowsDeclarations:
    """What watches over tables: an App."""

    settings: Settings
    registry: Registry
    events: Events
    _connections: Connections
    _tables: Tables

    def rows(
        self,
        table: str,
        *,
        key: str | tuple[str, ...],
        status: str,
        pending: "Value",
        in_progress: "Value",
        done: "Value",
        claimed_at: str,
        where: str,
        order_by: str | None = None,
        batch: int = 1000,
        stale_after: Duration = "2h",
        owner: str | None = None,
        resets: str | None = None,
        max_resets: int | None = None,
        failed: "Value | None" = None,
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
    ) -> "Rows":
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
        from holdfast._engine.rows.rows import Rows, RowsContext
        from holdfast._engine.rows.settings import settings_of

        settings = settings_of(table, options, self._url_of_tables() if url is None else url)
        named = settings.watch.name
        if named in self.watches:
            raise ConfigurationError([f"rows {named}: watched twice; give one of them name='…'"])
        surroundings = RowsContext(self.registry, self._tables, self._connections, self.events)
        self.watches[named] = rows = Rows(settings, surroundings)
        return rows

    @cached_property
    def watches(self) -> dict[str, "Rows"]:
        """The tables declared with ``rows``, by name."""
        return {}

    def _url_of_tables(self) -> str:
        url, pooler = self.settings.url, self.settings.pooler
        return url if pooler is None else f"{url}{'&' if '?' in url else '?'}pooler={pooler}"

"""Users' own tables that an App watches: opened when first used, verified before the first change."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast._forks import Forked, Lock, register
from holdfast.errors import ConfigurationError, Unsupported

if TYPE_CHECKING:  # an App holds `Tables` from the start, and most have no table
    from holdfast._core.table_spec import RowsSettings, TableSpec
    from holdfast._ports.table import Table

OpenTable = Callable[[str, "TableSpec"], "Table"]


class Tables(Forked):
    """Open tables, each opened once; a forked child forgets its parent's and opens its own."""

    def __init__(self, open_table: OpenTable) -> None:
        self._open_table = open_table
        self._lock = threading.Lock()
        self._opened: dict[RowsSettings, Table] = {}
        self._verified: set[RowsSettings] = set()
        self._inherited: list[object] = []
        register(self)

    def of(self, settings: "RowsSettings") -> "Table":
        """Return the table. ``ConfigurationError`` when its driver is not installed."""
        with self._lock:
            table = self._opened.get(settings)
            if table is None:
                table = self._opened[settings] = self._open_table(settings.url, settings.watch)
            return table

    async def verified(self, settings: "RowsSettings") -> "Table":
        """Return the table once it has been inspected; ``ConfigurationError`` with every problem found."""
        table = self.of(settings)
        if settings not in self._verified:
            if problems := (await table.inspect()).problems:
                raise ConfigurationError([f"rows {settings.watch.name}: {problem}" for problem in problems])
            self._verified.add(settings)
        return table

    async def close(self) -> None:
        """Close connections; the next use opens them again."""
        for table in tuple(self._opened.values()):
            with suppress(Exception):  # one whose database is away must not keep the others open
                await table.close()

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        """Keep the parent's tables unused: closing them could close the parent's connections."""
        self._inherited.append(self._opened)
        self._lock, self._opened = threading.Lock(), {}


def no_tables(url: str, watch: "TableSpec") -> "Table":
    """Refuse to open a table, in a supervisor that was started without a way to open any."""
    from holdfast._core.postgres_url import public_url

    raise Unsupported(f"rows {watch.name}: this process has no way to open tables of {public_url(url)}")

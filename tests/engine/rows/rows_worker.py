"""A worker's engine with a table in memory, whose rows a handler of the test works off; time stands still until told."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from holdfast._core.record import JobRecord
from holdfast._core.table_spec import RowsSettings
from holdfast._engine.rows.declaration import settings_of
from holdfast._engine.rows.rows import Rows, RowsContext
from holdfast._engine.rows.tables import Tables
from proof.stores.memory_table import MemoryTable
from tests.engine.support import LEASE, Bench, Flaky
from tests.event_loops import beside

URL = "sqlite:///shop.db"
DEFAULTS: dict[str, Any] = {
    "key": "id",
    "status": "status",
    "pending": "new",
    "in_progress": "busy",
    "done": "gone",
    "claimed_at": "since",
    "where": "true",
    "order_by": None,
    "batch": 3,
    "stale_after": "2h",
    "owner": None,
    "resets": None,
    "max_resets": None,
    "failed": None,
    "reason": None,
    "delete": False,
    "retention": None,
    "columns": None,
    "stamps": None,
    "name": None,
    "url": None,
    "queue": "default",
    "concurrency": 1,
    "interval": "5s",
}


def settings(**options: Any) -> RowsSettings:
    return settings_of(options.pop("table", "pastes"), DEFAULTS | options, URL)


class FlakyTable(Flaky):
    """A table whose calls can fail, lose their answer or be held up."""

    store: Any

    @property
    def watch(self) -> Any:
        return self.store.watch

    def refused(self) -> Any:
        return self.store.refused()

    def transaction(self, mark: Any) -> Any:
        return self.store.transaction(mark)

    def blocking_transaction(self, mark: Any) -> Any:
        return self.store.blocking_transaction(mark)


class Garden(Bench):
    """``count`` rows that are due, with ids from 1."""

    def __init__(self, handler: Callable[..., Any], count: int = 3, *, tells_stamps: bool = False, **options: Any) -> None:
        super().__init__()
        self.settings = settings(**options)
        watch = self.settings.watch
        rows = [dict.fromkeys(watch.key, number) for number in range(1, count + 1)]
        self.plain = MemoryTable(watch, self.clock, rows, tells_stamps=tells_stamps)
        self.table = FlakyTable(self.plain)  # type: ignore[arg-type]
        around: Any = SimpleNamespace(clock=self.clock, chance=self.chance)
        tables = Tables(lambda url, watch: self.table)  # type: ignore[arg-type,return-value]
        self.rows = Rows(self.settings, RowsContext(self.registry, tables, around, self.log.events))
        self.rows.handler(handler)
        self.exchange = self.open_exchange(LEASE)  # whose slots know the task of the rows

    async def start(self, runs: int = 1) -> list[UUID]:
        """Runs of the handler have begun."""
        jobs = await self.open(*[(self.settings.task, b"{}")] * runs)
        beside(self._report())
        await self.exchange.step()
        return jobs

    async def finish(self, jobs: list[UUID]) -> JobRecord:
        """All of these have ended; the first one's row."""
        await self.until_ended(len(jobs))
        await self.settle()
        return await self.row(jobs[0])

    async def run_once(self) -> JobRecord:
        return await self.finish(await self.start())

    async def _report(self) -> None:
        while await self.writer.wake.wait(3600.0):
            lost, _ = await self.writer.step()
            for job, token in lost:
                self._lose(job, token)

    def ids(self, status: str) -> list[Any]:
        """Keys of rows in that status."""
        watch = self.settings.watch
        found = [key for key, row in self.plain.rows.items() if row[watch.status] == status]
        return [key[0] if len(key) == 1 else key for key in found]

"""A worker's engine with a table in memory, whose rows a handler of the test works off; a test moves the time."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from holdfast._core.record import JobRecord
from holdfast._core.table_spec import RowsSettings
from holdfast._engine.client.client import Client
from holdfast._engine.rows.rows import Rows, RowsContext
from holdfast._engine.rows.settings import settings_of
from holdfast._engine.rows.tables import Tables
from holdfast._ports.transport import Hint
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
    """A table whose calls a test makes fail, lose their answer or wait."""

    store: Any

    @property
    def watch(self) -> Any:
        return self.store.watch

    def refused(self) -> Any:
        return self.store.refused()

    def transaction(self, fence: Any) -> Any:
        return self.store.transaction(fence)

    def blocking_transaction(self, fence: Any) -> Any:
        return self.store.blocking_transaction(fence)


class RowsWorker(Bench):
    """A worker and a table with ``count`` rows that are due, whose ids begin with 1."""

    def __init__(self, handler: Callable[..., Any], count: int = 3, *, tells_stamps: bool = False, **options: Any) -> None:
        super().__init__()
        self.settings = settings(**options)
        spec = self.settings.watch
        rows = [dict.fromkeys(spec.key, number) for number in range(1, count + 1)]
        self.plain = MemoryTable(spec, self.clock, rows, tells_stamps=tells_stamps)
        self.table = FlakyTable(self.plain)  # type: ignore[arg-type]
        client = Client(self.environment)
        connections: Any = SimpleNamespace(clock=self.clock, chance=self.chance, client=lambda: client)
        tables = Tables(lambda url, spec: self.table)  # type: ignore[arg-type,return-value]
        self.rows = Rows(self.settings, RowsContext(self.registry, tables, connections, self.log.events))
        self.rows.handler(handler)
        self.exchange = self.open_exchange(LEASE)  # opened again: its slots now know the task of the rows

    async def start(self, runs: int = 1) -> list[UUID]:
        """Enqueue runs of the handler and claim them."""
        jobs = await self.open(*[(self.settings.task, b"{}")] * runs)
        beside(self._report())
        self.exchange.hinted(Hint())
        await self.exchange.step()
        return jobs

    async def finish(self, jobs: list[UUID]) -> JobRecord:
        """Wait until all of these runs have ended; return the record of the first one."""
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
        """Return the keys of rows in that status."""
        spec = self.settings.watch
        found = [key for key, row in self.plain.rows.items() if row[spec.status] == status]
        return [key[0] if len(key) == 1 else key for key in found]

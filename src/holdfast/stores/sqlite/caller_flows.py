"""A new workflow inside the transaction of a caller's own connection."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import Json
from holdfast._core.new_flow import begun
from holdfast._core.workflow import Flow, NewFlow
from holdfast._ports.clock import Clock
from holdfast.databases.sqlite.values import micros
from holdfast.stores.sqlite import caller_transactions as within
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.flow_moves import FileFlows
from holdfast.stores.sqlite.workflows import insert


class CallerDatabase:
    """The statements of the store on a caller's cursor, in place of a ``StoreDatabase``. ``wall``: the time of the write."""

    def __init__(self, cursor: Any, wall: int) -> None:
        self._cursor, self._wall = cursor, wall
        self.changes = list[FlowChange]()

    def now(self) -> int:
        """Return the time of the write."""
        return self._wall

    def read(self, name: str, **values: Json) -> list[tuple[Json, ...]]:
        """Return all rows of a query."""
        found: list[tuple[Json, ...]] = within.execute(self._cursor, name, {**values, "wall": self._wall}).fetchall()
        return found

    def write(self, name: str, **values: Json) -> None:
        """Execute a statement, with the time of the write."""
        within.execute(self._cursor, name, {**values, "wall": self._wall})


def enqueue_flow(cursor: Any, wall: int, call: UUID, new: NewFlow) -> EnqueueAnswer:
    """Insert a workflow as the store does, but for its start, which is known without reading: the caller's connection may convert what it
    reads."""
    database = cast(StoreDatabase, CallerDatabase(cursor, wall))
    if (answer := insert(database, call, new)) is None:
        flows, start = FileFlows(database), begun(new)
        flows.set_counters(start.counters)
        flows.judge(start.verdicts, Flow(id=new.root.job.id))
        return EnqueueAnswer()
    return answer


class CallerFlows:
    """The part of the store that has the verb of ``FlowTransactions`` in ``_ports.workflows``."""

    _path: Path
    _clock: Clock
    _use_apsw: bool

    def enqueue_flow_within(
        self, connection: Any, call: UUID, new: NewFlow
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        wall = micros(self._clock.wall())
        return within.enqueue(
            connection, self._path, lambda cursor: enqueue_flow(cursor, wall, call, new), use_apsw=self._use_apsw
        )

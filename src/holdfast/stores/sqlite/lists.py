"""The verbs that list jobs, and those that count them."""

import builtins
from typing import Final, Literal

from msgspec import structs

from holdfast._core.answers import QueueView
from holdfast._core.job import ACTIVE, State
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter, several
from holdfast.databases.readable import readable
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import Values
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite.conditions import matching
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.records import Row, record_of

_CROWD: Final = 10_000
"""From that many waiting jobs on they are looked for among all jobs, from the newest on: the first ones are soon found."""
_WAITING: Final = frozenset((State.SCHEDULED, State.AVAILABLE, State.BLOCKED))
_ENDED_BADLY: Final = (State.FAILED, State.CANCELLED)


class ListVerbs:
    """The part of the store that lists and counts."""

    _thread: ConnectionThread[StoreDatabase]

    async def _rows(self, name: str, values: Values) -> list[Row]:
        return await self._thread.run(lambda database: database.read(name, **values))

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        values, statement = matching(structs.replace(which, only_workflows=False)), _statement_for(which)

        def read(database: StoreDatabase) -> builtins.list[Row]:
            is_crowded = statement == "list_waiting" and database.read("is_crowded", crowd=_CROWD) == [(True,)]
            return database.read("list" if is_crowded else statement, **values)

        found = await self._thread.run(read)
        return readable(lambda row: record_of(row[0], row[1:]), found)

    async def counts(self, by: Literal["queue", "task"] | None = None, most: int | None = None) -> dict[tuple[str, State], int]:
        found = await self._rows("counts", {"by": by, "limit": _limit_of(most)})
        return {(name, State(state)): count for name, state, count in found}

    async def queues(self, most: int | None = None) -> tuple[QueueView, ...]:
        return answers.queues(await self._rows("queues", {"limit": _limit_of(most)}))

    async def waiting_tasks(self) -> tuple[str, ...]:
        return tuple(task for (task,) in await self._rows("waiting_tasks", {}))


def _statement_for(which: JobFilter) -> str:
    """Return the statement that reads the fewest jobs of another kind."""
    if which.only_workflows:
        return "list_roots"
    if which.has_no_conditions:
        return "list_all"
    states = several(which.state)
    if which.error_key is not None:
        return "list_of_error"
    if states and ACTIVE.issuperset(states):
        return "list_active"
    if states and _WAITING.issuperset(states):
        return "list_waiting"
    if states == (State.HELD,):
        return "list_held"
    return "list_ended_badly" if states and len(states) == 1 and states[0] in _ENDED_BADLY else "list"


def _limit_of(most: int | None) -> int:
    return -1 if most is None else most + 1

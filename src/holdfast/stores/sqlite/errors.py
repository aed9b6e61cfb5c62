"""The verb that groups failed jobs."""

from uuid import UUID

from holdfast._core.encoding import failure_of, instant
from holdfast._core.error_groups import ErrorGroup, ErrorList, group_of
from holdfast._core.job import Reason
from holdfast.databases.readable import readable
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.records import Row


class ErrorVerbs:
    """The part of the store that has the verb in ``_ports.errors``."""

    _thread: ConnectionThread[StoreDatabase]

    async def errors(self, look: int, limit: int) -> ErrorList:
        found = await self._thread.run(lambda database: database.read("errors", look=look, limit=limit))
        if not found:
            return ErrorList()
        *_, kinds, looked_at, back_to = found[0]
        return ErrorList(groups=readable(_group_of, found), kinds=kinds, looked_at=looked_at, back_to=instant(back_to))


def _group_of(row: Row) -> ErrorGroup:
    job, task, reason, error, number, first, last, *_ = row
    return group_of(
        UUID(bytes=job),
        task,
        None if reason is None else Reason(reason),
        failure_of(error),
        count=number,
        first_at=instant(first),
        last_at=instant(last),
    )

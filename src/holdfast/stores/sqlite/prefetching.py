"""The verbs for jobs that are claimed ahead of free slots."""

from uuid import UUID

from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.stores.sqlite.database import StoreDatabase


class Prefetching:
    """The part of the store that has the verbs of ``_ports.store.Prefetching``."""

    _thread: "ConnectionThread[StoreDatabase]"

    async def start_through(self, lease: UUID, number: int, voids: int) -> bool:
        def start(database: StoreDatabase) -> bool:
            database.write("start_through", lease=lease.bytes, number=number, voids=voids)
            return database.read("exchange_tally") == [(1,)]

        return await self._thread.run(start)

    async def void(self, lease: UUID, voids: int) -> int | None:
        def void(database: StoreDatabase) -> int | None:
            if not database.write("void", lease=lease.bytes, voids=voids):
                return None
            ((started,),) = database.read("started", lease=lease.bytes)
            return int(started)

        return await self._thread.run(void)

"""The history of the last day in a file: what each worker did in each minute."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast._core.encoding import instant
from holdfast._core.history import MOST_DELETED, Minute, MinuteNote
from holdfast._core.text import json_text
from holdfast.databases.readable import readable
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import micros_of
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.records import Row


class HistoryVerbs:
    """The part of the store that has the verbs of ``_ports.history``."""

    _thread: ConnectionThread[StoreDatabase]

    async def record_minutes(self, notes: Sequence[MinuteNote]) -> None:
        values = {"notes": json_text(notes), "limit": MOST_DELETED}
        await self._thread.run(lambda database: database.write("record_minutes", **values))

    async def minutes(self, since: datetime, until: datetime, limit: int) -> tuple[Minute, ...]:
        values = {"since": micros_of(since), "until": micros_of(until), "limit": limit}
        return readable(_minute_of, await self._thread.run(lambda database: database.read("minutes", **values)))


def _minute_of(row: Row) -> Minute:
    at, value = row
    return Minute(instant(at), _decoder.decode(value))


_decoder = msgspec.json.Decoder(MinuteNote)

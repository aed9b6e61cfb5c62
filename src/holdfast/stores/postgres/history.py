"""The history of the last day: what each worker did in each minute."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast._core.history import MOST_DELETED, Minute, MinuteNote
from holdfast._core.text import json_text
from holdfast.databases.readable import readable
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.records import Row


class HistoryVerbs(StoreDatabase):
    """The part of the store that has the verbs of ``_ports.history``."""

    async def record_minutes(self, notes: Sequence[MinuteNote]) -> None:
        values = [note.id for note in notes], [json_text(note) for note in notes]
        await self._fetch("record_minutes", *values, MOST_DELETED)

    async def minutes(self, since: datetime, until: datetime, limit: int) -> tuple[Minute, ...]:
        return readable(_minute_of, await self._fetch("minutes", since, until, limit))


def _minute_of(row: Row) -> Minute:
    return Minute(row["at"], _decoder.decode(row["value"]))


_decoder = msgspec.json.Decoder(MinuteNote)

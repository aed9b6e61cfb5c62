"""The history of the last day: what each worker did in each minute, in a collection that nothing else reads."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast._core.history import HISTORY_RETENTION, MOST_DELETED, Minute, MinuteNote
from holdfast._core.text import json_text
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.stores.mongo.names import Names


async def record(database: MongoDatabase, names: Names, now: Any, notes: Sequence[MinuteNote]) -> None:
    """Add a document for each note, and delete old ones. ``now``: the expression by which the server knows the time."""
    updates = [
        {
            "q": {"_id": note.id},
            "u": [{"$set": {"at": {"$ifNull": ["$at", now]}, "value": {"$literal": json_text(note)}}}],
            "upsert": True,
        }
        for note in notes
    ]
    which: Document = {"$expr": {"$lte": ["$at", {"$subtract": [now, int(HISTORY_RETENTION * 1000)]}]}}
    found = await database.find(names.minutes, which, limit=MOST_DELETED, sort={"at": 1}, projection={"_id": 1})
    if found:
        deleted = {"q": {"_id": {"$in": [each["_id"] for each in found]}}, "limit": 0}
        await database.write({"delete": names.minutes, "deletes": [deleted]})
    if updates:
        await database.write({"update": names.minutes, "updates": updates, "ordered": False})


async def minutes(database: MongoDatabase, names: Names, since: datetime, until: datetime, limit: int) -> tuple[Minute, ...]:
    """Return the newest documents, newest first."""
    which: Document = {"at": {"$gt": since, "$lte": until}}
    found = await database.find(names.minutes, which, limit=limit, sort={"at": -1}) if limit else []
    return tuple(Minute(each["at"], _decoder.decode(each["value"])) for each in found)


_decoder = msgspec.json.Decoder(MinuteNote)

"""Capped collections, which keep only the newest documents. A cursor on one can wait for the next document."""

from typing import Final

from pymongo.errors import OperationFailure

from holdfast.databases.mongo.database import MongoDatabase
from holdfast.errors import HoldfastError, StoreRefused

SIZE: Final = 2**20
"""Bytes."""


async def make_capped(database: MongoDatabase, name: str) -> None:
    """Make the collection if it is missing, make it capped if it is not, and give it a document if it has none.

    An insert into a missing collection makes an ordinary one. A cursor on an empty capped collection ends at once, instead of waiting.
    ``StoreRefused``: the server has no capped collections, or this user may not make them.
    """
    if not (found := await is_capped(database, name)):
        how = {"create": name, "capped": True} if found is None else {"convertToCapped": name}
        try:
            await database.command({**how, "size": SIZE, "writeConcern": {"w": "majority"}})
        except HoldfastError as error:
            if not isinstance(error.__cause__, OperationFailure):
                raise
            if not await is_capped(database, name):  # else another process was faster
                problem = f"{name} must be a capped collection: let this user make it, or use another transport"
                raise StoreRefused(f"{error}: {problem}") from error
    if not await database.find(name, {}, concern="local", limit=1):
        await database.command({"insert": name, "documents": [{}], "writeConcern": {"w": 1}})


async def is_capped(database: MongoDatabase, name: str) -> bool | None:
    """Return whether a collection is capped; ``None`` if it does not exist."""
    found = (await database.command({"listCollections": 1, "filter": {"name": name}}))["cursor"]["firstBatch"]
    return bool(found[0]["options"].get("capped")) if found else None

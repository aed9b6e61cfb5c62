"""Claim numbers: each claim reserves as many as it takes jobs."""

from holdfast.databases.mongo.database import MongoDatabase
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.schema import missing


async def reserve(database: MongoDatabase, names: Names, numbers: int) -> int:
    """Return the number before the first of as many that no other claim gets.

    One member is enough: the write stands before that of the claim in the same log, and a claim raises the number of each job anyway.
    """
    command = {
        "findAndModify": names.state,
        "query": {"_id": "claims"},
        "update": {"$inc": {"number": numbers}},
        "new": True,
        "writeConcern": {"w": 1},
    }
    found = (await database.command(command))["value"]
    if found is None:
        raise missing(database.location.public, names.state, "claims")
    return int(found["number"]) - numbers

"""Claim numbers: each claim reserves as many as it takes jobs, or takes them from those that were reserved before."""

from typing import Final

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


class KeptNumbers:
    """Numbers for claims whose jobs start at once, reserved many at a time: the claim of an idle worker needs no write for them.

    ``base``: the number before the next. Jobs that are claimed ahead need new numbers: a lease starts all its jobs through a number, so
    later jobs must have greater ones.
    """

    AMOUNT: Final = 1000

    def __init__(self, database: MongoDatabase, names: Names) -> None:
        self._database, self._names = database, names
        self.base, self._left = 0, 0

    def has(self, numbers: int) -> bool:
        """Return whether as many are left."""
        return self._left >= numbers

    async def take(self, numbers: int) -> int:
        """Return the number before the first of as many, which are reserved now if too few are left."""
        if not self.has(numbers):
            amount = max(numbers, self.AMOUNT)
            self.base, self._left = await reserve(self._database, self._names, amount), amount
        base = self.base
        self.base, self._left = base + numbers, self._left - numbers
        return base

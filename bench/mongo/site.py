"""One member of a replica set on which all queues of the bench are, and what its log of writes has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp
from pymongo import MongoClient

from bench.peers import Place
from holdfast.testing.servers import MongoSet

CACHE = 2.0
"""Gigabytes: all documents of a figure are in memory."""
SETTINGS = {"storage.wiredTiger.engineConfig.cacheSizeGB": CACHE, "replication.oplogSizeMB": 2048}
Document = dict[str, Any]


class Site:
    """A server. Each queue has a separate database on it."""

    def __init__(self, folder: Path, servers: MongoSet) -> None:
        self._folder, self._servers = folder, servers
        self.client: MongoClient[Document] = MongoClient(servers.url, tz_aware=True, uuidRepresentation="standard")
        self._oplog = self.client["local"]["oplog.rs"]

    def about(self) -> str:
        """Return version and settings."""
        version = self.client.server_info()["version"]
        return f"MongoDB {version}, one member, w: majority with journal, cache {CACHE:g} GB"

    def place(self, name: str) -> Place:
        """Make a fresh database."""
        return Place(self._folder, name, self._servers.create_database())

    def database(self, place: Place) -> Any:
        """Return the database of a place."""
        return self.client[place.url.rsplit("/", 1)[1].split("?")[0]]

    def clear(self, place: Place) -> None:
        """Remove all of it."""
        place.clear()
        self._servers.drop_database(place.url)
        self.client.admin.command("fsync")  # its checkpoint belongs to what was

    def close(self) -> None:
        """Close the client, which does not close with the server."""
        self.client.close()

    def now(self) -> Timestamp:
        """Return the time of the newest write."""
        newest: Timestamp = next(iter(self._oplog.find().sort("$natural", -1).limit(1)))["ts"]
        return newest

    def writes(self, place: Place, since: Timestamp) -> dict[str, int]:
        """Return the documents written in a database since then, by collection; those of transactions count as one write."""
        name = self.database(place).name
        ours = {"$regex": f"^{name}\\."}
        which = {"ts": {"$gt": since}, "$or": [{"ns": ours}, {"o.applyOps.ns": ours}]}
        found = self._oplog.aggregate([{"$match": which}, {"$group": {"_id": "$ns", "number": {"$sum": 1}}}])
        return {each["_id"].removeprefix(f"{name}."): each["number"] for each in found}


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """Serve for the length of a block."""
    with MongoSet(1, settings=SETTINGS) as servers, closing(Site(folder, servers)) as at:
        yield at

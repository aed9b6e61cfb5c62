"""The collections and indexes of a store, made by ``migrate`` only."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.databases.mongo.database import MongoDatabase
from holdfast.errors import SchemaMissing, SchemaTooNew
from holdfast.stores.mongo.names import Names

VERSION: Final = 1
MIGRATE: Final = "run `holdfast migrate module:app`, or app.migrate()"


class Index(Struct, frozen=True):
    """An index. ``present``: the field without which a document is not in it."""

    name: str
    keys: tuple[tuple[str, int], ...]
    present: str | None = None
    is_unique: bool = False

    def specification(self) -> dict[str, Any]:
        """Return the index as ``createIndexes`` takes it."""
        found: dict[str, Any] = {"name": self.name, "key": dict(self.keys)}
        if self.present is not None:
            found["partialFilterExpression"] = {self.present: {"$exists": True}}
        return found | {"unique": True} if self.is_unique else found


def _index(name: str, *keys: str, present: str | None = None, is_unique: bool = False) -> Index:
    split = tuple((key.removeprefix("-"), -1 if key.startswith("-") else 1) for key in keys)
    return Index(name, split, present, is_unique)


JOBS: Final = (
    _index("waiting", "line", "available_at", "_id", "expires_at", "attempt", present="line"),
    _index("active", "active", "number", present="active"),
    _index("timed", "timed", present="timed"),
    _index("marked", "marked", "number", present="marked"),
    _index("call", "call", present="call", is_unique=True),
    _index("received", "received_at", present="received_at"),
    _index("lock", "lock", present="lock", is_unique=True),
    _index("alone", "alone", present="alone", is_unique=True),
    _index("expiring", "expiring", "_id", present="expiring"),
    _index("owed", "owed", "hook_due_at", "_id", present="owed"),
    _index("prune_at", "prune_at", "_id", present="prune_at"),
    _index("flow", "flow", "place", present="flow"),
    _index("open_flow", "open_flow", present="open_flow"),
    _index("state", "state", "-_id", present="state"),
    _index("groups", "queue", "task", "state", "available_at", "awaits", present="state"),
)
OTHERS: Final = {
    "attempts": (_index("job", "job"), _index("brief", "brief_at", present="brief_at")),
    "leases": (_index("ended", "ended_at", present="ended_at"),),
    "state": (),
    "schedules": (),
    "beats": (_index("worker", "worker", "-at"), _index("worn", "delete_after")),
    "rates": (),
    "steps": (_index("job", "job"),),
    "signals": (_index("job", "job", "place"),),
    "flows": (),
    "fences": (_index("at", "at"),),
    "edges": (_index("child", "child"), _index("parent", "parent")),
}


def indexes_of(names: Names) -> dict[str, Sequence[Index]]:
    """Return the indexes of each collection."""
    return {names.jobs: JOBS, **{getattr(names, each): indexes for each, indexes in OTHERS.items()}}


async def migrate(database: MongoDatabase, names: Names) -> tuple[int, int]:
    """Make what is missing; return the versions before and after. Each step may be repeated, so no lock is needed."""
    before = await version_of(database, names)
    if before > VERSION:
        raise SchemaTooNew(f"{database.location.public}: its version is {before}, this release knows {VERSION}: update holdfast")
    there = {each["name"] for each in (await database.command({"listCollections": 1, "nameOnly": True}))["cursor"]["firstBatch"]}
    for name, indexes in indexes_of(names).items():
        if name not in there:
            await database.command({"create": name, "writeConcern": {"w": "majority"}})
        if indexes:
            await database.command(
                {"createIndexes": name, "indexes": [each.specification() for each in indexes], "writeConcern": {"w": "majority"}}
            )
    for document in ({"_id": "claims", "number": 0}, {"_id": "settings", "paused": [], "queues": [], "limits": []}):
        key = document.pop("_id")
        await database.write(
            {"update": names.state, "updates": [{"q": {"_id": key}, "u": {"$setOnInsert": document}, "upsert": True}]}
        )
    await database.write(
        {"update": names.state, "updates": [{"q": {"_id": "schema"}, "u": {"$max": {"version": VERSION}}, "upsert": True}]}
    )
    return before, VERSION


async def version_of(database: MongoDatabase, names: Names) -> int:
    """Return the version of the schema; 0 without one."""
    found = await database.find(names.state, {"_id": "schema"})
    return int(found[0]["version"]) if found else 0


async def require_schema(database: MongoDatabase, names: Names) -> None:
    """Raise ``SchemaMissing`` or ``SchemaTooNew`` unless this release can use the schema: without its indexes, promises are broken."""
    version = await version_of(database, names)
    if version > VERSION:
        raise SchemaTooNew(f"{database.location.public}: its version is {version}, this release knows {VERSION}: update holdfast")
    if version < VERSION or (missing := await missing_indexes(database, names)):
        what = "has no schema" if version < VERSION else f"lacks {', '.join(missing)}"
        raise SchemaMissing(f"{database.location.public} {what}: {MIGRATE}")


async def missing_indexes(database: MongoDatabase, names: Names) -> list[str]:
    """Return the indexes that are missing, hidden, or not as they should be."""
    found = list[str]()
    for name, indexes in indexes_of(names).items():
        there = {each["name"]: each for each in await database.indexes(name)}
        found += [f"{name}.{each.name}" for each in indexes if not _is_intact(each, there.get(each.name))]
    return found


def _is_intact(index: Index, there: dict[str, Any] | None) -> bool:
    if there is None or there.get("hidden"):
        return False
    return all(there.get(name, False if name == "unique" else None) == value for name, value in index.specification().items())

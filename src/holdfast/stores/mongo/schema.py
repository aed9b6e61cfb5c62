"""The collections and indexes of a store, made by ``migrate`` only."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from holdfast._core.release import UPGRADE
from holdfast.databases.mongo.capped import make_capped
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.databases.mongo.errors import DUPLICATE, index_in
from holdfast.errors import SchemaMissing, SchemaTooNew, StoreRefused, StoreUnavailable
from holdfast.stores.mongo.names import Names

VERSION: Final = 1
MIGRATE: Final = "run `holdfast migrate module:app`, or app.migrate()"
MIGRATE_LIMIT: Final = 3600.0
"""Seconds in which the indexes of a collection are built."""


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
    _index("waiting", "line", "available_at", "_id", "expiring", present="line"),
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
    _index("error_key", "error_key", "-_id", present="error_key"),
    _index("failed_at", "failed_at", "_id", present="failed_at"),
    _index("state", "state", "-_id", present="state"),
)
INDEXED: Final = frozenset(key for index in JOBS for key, _ in index.keys) - {"_id"}
"""The fields of a job that an index has."""
OTHERS: Final = {
    "attempts": (_index("job", "job"), _index("brief", "brief_at", present="brief_at")),
    "leases": (_index("ended", "ended_at", present="ended_at"),),
    "state": (),
    "schedules": (),
    "beats": (_index("worker", "worker", "-at"), _index("worn", "delete_after")),
    "rates": (),
    "audits": (_index("at", "at"),),
    "minutes": (_index("at", "at"),),
    "steps": (_index("job", "job"),),
    "signals": (_index("job", "job", "place"),),
    "flows": (),
    "fences": (_index("at", "at"),),
    "edges": (_index("child", "child"), _index("parent", "parent")),
}


def indexes_of(names: Names) -> dict[str, Sequence[Index]]:
    """Return the indexes of each collection."""
    return {names.jobs: JOBS, **{getattr(names, each): indexes for each, indexes in OTHERS.items()}}


class Fault(Struct, frozen=True):
    """What a schema lacks. ``index``: that of the collection; ``None``: the collection itself, or one of its documents."""

    collection: str
    index: str | None
    what: str

    @property
    def place(self) -> str:
        """The collection and the index."""
        return self.collection if self.index is None else f"{self.collection}.{self.index}"


class Examined(Struct, frozen=True):
    """A schema as it was found. ``version``: 0 without one. ``foreign``: indexes of others that delete documents, or refuse writes."""

    version: int
    faults: tuple[Fault, ...]
    foreign: tuple[Fault, ...]


MISSING: Final = "is missing"
HIDDEN: Final = "is hidden"
ALTERED: Final = "is not the one that this release makes"
_IDLE: Final = frozenset(("v", "ns", "background", "hidden"))
"""Attributes of an index that change nothing about what it holds."""


async def migrate(database: MongoDatabase, names: Names) -> tuple[int, int]:
    """Make what is missing; return the versions before and after. Each step may be repeated, so no lock is needed."""
    before = await version_of(database, names)
    if before > VERSION:
        raise SchemaTooNew(_too_new(database, before))
    for name, indexes in indexes_of(names).items():
        there = await database.indexes(name)
        if not there:
            await _create(database, name)
        await _make_room(database, name, indexes, there)
        if indexes:
            await _create_indexes(database, name, indexes)
    with suppress(StoreRefused):  # a server without capped collections: workers poll
        await make_capped(database, names.hints)
    for key, document in _STATE.items():
        await database.write(
            {"update": names.state, "updates": [{"q": {"_id": key}, "u": {"$setOnInsert": document}, "upsert": True}]}
        )
    await database.write(
        {"update": names.state, "updates": [{"q": {"_id": "schema"}, "u": {"$max": {"version": VERSION}}, "upsert": True}]}
    )
    return before, VERSION


async def _create(database: MongoDatabase, name: str) -> None:
    try:
        await database.command({"create": name, "writeConcern": {"w": "majority"}})
    except StoreUnavailable as error:
        if getattr(error.__cause__, "code", None) != _EXISTS:  # another process migrates, too
            raise


async def _make_room(database: MongoDatabase, name: str, indexes: Sequence[Index], there: Sequence[Document]) -> None:
    """Show hidden indexes, and drop those that are not as they should be, or are so under another name."""
    wanted = {each.name: each for each in indexes}
    for found in there:
        index = wanted.get(found["name"])
        if index is None:
            is_in_the_way = any(_form(found) == _form(each.specification()) for each in indexes)
        else:
            is_in_the_way = not _is_as(index, found)
            if found.get("hidden") and not is_in_the_way:
                await database.command({"collMod": name, "index": {"name": index.name, "hidden": False}})
        if is_in_the_way:
            await database.command({"dropIndexes": name, "index": found["name"], "writeConcern": {"w": "majority"}})


async def _create_indexes(database: MongoDatabase, name: str, indexes: Sequence[Index]) -> None:
    """Make those that are missing. ``StoreRefused``: documents that must not be there are in its way."""
    specifications = [each.specification() for each in indexes]
    command = {"createIndexes": name, "indexes": specifications, "writeConcern": {"w": "majority"}}
    try:
        await database.command(command, limit=MIGRATE_LIMIT)
    except StoreUnavailable as error:
        if getattr(error.__cause__, "code", None) != DUPLICATE:
            raise
        field = next((each.keys[0][0] for each in indexes if each.name == index_in(str(error))), "that index")
        remedy = f"remove the field {field} from all but one of these documents, then migrate again"
        raise StoreRefused(f"{error}: the index was missing when they were written: {remedy}") from error


async def version_of(database: MongoDatabase, names: Names) -> int:
    """Return the version of the schema; 0 without one."""
    return _version_in(await database.find(names.state, {"_id": "schema"}))


def _version_in(state: Sequence[Document]) -> int:
    return next((int(each["version"]) for each in state if each["_id"] == "schema"), 0)


async def require_schema(database: MongoDatabase, names: Names) -> None:
    """Raise ``SchemaMissing`` or ``SchemaTooNew`` unless this release can use the schema: without its indexes, promises are broken."""
    found = await examine(database, names)
    if found.version > VERSION:
        raise SchemaTooNew(_too_new(database, found.version))
    if found.version < VERSION or found.faults:
        what = "has no schema" if found.version < VERSION else ", ".join(f"{each.place} {each.what}" for each in found.faults)
        raise SchemaMissing(f"{database.location.public}: {what}: {MIGRATE}")


def missing(public: str, collection: str, key: str) -> SchemaMissing:
    """Return the error of a verb that finds a document of ``migrate`` gone. ``public``: the URL for people."""
    return SchemaMissing(f"{public}: {collection} lacks the document {key!r}: {MIGRATE}")


async def examine(database: MongoDatabase, names: Names) -> Examined:
    """Read the version and all indexes."""
    wanted = indexes_of(names)
    state, *listed = await asyncio.gather(
        database.find(names.state, {"_id": {"$in": ["schema", *_STATE]}}), *(database.indexes(name) for name in wanted)
    )
    there = {each["_id"] for each in state}
    faults = [Fault(names.state, None, f"lacks the document {key!r}") for key in _STATE if key not in there]
    foreign = list[Fault]()
    for (name, indexes), found in zip(wanted.items(), listed, strict=True):
        faults += _faults_of(name, indexes, found)
        foreign += _foreign(name, indexes, found)
    return Examined(_version_in(state), tuple(faults), tuple(foreign))


def _faults_of(name: str, indexes: Sequence[Index], listed: Sequence[Document]) -> Iterator[Fault]:
    if not listed:
        yield Fault(name, None, MISSING)
        return
    there = {each["name"]: each for each in listed}
    for index in indexes:
        found = there.get(index.name)
        if found is None:
            yield Fault(name, index.name, MISSING)
        elif not _is_as(index, found):
            yield Fault(name, index.name, ALTERED)
        elif found.get("hidden"):
            yield Fault(name, index.name, HIDDEN)


def _foreign(name: str, indexes: Sequence[Index], listed: Sequence[Document]) -> Iterator[Fault]:
    ours, forms = {"_id_", *(each.name for each in indexes)}, [_form(each.specification()) for each in indexes]
    for found in listed:
        if found["name"] in ours or _form(found) in forms:
            continue
        if "expireAfterSeconds" in found:
            yield Fault(name, found["name"], "deletes documents by itself")
        elif found.get("unique"):
            yield Fault(name, found["name"], "is unique, and refuses writes of Holdfast")


def _is_as(index: Index, found: Document) -> bool:
    return _form(index.specification()) == _form(found)


def _form(index: Document) -> Document:
    """Return what an index holds and does, without its name. The order of its keys counts."""
    return {**{name: value for name, value in index.items() if name not in _IDLE | {"name"}}, "key": [*index["key"].items()]}


def _too_new(database: MongoDatabase, version: int) -> str:
    return f"{database.location.public}: its version is {version}, this release knows {VERSION}: {UPGRADE}"


_STATE: Final[dict[str, Document]] = {"claims": {"number": 0}, "settings": {"paused": [], "queues": [], "limits": []}}
_EXISTS: Final = 48

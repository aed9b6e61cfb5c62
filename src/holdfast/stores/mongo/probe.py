"""The probe: does this server keep what the store relies on? Servers that resemble MongoDB accept its commands and ignore their guarantees.

It asks for behaviour, not for names, in a scratch collection that no other probe knows.
"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NoReturn

import pymongo
from bson.timestamp import Timestamp
from pymongo.errors import PyMongoError

from holdfast._ports.clock import Randomness
from holdfast.databases.mongo.database import MAJORITY, Document, MongoDatabase, Session
from holdfast.databases.mongo.errors import (
    DUPLICATE,
    PASSING,
    STANDALONE,
    index_in,
    is_not_permitted,
    raise_for_reply,
    refusal_of,
)
from holdfast.errors import ConfigurationError, HoldfastError, StoreUnavailable, Unsupported
from holdfast.stores.mongo.names import Names

LIMIT: Final = 10.0
GREETING_LIMIT: Final = 4.0
"""Seconds in which a primary has to be found. After that the servers are asked one by one what is wrong with them."""
OLDEST: Final = (6, 0)
LEFT_OVER: Final = 3600
"""Seconds after which the scratch collection of a process that was killed is dropped."""
_APART: Final = 60.0  # seconds by which the server's clock may be set between two commands
_DAY: Final = 86_400
_CONFLICT: Final = 112
_REMEDY: Final = (
    "use a replica set of MongoDB 6.0 or later: another server, also one that resembles it, loses jobs or runs them twice"
)


async def probe(database: MongoDatabase, names: Names, chance: Randomness) -> None:
    """Test the server within 10 seconds.

    ``Unsupported``: it cannot keep jobs. ``ConfigurationError``: the URL or the user's rights do not fit. ``StoreUnavailable``: it has
    not answered.
    """
    with pymongo.timeout(LIMIT):
        hello = await require_replica_set(database)
        await require_version(database)
        at: datetime = hello["localTime"]
        scratch = f"{names.schema}.probe.{int(at.timestamp())}.{chance.uuid4().hex[:12]}"
        try:
            await _Probe(database, scratch, hello).run()
        finally:
            with contextlib.suppress(HoldfastError):
                await _drop(database, scratch, before=int(at.timestamp()) - LEFT_OVER)


async def require_replica_set(database: MongoDatabase) -> Document:
    """Return what the primary reports of itself; raise what is wrong with the server's set, or with its name in the URL."""
    public = database.location.public
    try:
        with pymongo.timeout(GREETING_LIMIT):
            hello = await database.greet()
    except StoreUnavailable:
        await _explain(database)
        raise
    if "setName" not in hello and not is_router(hello):
        raise Unsupported(f"{public}: {STANDALONE}")
    if not hello.get("isWritablePrimary"):
        raise StoreUnavailable(
            f"{public}: this member is not the primary: leave directConnection out of the URL, and name all members"
        )
    return hello


def is_router(hello: Mapping[str, Any]) -> bool:
    """Return whether the server is a mongos, the router of a sharded cluster."""
    return hello.get("msg") == "isdbgrid"


async def _explain(database: MongoDatabase) -> None:
    """Raise why no server of the URL was selected, if one of them is not a member of the set that the URL names."""
    for host in database.location.hosts:
        with contextlib.suppress(StoreUnavailable):
            hello = await database.greet_member(host)
            name = hello.get("setName")
            if name is None and not is_router(hello):
                raise Unsupported(f"{database.location.public}: {host}: {STANDALONE}")
            if name is not None and (wanted := database.location.replica_set) not in (None, name):
                problem = f"{host} belongs to the set {name!r}, not to {wanted!r}: correct replicaSet in the URL"
                raise ConfigurationError([f"{database.location.public}: {problem}"])


async def require_version(database: MongoDatabase) -> tuple[str, str | None]:
    """Return the version and the feature compatibility version, which only some users may read; raise if one is too old."""
    version = str((await database.command({"buildInfo": 1}))["version"])
    features = await features_of(database)
    for what, found in (("MongoDB", version), ("feature compatibility version", features)):
        if found is not None and number_of(found) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            remedy = (
                "upgrade the server" if what == "MongoDB" else f'db.adminCommand({{setFeatureCompatibilityVersion: "{oldest}"}})'
            )
            raise Unsupported(f"{database.location.public}: {what} {found} is too old, {oldest} or later is needed: {remedy}")
    return version, features


async def features_of(database: MongoDatabase) -> str | None:
    """Return the feature compatibility version; ``None`` if this user may not read it, or the server has none."""
    try:
        reply = await database.command({"getParameter": 1, "featureCompatibilityVersion": 1}, on="admin")
    except HoldfastError as error:
        if is_not_permitted(error) or refusal_of(error) is not None:
            return None
        raise
    found = reply.get("featureCompatibilityVersion", {}).get("version")
    return None if found is None else str(found)


def number_of(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version.

    >>> number_of("8.0.4-rc1")
    (8, 0)
    """
    first, second, *_ = [*version.split("."), "0"]
    return int(first), int(second)


async def _drop(database: MongoDatabase, scratch: str, *, before: int) -> None:
    """Drop the scratch collection, and those that killed processes have left."""
    await database.command({"drop": scratch})
    prefix = scratch.rpartition(".")[0].rpartition(".")[0] + "."
    listed = await database.command(
        {"listCollections": 1, "nameOnly": True, "filter": {"name": {"$gt": prefix, "$lt": prefix + "~"}}}
    )
    for each in listed["cursor"]["firstBatch"]:
        made = each["name"].removeprefix(prefix).partition(".")[0]
        if made.isdigit() and int(made) < before:
            await database.command({"drop": each["name"]})


class _Abort(Exception):
    pass


class _Conflict(Exception):
    pass


class _Probe:
    """One run of all tests. Documents 1 to 3 are there throughout; each test adds those that it needs."""

    def __init__(self, database: MongoDatabase, scratch: str, hello: Mapping[str, Any]) -> None:
        self._database, self._scratch = database, scratch
        self._at: datetime = hello["localTime"]
        self._has_terms = not is_router(hello)

    async def run(self) -> None:
        """Run the tests; what the server cannot do at all fails the one that is running."""
        with self._test("unique partial index"):
            await self._test_index()
        with self._test("pipeline update"):
            await self._test_update()
        with self._test("read concern majority with afterClusterTime"):
            await self._test_causal_read()
        with self._test("$unionWith"):
            await self._test_union()
        with self._test("snapshot read"):
            await self._database.snapshot(self._test_snapshot)
        with self._test("abort of a transaction"):
            await self._test_abort()
        with self._test("conflict of a transaction with a later write"):
            await self._test_conflict()
        with self._test("commit of a transaction"):
            await self._test_commit()
        with self._test(
            "write concern"
        ):  # the last: a majority read after its write would wait for the next flush of the journal
            await self._test_write_concern()

    async def _test_index(self) -> None:
        index = {"name": "lock", "key": {"lock": 1}, "unique": True, "partialFilterExpression": {"lock": {"$exists": True}}}
        await self._database.command({"createIndexes": self._scratch, "indexes": [index], "writeConcern": {"w": 1}})
        documents: list[Document] = [
            {"_id": 1, "number": 1},
            {"_id": 2, "number": 1},
            {"_id": 3, "lock": 1},
            {"_id": 4, "lock": 1},
        ]
        reply = await self._send({"insert": self._scratch, "documents": documents, "ordered": False})
        failures = reply.get("writeErrors", [])
        if any(each["index"] < 3 for each in failures):
            self._fail("it applies the index to documents without the field")
        if reply["n"] != 3 or len(failures) != 1:
            self._fail("it accepted a key twice")
        if failures[0]["code"] != DUPLICATE or index_in(failures[0]["errmsg"]) != "lock":
            self._fail("it does not name the index that refuses a document")

    async def _test_update(self) -> None:
        place = {"$indexOfArray": [{"$literal": [7, 1]}, "$_id"]}
        fields = {
            "at": "$$NOW",
            "number": {"$max": [{"$add": ["$number", 1]}, 7]},
            "place": place,
            "text": {"$literal": "$$ROOT"},
        }
        late = {"_id": 2, "$expr": {"$gt": ["$number", "$$NOW"]}}
        changes = [
            {"q": {"_id": 1}, "u": [{"$set": fields}]},
            {"q": late, "u": [{"$set": {"number": 0}}, {"$unset": ["lock"]}], "multi": True},
        ]
        reply = await self._send({"update": self._scratch, "updates": changes})
        if failures := reply.get("writeErrors"):
            self._fail(failures[0]["errmsg"])
        if reply["n"] != 1:
            self._fail("$expr with $$NOW matched a document that it excludes")
        (found,) = await self._find({"_id": 1})
        expected = {"number": ("$max", 7), "place": ("$indexOfArray", 1), "text": ("$literal", "$$ROOT")}
        for field, (operator, value) in expected.items():
            if found.get(field) != value:
                self._fail(f"{operator} returned {found.get(field)!r} instead of {value!r}")
        at = found.get("at")
        if not isinstance(at, datetime) or abs((at - self._at).total_seconds()) > _APART:
            self._fail(f"$$NOW is {at!r}, and the server's clock shows {self._at.isoformat()}")
        written = reply.get("opTime")
        if self._has_terms and not (isinstance(written, Mapping) and isinstance(written.get("t"), int)):
            self._fail("the reply to a write has no opTime.t, so an election would not be noticed")

    async def _test_causal_read(self) -> None:
        reply = await self._change(1, {"$set": {"text": "causal"}})
        time = reply.get("operationTime")
        if not isinstance(time, Timestamp):
            self._fail("the reply to a write has no operationTime")
        concern: Document = {"level": "majority", "afterClusterTime": time}
        read: Document = {"find": self._scratch, "filter": {"_id": 1}, "readConcern": concern}
        ((found,)) = (await self._database.command(read))["cursor"]["firstBatch"]
        if found.get("text") != "causal":
            self._fail("a read did not return the write before it")
        concern["afterClusterTime"] = Timestamp(time.time + _DAY, 1)  # refused by a server that obeys it
        try:
            await self._database.command(read)
        except HoldfastError as error:
            if refusal_of(error) is None:
                raise
        else:
            self._fail("it ignores the time at or after which it must read")

    async def _test_write_concern(self) -> None:
        update = {"q": {"_id": 1}, "u": {"$set": {"text": "concern"}}}
        command = {"update": self._scratch, "updates": [update], "writeConcern": {"w": "holdfast-probe"}}
        if "writeConcernError" not in await self._database.command(command):  # a set has no such mode
            self._fail("it ignores how many members have to confirm a write")

    async def _test_union(self) -> None:
        other = {"$unionWith": {"coll": self._scratch, "pipeline": [{"$match": {"_id": 2}}]}}
        found = await self._database.find(self._scratch, [{"$match": {"_id": 1}}, other])
        if [each["_id"] for each in found] != [1, 2]:
            self._fail(f"it returned {len(found)} documents of 2")

    async def _test_snapshot(self, session: Session) -> None:
        before = await self._find({"_id": 1}, session)
        await self._change(1, {"$inc": {"number": 1}})
        if await self._find({"_id": 1}, session) != before:
            self._fail("the second read saw a write that came after the first")

    async def _test_abort(self) -> None:
        async def act(session: Session) -> None:
            await self._insert("aborted", session)
            raise _Abort

        with contextlib.suppress(_Abort):
            await self._database.transaction(act)
        if await self._find({"_id": "aborted"}):
            self._fail("what was written in it is there")

    async def _test_conflict(self) -> None:
        async def act(session: Session) -> None:
            await self._find({"_id": 2}, session)
            await self._change(2, {"$inc": {"number": 1}})
            try:
                await self._change(2, {"$inc": {"number": 1}}, session)
            except PyMongoError as error:
                if getattr(error, "code", None) == _CONFLICT:
                    raise _Conflict from error
                raise
            except StoreUnavailable as error:
                if getattr(error.__cause__, "code", None) == _CONFLICT:
                    self._fail("the conflict does not have the label by which transactions are begun again")
                raise
            self._fail("a document was changed that another write had changed since the transaction began")

        with contextlib.suppress(_Conflict):
            await self._database.transaction(act)

    async def _test_commit(self) -> None:
        async def act(session: Session) -> None:
            await self._insert("committed", session)
            await self._change(2, {"$set": {"text": "committed"}}, session)
            if await self._find({"_id": "committed"}):
                self._fail("others see what is written in it before it commits")

        await self._database.transaction(act)
        found = await self._find({"$or": [{"_id": "committed"}, {"text": "committed"}]})
        if len(found) != 2:
            self._fail("what was written in it is not there")

    async def _insert(self, key: str, session: Session) -> None:
        await self._database.write({"insert": self._scratch, "documents": [{"_id": key}]}, session=session)

    async def _change(self, key: int, change: Document, session: Session | None = None) -> Document:
        command = {"update": self._scratch, "updates": [{"q": {"_id": key}, "u": change}]}
        return await self._database.write(command, session=session)

    async def _find(self, which: Document, session: Session | None = None) -> list[Document]:
        return await self._database.find(self._scratch, which, session=session)

    async def _send(self, command: Document) -> Document:
        """Send a write of which a part may be refused for good, and return its reply."""
        reply = await self._database.command({**command, "writeConcern": MAJORITY})
        passing = [each for each in reply.get("writeErrors", ()) if each["code"] in PASSING]
        raise_for_reply(self._database.location.public, {**reply, "writeErrors": passing})
        return reply

    @contextlib.contextmanager
    def _test(self, name: str) -> Iterator[None]:
        self._name = name
        try:
            yield
        except Unsupported:
            raise
        except HoldfastError as error:
            if (refusal := refusal_of(error)) is None:
                raise
            self._fail(refusal)

    def _fail(self, what: str) -> NoReturn:
        raise Unsupported(f"{self._database.location.public}: the server fails the test {self._name!r}: {what}: {_REMEDY}")

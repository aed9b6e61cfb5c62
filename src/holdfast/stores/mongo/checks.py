"""The checks of a MongoDB store: rights, server, members, schema, load. What a user may not ask for is "not checked"."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from holdfast._core.answers import Check
from holdfast._core.release import UPGRADE
from holdfast._ports.clock import Clock
from holdfast.databases.mongo.capped import SIZE, is_capped
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.databases.mongo.errors import is_not_permitted, refusal_of
from holdfast.errors import ConfigurationError, HoldfastError, StoreUnavailable, Unsupported
from holdfast.stores.mongo import schema
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.probe import is_router, number_of, require_replica_set, require_version

APART: Final = 1.0
BEHIND: Final = 60.0
SHORT_OPLOG: Final = 3600.0
FULL: Final = 0.8
"""The part of an oplog's size from which it forgets: the server cuts off up to a tenth at once."""
SHORT_LIFETIME: Final = 30
LONG: Final = 10.0
MEGABYTE: Final = 1 << 20
ENDS: Final = {(6, 0): date(2025, 7, 31), (7, 0): date(2027, 8, 31), (8, 0): date(2029, 10, 31)}
"""When the vendor ends the support of a version: https://www.mongodb.com/legal/support-policy/lifecycles"""
NEEDED: Final = frozenset(
    ("find", "insert", "update", "remove", "createCollection", "createIndex", "dropCollection", "listCollections", "listIndexes")
)
_MONITOR = "grant the role clusterMonitor to this user to have it checked"
_SHELL: Final = "in mongosh, as an administrator"
_LEAST_OPLOG: Final = 990
"""The megabytes below which the server refuses an oplog."""


async def check(
    database: MongoDatabase, names: Names, require_server: Callable[[], Awaitable[None]], clock: Clock
) -> list[Check]:
    """Return all findings. A missing schema is one of them, and is not created; a server that cannot keep jobs is the last."""
    found = list[Check]()
    try:
        await require_replica_set(database)
        found += await _of_rights(database)
        if any(each.level == "error" for each in found):
            return found
        await require_server()
    except (Unsupported, ConfigurationError) as error:
        return [*found, Check("error", "server", str(error))]
    hello = await database.greet()
    found += _of_topology(hello)
    found += await _of_version(database, clock)
    found += await _of_members(database, hello, clock)
    found += await _of_replication(database, hello)
    found += await _of_oplog(database, hello)
    found += await _of_transactions(database)
    found += await _of_sharding(database, names, hello)
    found += await _of_schema(database, names)
    found += await _of_hints(database, names)
    return found


async def warnings(database: MongoDatabase) -> tuple[str, ...]:
    """Return what a worker logs when it starts: what is cheap to see, and makes a set lose its members."""
    try:
        found = await _of_oplog(database, await database.greet())
    except HoldfastError:
        return ()
    return tuple(f"{each.message}: {each.remedy}" for each in found if each.level != "ok")


async def _ask(database: MongoDatabase, command: Document, *, on: str | None = "admin") -> Document | None:
    """Return the reply; ``None`` if this user may not ask, or this server does not know the question."""
    try:
        return await database.command(command, on=on)
    except HoldfastError as error:
        if is_not_permitted(error) or refusal_of(error) is not None:
            return None
        raise


def _not_checked(name: str, what: str) -> Check:
    return Check("ok", name, f"not checked: this user may not ask for {what}", _MONITOR)


async def _of_rights(database: MongoDatabase) -> Sequence[Check]:
    status = await _ask(database, {"connectionStatus": 1, "showPrivileges": True})
    users = () if status is None else status["authInfo"]["authenticatedUsers"]
    if status is None or not users:
        return ()
    where, user, home = database.location.database, users[0]["user"], users[0]["db"]
    allowed = set[str]()
    for each in status["authInfo"]["authenticatedUserPrivileges"]:
        if _covers(each["resource"], where):
            allowed.update(each["actions"])
    if missing := sorted(NEEDED - allowed):
        message = f"the user {user!r} lacks rights in the database {where!r}: {', '.join(missing)}"
        grant = f'db.getSiblingDB("{home}").grantRolesToUser("{user}", [{{role: "readWrite", db: "{where}"}}])'
        return (Check("error", "rights", message, f"{_SHELL}: {grant}"),)
    return (Check("ok", "rights", f"the user {user!r} may read and write the database {where!r}"),)


def _covers(resource: Mapping[str, Any], database: str) -> bool:
    is_of_all = resource.get("collection") == "" and resource.get("db") in ("", database)
    return is_of_all or bool(resource.get("anyResource"))


async def _of_version(database: MongoDatabase, clock: Clock) -> Sequence[Check]:
    version, features = await require_version(database)
    end = ENDS.get(number_of(version))
    shown = f"MongoDB {version}" + (f" with the features of {features}" if features else "")
    if end is not None and datetime.fromtimestamp(clock.wall(), UTC).date() > end:
        message = f"{shown}: its support has ended on {end.isoformat()}, and it gets no security fixes"
        found = Check("warning", "server", message, "upgrade to a later version")
    else:
        found = Check("ok", "server", shown)
    return (found,) if features else (found, _not_checked("features", "the feature compatibility version"))


def _of_topology(hello: Mapping[str, Any]) -> Iterator[Check]:
    if is_router(hello):
        return
    data, arbiters = [*hello.get("hosts", ()), *hello.get("passives", ())], hello.get("arbiters", ())
    spare = len(data) - ((len(data) + len(arbiters)) // 2 + 1)
    name = f"the replica set {hello['setName']!r}"
    if len(data) == 1:
        message = f"{name} has one member with data: a majority is this machine, and its disk has the only copy of all jobs"
        yield Check("warning", "members", message, 'add two members, for example rs.add("host:27017")')
    elif spare < 1:
        members = f"{len(data)} members with data" + (f" and {len(arbiters)} arbiters" if arbiters else "")
        message = f"{name} has {members}: while one of those with data is down, no write is confirmed by a majority"
        yield Check(
            "warning", "members", message, "replace the arbiter by a member with data" if arbiters else "add a third member"
        )
    else:
        yield Check("ok", "members", f"{name} has {len(data)} members with data, of which {spare} may be down")


async def _of_members(database: MongoDatabase, hello: Mapping[str, Any], clock: Clock) -> Sequence[Check]:
    """Compare the clocks of the members that may become primary."""
    hosts = hello.get("hosts", ())
    answers = await asyncio.gather(*(_offset(database, each, clock) for each in hosts), return_exceptions=True)
    found, offsets = list[Check](), list[tuple[float, float, str]]()
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, StoreUnavailable):
            found.append(Check("warning", "members", f"a member does not answer: {answer}", "start it, or repair the network"))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            offsets.append((*answer, host))
    if len(offsets) > 1:
        found.append(_of_clocks(min(offsets), max(offsets)))
    return found


def _of_clocks(slow: tuple[float, float, str], fast: tuple[float, float, str]) -> Check:
    gap = fast[0] - slow[0] - fast[1] - slow[1]
    if gap <= APART:
        return Check("ok", "clock", "the clocks of the members agree")
    message = f"the clock of {fast[2]} is {gap:.0f} s ahead of that of {slow[2]}: at an election all due times move by it"
    return Check("warning", "clock", message, "keep the clocks of all members in step (NTP)")


async def _offset(database: MongoDatabase, host: str, clock: Clock) -> tuple[float, float]:
    """Return by how much the clock of a member differs from this machine's time since its start, and how wrong that may be."""
    sent = clock.boottime()
    hello = await database.greet_member(host)
    received = clock.boottime()
    return hello["localTime"].timestamp() - (sent + received) / 2, (received - sent) / 2


async def _of_replication(database: MongoDatabase, hello: Mapping[str, Any]) -> Sequence[Check]:
    if is_router(hello):
        return ()
    status = await _ask(database, {"replSetGetStatus": 1})
    if status is None:
        return (_not_checked("replication", "the state of the replica set"),)
    copies = {each["name"]: each["optimeDate"] for each in status["members"] if each["state"] in (1, 2)}
    newest = max(copies.values())
    late = {name: (newest - at).total_seconds() for name, at in copies.items()}
    return [
        Check(
            "warning",
            "replication",
            f"{name} is {lag:.0f} s behind",
            "see what keeps it: its disk, the network, a long query on it",
        )
        for name, lag in late.items()
        if lag > BEHIND
    ]


async def _of_oplog(database: MongoDatabase, hello: Mapping[str, Any]) -> Sequence[Check]:
    if is_router(hello):
        return ()
    stats = await _ask(database, {"collStats": "oplog.rs"}, on="local")
    command = {"find": "oplog.rs", "sort": {"$natural": 1}, "limit": 1, "projection": {"ts": 1}}
    first = None if stats is None else await _ask(database, command, on="local")
    if stats is None or first is None:
        return (_not_checked("oplog", "the oplog"),)
    size, most = stats["size"], stats["maxSize"]
    ((oldest),) = first["cursor"]["firstBatch"]
    seconds = hello["lastWrite"]["opTime"]["ts"].time - oldest["ts"].time
    if size < FULL * most or seconds >= SHORT_OPLOG:
        fill = "and has all writes so far" if size < FULL * most else f"and has the writes of the last {seconds / 3600:.0f} h"
        return (Check("ok", "oplog", f"it may take {most // MEGABYTE} MB, {fill}"),)
    message = f"the oplog of {most // MEGABYTE} MB has the writes of the last {seconds / 60:.0f} min only"
    larger = f"db.adminCommand({{replSetResizeOplog: 1, size: {max(_LEAST_OPLOG, 2 * most // MEGABYTE)}}})"
    remedy = f"a member that is away for longer has to copy everything. Enlarge it on each member, {_SHELL}: {larger}"
    return (Check("warning", "oplog", message, remedy),)


async def _of_transactions(database: MongoDatabase) -> Sequence[Check]:
    found = list[Check]()
    limits = await _ask(database, {"getParameter": 1, "transactionLifetimeLimitSeconds": 1})
    lifetime = None if limits is None else limits.get("transactionLifetimeLimitSeconds")
    if lifetime is None:
        found.append(_not_checked("transactions", "transactionLifetimeLimitSeconds"))
    elif lifetime < SHORT_LIFETIME:
        message = f"the server ends transactions after {lifetime} s: large deletes and rescues may need longer"
        remedy = f"{_SHELL}: db.adminCommand({{setParameter: 1, transactionLifetimeLimitSeconds: 60}})"
        found.append(Check("warning", "transactions", message, remedy))
    opened = await _ask(database, {"aggregate": 1, "pipeline": _OLDEST_TRANSACTION, "cursor": {}})
    if opened is None:
        return [*found, _not_checked("transactions", "those of other users")]
    for each in opened["cursor"]["firstBatch"]:
        who, seconds = each.get("appName") or each.get("client") or "a client", each["transaction"]["timeOpenMicros"] / 1e6
        message = f"a transaction of {who} is open for {seconds:.0f} s: writes to the documents that it has changed fail or wait"
        remedy = f"end it, {_SHELL}: db.adminCommand({{killSessions: [{_session(each['lsid'])}]}})"
        found.append(Check("warning", "transactions", message, remedy))
    return found


def _session(lsid: Mapping[str, Any]) -> str:
    """Return a session as mongosh writes it. Without the user's ``uid`` the server looks among the sessions of who sends the command."""
    return f"{{id: UUID('{lsid['id']}'), uid: BinData(0, '{b64encode(lsid['uid']).decode()}')}}"


async def _of_sharding(database: MongoDatabase, names: Names, hello: Mapping[str, Any]) -> Sequence[Check]:
    if not is_router(hello):
        return ()
    message = "this is a sharded cluster: after an election, leases are judged by watching them, so a rescue takes longer"
    found = [Check("warning", "sharding", message, "prefer a replica set, and never shard a collection of Holdfast")]
    for name in schema.indexes_of(names):
        stats = await _ask(database, {"collStats": name}, on=None)
        if stats is not None and stats.get("sharded"):
            message = f"{name} is sharded, and a unique index does not hold across shards"
            found.append(Check("error", "sharding", message, "move the jobs to a database whose collections are not sharded"))
    return found


async def _of_schema(database: MongoDatabase, names: Names) -> Sequence[Check]:
    found = await schema.examine(database, names)
    shown = f"version {found.version} of {schema.VERSION}"
    if found.version > schema.VERSION:
        return (Check("error", "schema", shown, UPGRADE),)
    if found.version < schema.VERSION:
        return (Check("error", "schema", shown if found.version else "there is none yet", schema.MIGRATE),)
    faults = [
        Check("error", "indexes" if each.index else "schema", f"{each.place} {each.what}", schema.MIGRATE)
        for each in found.faults
    ]
    here = f'{_SHELL}: db.getSiblingDB("{database.location.database}")'
    foreign = [
        Check(
            "error",
            "indexes",
            f"{each.place} {each.what}",
            f'{here}.runCommand({{dropIndexes: "{each.collection}", index: "{each.index}"}})',
        )
        for each in found.foreign
    ]
    return (*faults, *foreign) if faults or foreign else (Check("ok", "schema", f"{shown}, all indexes are there"),)


async def _of_hints(database: MongoDatabase, names: Names) -> Sequence[Check]:
    if await is_capped(database, names.hints) is not False:
        return ()
    message = f"{names.hints} is not capped: no cursor can wait at it, and it grows until a process with workers makes it again"
    here = f'{_SHELL}: db.getSiblingDB("{database.location.database}")'
    return (Check("warning", "hints", message, f'{here}.runCommand({{convertToCapped: "{names.hints}", size: {SIZE}}})'),)


_OLDEST_TRANSACTION: Final = [
    {"$currentOp": {"allUsers": True, "idleSessions": True}},
    {"$match": {"transaction.timeOpenMicros": {"$gt": int(LONG * 1e6)}}},
    {"$sort": {"transaction.timeOpenMicros": -1}},
    {"$limit": 1},
    {"$project": {"appName": 1, "client": 1, "lsid": 1, "transaction.timeOpenMicros": 1}},
]

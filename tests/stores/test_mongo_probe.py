"""A server that cannot keep jobs is refused at the first use, by the name of what it lacks, with the remedy."""

import asyncio
import re
import threading
from datetime import UTC, datetime
from typing import Any, cast

import bson
import pytest

from holdfast._core.answers import Check
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.mongo.database import MongoDatabase
from holdfast.errors import ConfigurationError, SchemaMissing, StoreUnavailable, Unsupported
from holdfast.stores.mongo import probe as probing
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers import MongoServer, MongoSet
from tests.e2e.waiting import STALL
from tests.servers.lookalike import Behaviour, Document, Lookalike, Send

NAMES = Names("holdfast")
LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)


def probe(url: str, times: int = 1) -> list[str]:
    """Run the probe, several at once, and return the collections that are there afterwards."""

    async def act() -> list[str]:
        database = MongoDatabase(url, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
        try:
            await asyncio.gather(*(probing.probe(database, NAMES, SystemRandomness()) for _ in range(times)))
            listed = await database.command({"listCollections": 1, "nameOnly": True})
            return sorted(each["name"] for each in listed["cursor"]["firstBatch"])
        finally:
            await database.close()

    return asyncio.run(act())


async def check(url: str) -> tuple[Check, ...]:
    """Return the findings of a store."""
    store = MongoStore(url, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
    try:
        return await store.check()
    finally:
        await store.close()


def probe_lookalike(servers: MongoSet, behave: Behaviour) -> list[str]:
    """Run the probe on a server that is this one but for its behaviour."""
    with Lookalike(servers.members[0], behave) as lookalike:
        return probe(lookalike.url("probed"))


def failed(code: int, message: str) -> Document:
    """Return the reply of a server that refuses a command."""
    return {"ok": 0.0, "code": code, "errmsg": message}


def replaced(value: Any, old: Any, new: Any) -> Any:
    """Return a command with another value, or another name of a field, at any depth."""
    if value == old and isinstance(value, type(old)):
        return new
    if isinstance(value, dict):
        return {new if name == old else name: replaced(each, old, new) for name, each in value.items()}
    return [replaced(each, old, new) for each in value] if isinstance(value, list) else value


def without(value: Any, *names: str) -> Any:
    """Return a command without fields of these names, at any depth."""
    if isinstance(value, dict):
        return {name: without(each, *names) for name, each in value.items() if name not in names}
    return [without(each, *names) for each in value] if isinstance(value, list) else value


def test_a_replica_set_of_one_is_accepted_and_nothing_is_left(mongo_set: MongoSet) -> None:
    assert probe(mongo_set.create_database()) == []
    assert probe_lookalike(mongo_set, lambda command, send: send(command)) == []


@pytest.mark.prove
def test_a_replica_set_of_three_is_accepted_and_nothing_is_left(mongo_trio: MongoSet) -> None:
    assert probe(mongo_trio.create_database()) == []


def test_probes_at_once_do_not_disturb_each_other(mongo_url: str) -> None:
    assert probe(mongo_url, times=4) == []


def test_a_scratch_collection_of_a_killed_process_is_dropped_an_hour_later(mongo_set: MongoSet) -> None:
    url, now = mongo_set.create_database(), int(SystemClock().wall())
    server, database = mongo_set.members[0], url.rpartition("/")[2].partition("?")[0]
    for name in (f"holdfast.probe.{now - 4000}.a", f"holdfast.probe.{now - 3000}.b", "holdfast.probes", "holdfast.probe.x.y"):
        server.command("create", name, database=database)
    assert probe(url) == [f"holdfast.probe.{now - 3000}.b", "holdfast.probe.x.y", "holdfast.probes"]


# Each of these servers is wrong in one thing only.


def no_partial_index(command: Document, send: Send) -> Document:
    return send(without(command, "partialFilterExpression"))


def no_unique_index(command: Document, send: Send) -> Document:
    return send(without(command, "unique"))


def nameless_duplicate(command: Document, send: Send) -> Document:
    reply = send(command)
    for each in reply.get("writeErrors", ()):
        each["errmsg"] = "duplicate key"
    return reply


def no_index_at_all(command: Document, send: Send) -> Document:
    return failed(67, "partial indexes are not supported") if "createIndexes" in command else send(command)


def frozen_now(command: Document, send: Send) -> Document:
    return send(replaced(command, "$$NOW", LONG_AGO))


def textual_now(command: Document, send: Send) -> Document:
    return send(replaced(command, "$$NOW", {"$literal": "$$NOW"}))


def no_max(command: Document, send: Send) -> Document:
    return send(replaced(command, "$max", "$min"))


def no_index_of_array(command: Document, send: Send) -> Document:
    return send(replaced(command, "$indexOfArray", "$indexOfNothing"))


def wrong_index_of_array(command: Document, send: Send) -> Document:
    return send(replaced(command, [7, 1], [1, 7]))


def evaluated_literal(command: Document, send: Send) -> Document:
    return send(replaced(command, {"$literal": "$$ROOT"}, {"$toString": "$_id"}))


def ignored_expr(command: Document, send: Send) -> Document:
    return send(without(command, "$expr"))


def no_term(command: Document, send: Send) -> Document:
    return without(send(command), "opTime")


def no_operation_time(command: Document, send: Send) -> Document:
    reply = send(command)
    return without(reply, "operationTime") if "update" in command else reply


def ignored_time(command: Document, send: Send) -> Document:
    return send(without(command, "afterClusterTime"))


def stale_read(command: Document, send: Send) -> Document:
    reply = send(command)
    return replaced(reply, "causal", "old") if "readConcern" in command else reply


def ignored_write_concern(command: Document, send: Send) -> Document:
    return send(replaced(command, "holdfast-probe", 1))


def no_union(command: Document, send: Send) -> Document:
    return send(replaced(command, "$unionWith", "$join"))


def short_union(command: Document, send: Send) -> Document:
    return send({**command, "pipeline": command["pipeline"][:1]} if "$unionWith" in str(command) else command)


def no_snapshot(command: Document, send: Send) -> Document:
    is_snapshot = command.get("readConcern", {}).get("level") == "snapshot" and "txnNumber" not in command
    return send(without(command, "readConcern") if is_snapshot else command)


def refused_snapshot(command: Document, send: Send) -> Document:
    is_snapshot = command.get("readConcern", {}).get("level") == "snapshot" and "txnNumber" not in command
    return failed(2, "snapshot is not supported") if is_snapshot else send(command)


def ignored_abort(command: Document, send: Send) -> Document:
    if "abortTransaction" not in command:
        return send(command)
    return send({"commitTransaction": 1, **without(command, "abortTransaction")})


def ignored_conflict(command: Document, send: Send) -> Document:
    reply = send(command)
    return {"ok": 1.0, "n": 1, "nModified": 1} if reply.get("code") == 112 else reply


def unlabelled_conflict(command: Document, send: Send) -> Document:
    reply = send(command)
    return without(reply, "errorLabels") if reply.get("code") == 112 else reply


def lost_commit(command: Document, send: Send) -> Document:
    if "commitTransaction" not in command:
        return send(command)
    return send({"abortTransaction": 1, **without(command, "commitTransaction")})


def dirty_read(command: Document, send: Send) -> Document:
    reply = send(command)
    if command.get("filter") == {"_id": "committed"}:
        cast(Any, reply)["cursor"]["firstBatch"] = [{"_id": "committed"}]
    return reply


def no_transactions(command: Document, send: Send) -> Document:
    if "commitTransaction" in command or "abortTransaction" in command:
        return {"ok": 1.0}
    outside = without(command, "txnNumber", "startTransaction", "autocommit", "lsid")
    return send(without(outside, "readConcern") if "autocommit" in command else command)


def without_guarantees(command: Document, send: Send) -> Document:
    """A server such as FerretDB 1: it accepts all concerns and ignores them."""
    return without(no_transactions(without(command, "writeConcern", "readConcern"), send), "opTime", "operationTime")


WRONG = [
    (no_partial_index, "unique partial index", "documents without the field"),
    (no_unique_index, "unique partial index", "accepted a key twice"),
    (frozen_now, "pipeline update", "$$NOW is datetime.datetime(1990"),
    (no_max, "pipeline update", "$max returned 2 instead of 7"),
    (no_index_of_array, "pipeline update", "$indexOfNothing"),
    (evaluated_literal, "pipeline update", "$literal returned '1' instead of '$$ROOT'"),
    (no_term, "pipeline update", "has no opTime.t"),
    (ignored_time, "read concern majority with afterClusterTime", "ignores the time"),
    (stale_read, "read concern majority with afterClusterTime", "did not return the write before it"),
    (no_union, "$unionWith", "$join"),
    (no_snapshot, "snapshot read", "saw a write that came after the first"),
    (ignored_abort, "abort of a transaction", "what was written in it is there"),
    (ignored_conflict, "conflict of a transaction with a later write", "another write had changed"),
    (lost_commit, "commit of a transaction", "what was written in it is not there"),
    (ignored_write_concern, "write concern", "how many members have to confirm"),
]
ALSO_WRONG = [
    (dirty_read, "commit of a transaction", "others see what is written in it"),
    (ignored_expr, "pipeline update", "$expr with $$NOW matched"),
    (nameless_duplicate, "unique partial index", "does not name the index"),
    (no_index_at_all, "unique partial index", "partial indexes are not supported"),
    (textual_now, "pipeline update", "$$NOW"),
    (wrong_index_of_array, "pipeline update", "$indexOfArray returned 0 instead of 1"),
    (no_operation_time, "read concern majority with afterClusterTime", "has no operationTime"),
    (short_union, "$unionWith", "1 documents of 2"),
    (refused_snapshot, "snapshot read", "snapshot is not supported"),
    (unlabelled_conflict, "conflict of a transaction with a later write", "does not have the label"),
    (no_transactions, "abort of a transaction", "what was written in it is there"),
    (without_guarantees, "pipeline update", "has no opTime.t"),
]
CASES = [
    *(pytest.param(*each, id=each[0].__name__) for each in WRONG),
    *(pytest.param(*each, id=each[0].__name__, marks=pytest.mark.prove) for each in ALSO_WRONG),
]


@pytest.mark.parametrize(("behave", "test", "what"), CASES)
def test_a_server_that_only_resembles_mongodb_is_refused(mongo_set: MongoSet, behave: Behaviour, test: str, what: str) -> None:
    with pytest.raises(Unsupported) as refused:
        probe_lookalike(mongo_set, behave)
    message = str(refused.value)
    assert f"the server fails the test {test!r}" in message
    assert what in message
    assert "use a replica set of MongoDB 6.0 or later" in message
    left = mongo_set.members[0].command("listCollections", database="probed")["cursor"]["firstBatch"]
    assert [each["name"] for each in left] == []


def older(version: str) -> Behaviour:
    return lambda command, send: {"ok": 1.0, "version": version} if "buildInfo" in command else send(command)


def features(reply: Document) -> Behaviour:
    return lambda command, send: reply if "getParameter" in command else send(command)


def test_a_server_that_is_too_old_is_refused_with_its_version(mongo_set: MongoSet) -> None:
    with pytest.raises(Unsupported, match=r"MongoDB 5\.0\.14 is too old, 6\.0 or later is needed: upgrade the server"):
        probe_lookalike(mongo_set, older("5.0.14"))
    old = {"ok": 1.0, "featureCompatibilityVersion": {"version": "5.0"}}
    with pytest.raises(Unsupported, match=r"feature compatibility version 5\.0 is too old, .*setFeatureCompatibilityVersion"):
        probe_lookalike(mongo_set, features(old))


def test_a_user_who_may_not_read_the_feature_version_is_accepted(mongo_set: MongoSet) -> None:
    assert probe_lookalike(mongo_set, features(failed(13, "not authorized on admin"))) == []


STANDALONE = "this mongod is no replica set member: start it with --replSet rs0 and run rs.initiate() once; one member is enough"


def test_a_server_that_belongs_to_no_set_is_refused_with_the_way_to_make_it_one(mongo_set: MongoSet) -> None:
    def behave(command: Document, send: Send) -> Document:
        return without(send(command), "setName") if "hello" in command else send(command)

    with pytest.raises(Unsupported, match=re.escape(STANDALONE)):
        probe_lookalike(mongo_set, behave)


@pytest.mark.prove
def test_a_standalone_server_is_refused_also_if_the_url_names_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "GREETING_LIMIT", 0.3)
    with MongoServer() as server:
        for options in ("", "replicaSet=rs0"):
            with pytest.raises(Unsupported, match=re.escape(STANDALONE)):
                probe(f"mongodb://{server.address}/jobs?{options}")
        (finding,) = asyncio.run(check(f"mongodb://{server.address}/jobs?replicaSet=rs0"))
    assert (finding.level, finding.name) == ("error", "server")
    assert STANDALONE in finding.message


def test_a_server_that_knows_transactions_of_sets_only_is_refused_as_standalone(mongo_set: MongoSet) -> None:
    def behave(command: Document, send: Send) -> Document:
        refusal = failed(20, "Transaction numbers are only allowed on a replica set member or mongos")
        return refusal if "createIndexes" in command else send(command)

    with pytest.raises(Unsupported, match="one member is enough"):
        probe_lookalike(mongo_set, behave)


def test_a_wrong_name_of_the_set_is_named(mongo_set: MongoSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "GREETING_LIMIT", 0.3)
    member = mongo_set.members[0].address
    with pytest.raises(ConfigurationError, match="belongs to the set 'rs0', not to 'rs9': correct replicaSet in the URL"):
        probe(f"mongodb://{member}/jobs?replicaSet=rs9")


def test_a_secondary_that_is_named_alone_is_not_taken_for_a_set(mongo_set: MongoSet) -> None:
    def behave(command: Document, send: Send) -> Document:
        reply = send(command)
        return {**reply, "isWritablePrimary": False, "secondary": True} if "hello" in command else reply

    with pytest.raises(StoreUnavailable, match="leave directConnection out of the URL, and name all members"):
        probe_lookalike(mongo_set, behave)


def test_a_deposed_primary_does_not_refuse_itself(mongo_set: MongoSet) -> None:
    def behave(command: Document, send: Send) -> Document:
        refusal = {"index": 0, "code": 189, "errmsg": "stepped down"}
        return {**send(command), "n": 0, "writeErrors": [refusal]} if "update" in command else send(command)

    with pytest.raises(StoreUnavailable, match="stepped down"):
        probe_lookalike(mongo_set, behave)


@pytest.mark.parametrize(("code", "kind"), [(262, StoreUnavailable), (13, ConfigurationError)])
def test_a_failure_that_may_pass_or_is_the_users_does_not_refuse_the_server(
    mongo_set: MongoSet, code: int, kind: type[Exception]
) -> None:
    def behave(command: Document, send: Send) -> Document:
        return failed(code, "not now, or not you") if "createIndexes" in command else send(command)

    with pytest.raises(kind, match="not now, or not you"):
        probe_lookalike(mongo_set, behave)


def test_the_probe_of_a_server_that_does_not_answer_ends(mongo_set: MongoSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "LIMIT", 0.3)

    is_over = threading.Event()

    def behave(command: Document, send: Send) -> Document:
        if "createIndexes" in command:
            is_over.wait(STALL)
        return send(command)

    started = SystemClock().monotonic()
    with pytest.raises(StoreUnavailable):
        probe_lookalike(mongo_set, behave)
    is_over.set()
    assert SystemClock().monotonic() - started < STALL / 2


def test_the_server_is_probed_once_for_each_store_also_without_a_schema(mongo_set: MongoSet) -> None:
    with Lookalike(mongo_set.members[0], lambda command, send: send(command)) as lookalike:

        async def act() -> list[object]:
            stores = [
                MongoStore(lookalike.url("probed"), clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
                for _ in range(2)
            ]
            found = await asyncio.gather(*(each.counts() for each in stores * 10), return_exceptions=True)
            for each in stores:
                await each.close()
            return [type(each) for each in found]

        assert asyncio.run(act()) == [SchemaMissing] * 20
        assert len([each for each in lookalike.commands if ".probe." in str(each.get("createIndexes"))]) == 2


def test_a_store_on_a_refused_server_refuses_every_verb(mongo_set: MongoSet) -> None:
    with Lookalike(mongo_set.members[0], no_snapshot) as lookalike:

        async def act() -> list[str]:
            store = MongoStore(lookalike.url("refused"), clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
            refusals = list[str]()
            for verb in (store.migrate, store.counts, lambda: store.beat([bson.Binary(b"")])):
                with pytest.raises(Unsupported) as refused:
                    await verb()
                refusals.append(str(refused.value))
            (finding,) = [each for each in await store.check() if each.level == "error"]
            await store.close()
            return [*refusals, finding.message]

        messages = asyncio.run(act())
    assert len(messages) == 4
    assert all("fails the test 'snapshot read'" in each for each in messages)

"""What `holdfast check` finds about a MongoDB store, and that a schema that breaks while a store runs is noticed."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
from bson.timestamp import Timestamp
from pymongo import MongoClient

from holdfast._core.answers import Check
from holdfast._core.release import UPGRADE
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import ConfigurationError, SchemaMissing, SchemaTooNew, StoreRefused
from holdfast.stores.mongo import checks, schema
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers import MongoServer, MongoSet
from holdfast.testing.servers.process import free_port
from tests.e2e.waiting import STALL, until
from tests.servers.lookalike import Behaviour, Document, Lookalike, Send

DATABASE = f"checked_{os.getpid()}"
JOBS = "holdfast.jobs"


class At:
    """A migrated database on a set of one, a client of an operator, and a clock that tests move."""

    def __init__(self, servers: MongoSet, client: MongoClient[Document]) -> None:
        self.servers, self.client, self.clock = servers, client, FakeClock()

    @property
    def database(self) -> Any:
        """The database, as the operator sees it."""
        return self.client[DATABASE]

    @property
    def url(self) -> str:
        """The address of the database."""
        return f"mongodb://{self.servers.members[0].address}/{DATABASE}?replicaSet=rs0&serverMonitoringMode=poll"

    def run(self, story: Callable[[MongoStore], Awaitable[Any]], url: str | None = None) -> Any:
        """Run a story of a store."""

        async def act() -> Any:
            store = MongoStore(url or self.url, clock=self.clock, chance=SystemRandomness(), process=PROCESS)
            try:
                return await story(store)
            finally:
                await store.close()

        return asyncio.run(act())

    def check(self, behave: Behaviour | None = None) -> list[Check]:
        """Return the findings, without a probe; those of a server that behaves differently."""
        if behave is None:
            return cast(list[Check], self.run(self._check))
        with Lookalike(self.servers.members[0], behave) as lookalike:
            return cast(list[Check], self.run(self._check, lookalike.url(DATABASE)))

    async def _check(self, store: MongoStore) -> list[Check]:
        async def accepted() -> None: ...

        return await checks.check(store.database, store.names, accepted, SystemClock())


@pytest.fixture(scope="module")
def at(mongo_set: MongoSet) -> Iterator[At]:
    with MongoClient[Document](mongo_set.url) as client:
        at = At(mongo_set, client)
        at.run(lambda store: store.migrate())
        yield at
        client.drop_database(DATABASE)


@pytest.fixture
def harmed(at: At) -> Iterator[At]:
    """Return the database, and repair its schema afterwards if the test has not."""
    yield at
    if at.run(lambda store: schema.examine(store.database, store.names)) != schema.Examined(schema.VERSION, (), ()):
        at.client.drop_database(DATABASE)
        at.run(lambda store: store.migrate())


def only(found: list[Check], name: str, level: str | None = None) -> Check:
    """Return the single finding of that name."""
    (finding,) = [each for each in found if each.name == name and level in (None, each.level)]
    return finding


def changed(command: str, change: Callable[[Document], object], on: str | None = None) -> Behaviour:
    """Return a server that changes its reply to a command, perhaps only if it is on one database or collection."""

    def behave(asked: Document, send: Send) -> Document:
        reply = send(asked)
        if next(iter(asked)) == command and on in (None, asked[command], asked["$db"]) and reply["ok"]:
            change(reply)
        return reply

    return behave


def forbidding(*commands: str) -> Behaviour:
    """Return a server whose user may not send these commands to other databases than its own."""

    def behave(asked: Document, send: Send) -> Document:
        if next(iter(asked)) in commands and asked["$db"] != DATABASE:
            return {"ok": 0.0, "code": 13, "errmsg": f"not authorized on {asked['$db']}"}
        return send(asked)

    return behave


def test_a_healthy_set_of_one_has_two_warnings_and_no_error(at: At) -> None:
    found = at.run(lambda store: store.check())
    assert {(each.level, each.name) for each in found} == {
        ("warning", "members"),
        ("ok", "server"),  # by the clock of the test MongoDB 6.0 is still supported
        ("ok", "oplog"),
        ("ok", "schema"),
    }
    assert "its disk has the only copy of all jobs" in only(found, "members").message


def test_a_version_past_its_end_of_life_is_a_warning(at: At) -> None:
    version = changed("buildInfo", lambda reply: reply.update(version="6.0.27"))
    assert "support has ended on 2025-07-31" in only(at.check(version), "server", "warning").message
    later = changed("buildInfo", lambda reply: reply.update(version="12.0.1"))
    assert only(at.check(later), "server").level == "ok"


@pytest.mark.parametrize(
    ("data", "arbiters", "level", "what"),
    [
        (1, 0, "warning", "only copy"),
        (2, 0, "warning", "while one of those with data is down"),
        (2, 1, "warning", "2 members with data and 1 arbiters: while one"),
        (3, 2, "warning", "3 members with data and 2 arbiters: while one"),
        (3, 0, "ok", "3 members with data, of which 1 may be down"),
        (5, 0, "ok", "of which 2 may be down"),
    ],
)
def test_members_that_a_set_cannot_lose_are_a_warning(data: int, arbiters: int, level: str, what: str) -> None:
    hello = {"setName": "rs0", "hosts": ["a"] * data, "arbiters": ["b"] * arbiters}
    (found,) = checks._of_topology(hello)
    assert found.level == level
    assert what in found.message
    assert bool(found.remedy) is (level == "warning")


def test_clocks_of_members_that_differ_by_a_second_are_a_warning(at: At) -> None:
    def ahead(reply: Document) -> None:
        reply["localTime"] = reply["localTime"].fromtimestamp(reply["localTime"].timestamp() + 5)

    server = at.servers.members[0]
    with Lookalike(server, lambda asked, send: send(asked)) as one, Lookalike(server, changed("hello", ahead)) as other:
        found = at.check(changed("hello", lambda reply: reply.update(hosts=[one.address, other.address])))
        assert f"{other.address} is 5 s ahead of that of {one.address}" in only(found, "clock", "warning").message
        other.behave = one.behave
        found = at.check(changed("hello", lambda reply: reply.update(hosts=[one.address, other.address])))
        assert only(found, "clock").level == "ok"


def test_a_member_that_does_not_answer_is_a_warning(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.databases.mongo.member.LIMIT_MS", 200)
    gone = f"127.0.0.1:{free_port()}"
    hosts = [at.servers.members[0].address, gone]
    found = at.check(changed("hello", lambda reply: reply.update(hosts=hosts)))
    assert [gone in each.message for each in found if each.name == "members"] == [False, True]


def test_a_secondary_that_is_behind_is_a_warning(at: At) -> None:
    def late(reply: Document) -> None:
        (member,) = reply["members"]
        before = member["optimeDate"].fromtimestamp(member["optimeDate"].timestamp() - 90)
        reply["members"] = [
            member,
            {**member, "name": "late:1", "state": 2, "optimeDate": before},
            {"name": "down:1", "state": 8},
        ]

    assert only(at.check(changed("replSetGetStatus", late)), "replication").message == "late:1 is 90 s behind"


def test_an_oplog_that_is_full_and_short_is_a_warning(at: At) -> None:
    def full(asked: Document, send: Send) -> Document:
        reply = send(asked)
        if asked.get("collStats") == "oplog.rs":
            reply["size"] = reply["maxSize"]
        elif asked.get("find") == "oplog.rs":
            (entry,) = reply["cursor"]["firstBatch"]
            entry["ts"] = Timestamp(last[0].time - age, 1)
        elif "hello" in asked:
            last[0] = reply["lastWrite"]["opTime"]["ts"]
        return reply

    last, age = [Timestamp(0, 1)], 120
    finding = only(at.check(full), "oplog", "warning")
    assert "has the writes of the last 2 min only" in finding.message
    age = 7200
    assert "the last 2 h" in only(at.check(full), "oplog", "ok").message


def test_a_short_oplog_is_logged_when_a_worker_starts(at: At) -> None:
    def short(asked: Document, send: Send) -> Document:
        reply = send(asked)
        if asked.get("collStats") == "oplog.rs":
            reply["size"] = reply["maxSize"]
        return reply

    async def warned(store: MongoStore) -> tuple[str, ...]:
        await store.counts()
        return store.capabilities.warnings

    with Lookalike(at.servers.members[0], short) as lookalike:
        (warning,) = at.run(warned, lookalike.url(DATABASE))
    assert "min only: a member that is away for longer has to copy everything" in warning
    assert at.run(warned) == ()


def test_a_short_lifetime_of_transactions_is_a_warning(at: At) -> None:
    found = at.check(changed("getParameter", lambda reply: reply.update(transactionLifetimeLimitSeconds=20)))
    assert "ends transactions after 20 s" in only(found, "transactions").message


def test_a_transaction_that_is_open_for_long_is_a_warning(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = checks._OLDEST_TRANSACTION[1]["$match"]["transaction.timeOpenMicros"]
    monkeypatch.setitem(cast(dict[str, int], limit), "$gt", 1)
    with MongoClient[Document](at.servers.url, appname="shop") as client, client.start_session() as session:
        session.start_transaction()
        client[DATABASE]["things"].insert_one({}, session=session)
        finding = only(at.check(), "transactions", "warning")
        assert "a transaction of shop is open for 0 s" in finding.message
        at.client.admin.command(*_killing(session))
        assert not [each for each in at.check() if each.name == "transactions"]


def _killing(session: Any) -> tuple[str, list[Document]]:
    return "killSessions", [{"id": session.session_id["id"]}]


def test_what_a_user_may_not_ask_is_not_checked_and_no_error(at: At) -> None:
    found = at.check(forbidding("replSetGetStatus", "collStats", "getParameter", "aggregate"))
    skipped = [each for each in found if each.message.startswith("not checked")]
    assert [each.name for each in skipped] == ["features", "replication", "oplog", "transactions", "transactions"]
    assert all(each.level == "ok" and "clusterMonitor" in each.remedy for each in skipped)
    assert not [each for each in found if each.level == "error"]


def allowing(*actions: str, **resource: object) -> Behaviour:
    def change(reply: Document) -> None:
        privilege = {"resource": resource or {"db": DATABASE, "collection": ""}, "actions": list(actions)}
        reply["authInfo"] = {
            "authenticatedUsers": [{"user": "jobs", "db": "admin"}],
            "authenticatedUserPrivileges": [privilege, {"resource": {"cluster": True}, "actions": ["insert"]}],
        }

    return changed("connectionStatus", change)


def test_a_user_who_may_only_read_is_an_error_that_names_the_rights(at: At) -> None:
    (finding,) = at.check(allowing("find", "listCollections", "listIndexes"))
    assert (finding.level, finding.name) == ("error", "rights")
    assert "createCollection, createIndex, dropCollection, insert, remove, update" in finding.message
    assert only(at.check(allowing(*checks.NEEDED)), "rights").level == "ok"
    assert only(at.check(allowing(*checks.NEEDED, anyResource=True)), "rights").level == "ok"
    assert only(at.check(allowing(*checks.NEEDED, db="other", collection="")), "rights").level == "error"


@pytest.mark.prove
def test_a_user_with_rights_of_a_server_that_asks_for_them(tmp_path: Any) -> None:
    key = tmp_path / "key"
    key.write_text("c2VjcmV0c2VjcmV0")
    key.chmod(0o600)
    settings = {"security.keyFile": str(key), "security.authorization": "enabled"}
    with MongoServer(replica_set="rs0", settings=settings) as server:
        server.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": server.address}]})
        assert until(lambda: server.hello().get("isWritablePrimary"), within=STALL)
        server.command("createUser", "root", pwd="r", roles=["root"])
        with MongoClient[Document](f"mongodb://root:r@{server.address}/?replicaSet=rs0") as client:
            for user, role in (("reader", "read"), ("writer", "readWrite")):
                client["jobs"].command("createUser", user, pwd="p", roles=[{"role": role, "db": "jobs"}])

        def act(user: str, story: Callable[[MongoStore], Awaitable[Any]]) -> Any:
            async def run() -> Any:
                url = f"mongodb://{user}{server.address}/jobs?replicaSet=rs0"
                store = MongoStore(url, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
                try:
                    return await story(store)
                finally:
                    await store.close()

            return asyncio.run(run())

        finding = only(act("reader:p@", lambda store: store.check()), "rights")
        assert finding.level == "error"
        assert "'reader' lacks rights in the database 'jobs'" in finding.message
        for user in ("reader:p@", "", "writer:wrong@"):
            with pytest.raises(ConfigurationError):
                act(user, lambda store: store.migrate())
            assert any(each.level == "error" for each in act(user, lambda store: store.check()))
        assert act("writer:p@", lambda store: store.migrate()) == (0, schema.VERSION)
        found = act("writer:p@", lambda store: store.check())
        assert not [each for each in found if each.level == "error"]
        assert {each.name for each in found if each.message.startswith("not checked")} >= {"oplog", "replication"}
        assert act("writer:p@", lambda store: store.counts()) == {}


def router(sharded: bool) -> Behaviour:
    def behave(asked: Document, send: Send) -> Document:
        reply = send(asked)
        if "hello" in asked:
            reply["msg"] = "isdbgrid"
            del reply["setName"]
        if asked.get("collStats") == JOBS:
            reply["sharded"] = sharded
        return reply

    return behave


def test_a_sharded_cluster_is_a_warning_and_a_sharded_collection_an_error(at: At) -> None:
    assert only(at.check(router(sharded=False)), "sharding").level == "warning"
    assert only(at.check(router(sharded=True)), "sharding", "error").message.startswith(f"{JOBS} is sharded")


def test_a_missing_schema_and_a_newer_one_are_errors(harmed: At) -> None:
    harmed.database["holdfast.state"].update_one({"_id": "schema"}, {"$set": {"version": 99}})
    assert only(harmed.check(), "schema", "error").remedy == UPGRADE
    with pytest.raises(SchemaTooNew):
        harmed.run(lambda store: store.counts())
    harmed.client.drop_database(DATABASE)
    assert only(harmed.check(), "schema", "error").message == "there is none yet"
    with pytest.raises(SchemaMissing, match="has no schema: run `holdfast migrate"):
        harmed.run(lambda store: store.counts())


def hide(at: At) -> str:
    at.database.command("collMod", JOBS, index={"name": "waiting", "hidden": True})
    return f"{JOBS}.waiting is hidden"


def drop(at: At) -> str:
    at.database[JOBS].drop_index("lock")
    return f"{JOBS}.lock is missing"


def alter(at: At) -> str:
    at.database[JOBS].drop_index("alone")
    at.database[JOBS].create_index("alone", name="alone", unique=True)
    return f"{JOBS}.alone is not the one that this release makes"


def turn_keys(at: At) -> str:
    at.database[JOBS].drop_index("active")
    partial = {"active": {"$exists": True}}
    at.database[JOBS].create_index([("number", 1), ("active", 1)], name="active", partialFilterExpression=partial)
    return f"{JOBS}.active is not the one that this release makes"


def rename(at: At) -> str:
    at.database[JOBS].drop_index("call")
    at.database[JOBS].create_index("call", unique=True, partialFilterExpression={"call": {"$exists": True}})
    return f"{JOBS}.call is missing"


def drop_collection(at: At) -> str:
    at.database[JOBS].drop()
    return f"{JOBS} is missing"


def drop_plain_collection(at: At) -> str:
    at.database["holdfast.rates"].drop()
    return "holdfast.rates is missing"


def drop_settings(at: At) -> str:
    at.database["holdfast.state"].delete_one({"_id": "settings"})
    return "holdfast.state lacks the document 'settings'"


BREAKS = (hide, drop, drop_collection)
OTHER_BREAKS = (drop_settings, alter, turn_keys, rename, drop_plain_collection)


@pytest.mark.parametrize("harm", [*BREAKS, *(pytest.param(each, marks=pytest.mark.prove) for each in OTHER_BREAKS)])
def test_a_schema_that_breaks_while_a_store_runs_is_missing_within_a_minute_until_migrate(
    harmed: At, harm: Callable[[At], str]
) -> None:
    async def story(store: MongoStore) -> None:
        await store.counts()
        what = harm(harmed)
        assert [each.message for each in errors_in(await harmed._check(store))] == [what]
        harmed.clock.advance(60)
        for _ in range(2):
            with pytest.raises(SchemaMissing) as missing:
                await store.counts()
            assert f"{what}: run `holdfast migrate" in str(missing.value)
        other = MongoStore(harmed.url, clock=harmed.clock, chance=SystemRandomness(), process=PROCESS)
        assert await other.migrate() == (schema.VERSION, schema.VERSION)
        await other.close()
        assert await store.counts() == {}
        assert not errors_in(await harmed._check(store))

    harmed.run(story)


def errors_in(found: list[Check]) -> list[Check]:
    return [each for each in found if each.level == "error"]


def test_the_schema_is_read_again_after_a_minute_and_after_an_election(harmed: At) -> None:
    async def story(store: MongoStore) -> None:
        await store.counts()
        drop(harmed)
        harmed.clock.advance(59)
        assert await store.counts() == {}
        await store.beat([])
        store.database.term += 1
        await store.beat([])  # which needs no index, and must not wait
        with pytest.raises(SchemaMissing):
            await store.counts()
        await store.migrate()
        assert await store.counts() == {}

    harmed.run(story)


def test_the_first_term_that_a_reply_shows_is_not_that_of_an_election(harmed: At) -> None:
    async def story(store: MongoStore) -> None:
        store.readiness.accept()
        assert store.database.term == -1
        drop(harmed)
        store.database.term = 7
        assert await store.counts() == {}
        store.database.term = 8
        with pytest.raises(SchemaMissing):
            await store.counts()

    harmed.run(story)


def test_a_beat_without_a_schema_is_refused_each_time(harmed: At) -> None:
    async def story(store: MongoStore) -> None:
        harmed.client.drop_database(DATABASE)
        for _ in range(2):
            with pytest.raises(SchemaMissing):
                await store.beat([])

    harmed.run(story)


@pytest.mark.prove
def test_the_schema_is_read_again_after_a_real_election(harmed: At) -> None:
    async def story(store: MongoStore) -> None:
        await store.prune(1)
        term = store.database.term
        drop(harmed)
        harmed.servers.step_down()
        await store.database.greet()  # as the first write or judgement does
        assert store.database.term > term >= 0
        with pytest.raises(SchemaMissing):
            await store.counts()

    harmed.run(story)


def test_a_verb_that_finds_the_settings_gone_names_the_schema(harmed: At) -> None:
    async def story(store: MongoStore) -> None:
        await store.counts()
        harmed.database["holdfast.state"].drop()
        with pytest.raises(SchemaMissing, match=r"holdfast\.state lacks the document 'settings'"):
            await store.counts()
        await store.migrate()
        assert await store.counts() == {}

    harmed.run(story)


def test_an_index_of_others_that_deletes_documents_or_refuses_writes_is_an_error(harmed: At) -> None:
    harmed.database[JOBS].create_index("created_at", name="old", expireAfterSeconds=60)
    harmed.database[JOBS].create_index([("task", 1), ("queue", 1)], name="one", unique=True)
    harmed.database[JOBS].create_index("priority", name="harmless")
    found = errors_in(harmed.check())
    assert [each.message for each in found] == [
        f"{JOBS}.old deletes documents by itself",
        f"{JOBS}.one is unique, and refuses writes of Holdfast",
    ]
    assert harmed.run(lambda store: store.counts()) == {}
    for name in ("old", "one", "harmless"):
        harmed.database[JOBS].drop_index(name)


def test_a_collection_of_hints_that_is_not_capped_is_a_warning_with_the_command_that_repairs_it(at: At) -> None:
    assert not [each for each in at.check() if each.name == "hints"]
    at.database["holdfast.hints"].drop()
    at.database["holdfast.hints"].insert_one({})  # makes an ordinary collection
    found = only(at.check(), "hints", "warning")
    assert "holdfast.hints is not capped" in found.message
    at.database.command({"convertToCapped": "holdfast.hints", "size": 1048576})
    assert not [each for each in at.check() if each.name == "hints"]


def test_documents_that_prevent_a_unique_index_are_named_by_migrate(harmed: At) -> None:
    drop(harmed)
    harmed.database[JOBS].insert_many([{"_id": 1, "lock": "twice"}, {"_id": 2, "lock": "twice"}])
    with pytest.raises(StoreRefused, match=r'lock: "twice".*remove the field lock from all but one of these documents'):
        harmed.run(lambda store: store.migrate())
    harmed.database[JOBS].delete_many({})
    assert harmed.run(lambda store: store.migrate()) == (schema.VERSION, schema.VERSION)


@pytest.mark.prove
def test_migrations_at_once_do_not_disturb_each_other(harmed: At) -> None:
    harmed.client.drop_database(DATABASE)

    async def story(store: MongoStore) -> None:
        await asyncio.gather(*(schema.migrate(store.database, Names("holdfast")) for _ in range(3)))
        assert await store.counts() == {}

    harmed.run(story)

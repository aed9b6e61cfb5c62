"""What a check of a MongoDB store prints for mongosh can be pasted there by an administrator, and ends the trouble."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from bson.json_util import object_hook
from pymongo import MongoClient

from holdfast._core.answers import Check
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.errors import ConfigurationError, HoldfastError, SchemaTooNew, Unsupported
from holdfast.stores.mongo import checks
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.scene import PROCESS
from holdfast.testing.servers import MongoServer
from tests.e2e.waiting import STALL, until

Document = dict[str, Any]
JOBS = "holdfast.jobs"
_CALL = re.compile(r'db(?:\.getSiblingDB\("(\w+)"\))?\.(\w+)\((.*)\)$')
_ID, _BYTES, _NAME = re.compile(r"UUID\('([^']+)'\)"), re.compile(r"BinData\(0, '([^']+)'\)"), re.compile(r"(\w+): ")


class Guarded:
    """A set of one that asks for passwords, its administrator, and a user of the jobs whom the database admin knows."""

    def __init__(self, server: MongoServer, root: MongoClient[Document]) -> None:
        self.server, self.root = server, root

    def url(self, user: str = "jobs:p@", more: str = "&authSource=admin", database: str = "shop") -> str:
        return f"mongodb://{user}{self.server.address}/{database}?replicaSet=rs0{more}"

    def run(self, story: Callable[[MongoStore], Awaitable[Any]], url: str | None = None) -> Any:
        async def act() -> Any:
            store = MongoStore(url or self.url(), clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
            try:
                return await story(store)
            finally:
                await store.close()

        return asyncio.run(act())

    def finding(self, name: str, level: str) -> Check:
        """Return the single finding of that name, as an administrator of the server gets it."""
        (found,) = self.findings(name, level)
        return found

    def findings(self, name: str, level: str, user: str = "root:r@") -> list[Check]:
        found = cast(list[Check], self.run(lambda store: store.check(), self.url(user)))
        return [each for each in found if (each.name, each.level) == (name, level)]

    def paste(self, text: str) -> Document:
        """Run the one call at the end of a remedy as mongosh does; its ``db`` is a database that has nothing to do with the jobs."""
        found = _CALL.search(text)
        assert found is not None, text
        database, verb, inside = found.groups()
        quoted = _NAME.sub(
            r'"\1": ', _BYTES.sub(r'{"$binary": {"base64": "\1", "subType": "00"}}', _ID.sub(r'{"$uuid": "\1"}', inside))
        )
        (first, *rest) = json.loads(f"[{quoted}]", object_hook=object_hook)
        match verb:
            case "adminCommand" | "runCommand":
                assert not rest
                command = first
            case "grantRolesToUser":
                command = {verb: first, "roles": rest[0]}
            case _:
                raise AssertionError(f"mongosh knows no {verb}, or this test does not")
        return self.root["admin" if verb == "adminCommand" else database or "elsewhere"].command(command)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    key = cast(Path, tmp_path_factory.mktemp("mongo")) / "key"
    key.write_text("c2VjcmV0c2VjcmV0")
    key.chmod(0o600)
    settings = {"security.keyFile": str(key), "security.authorization": "enabled"}
    with MongoServer(replica_set="rs0", settings=settings) as server:
        server.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": server.address}]})
        assert until(lambda: server.hello().get("isWritablePrimary"), within=STALL)
        server.command("createUser", "root", pwd="r", roles=["root"])
        with MongoClient[Document](f"mongodb://root:r@{server.address}/?replicaSet=rs0") as root:
            root.admin.command("createUser", "jobs", pwd="p", roles=[{"role": "readWrite", "db": "shop"}])
            guarded = Guarded(server, root)
            guarded.run(lambda store: store.migrate())
            yield guarded


def test_a_user_who_may_only_read_may_work_after_the_grant(guarded: Guarded) -> None:
    guarded.root.admin.command("createUser", "reader", pwd="p", roles=[{"role": "read", "db": "shop"}])
    (found,) = guarded.findings("rights", "error", user="reader:p@")
    guarded.paste(found.remedy)
    assert not guarded.findings("rights", "error", user="reader:p@")


def test_an_index_of_others_is_gone_after_its_remedy(guarded: Guarded) -> None:
    guarded.root["shop"][JOBS].create_index("created_at", name="old", expireAfterSeconds=60)
    guarded.paste(guarded.finding("indexes", "error").remedy)
    assert not guarded.findings("indexes", "error")


def test_hints_are_capped_after_their_remedy(guarded: Guarded) -> None:
    guarded.root["shop"]["holdfast.hints"].drop()
    guarded.root["shop"]["holdfast.hints"].insert_one({})  # makes an ordinary collection
    guarded.paste(guarded.finding("hints", "warning").remedy)
    assert not guarded.findings("hints", "warning")


def test_a_short_lifetime_of_transactions_is_over_after_its_remedy(guarded: Guarded) -> None:
    guarded.root.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=20)
    guarded.paste(guarded.finding("transactions", "warning").remedy)
    assert not guarded.findings("transactions", "warning")


def test_a_transaction_of_another_user_ends_by_its_remedy(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks._OLDEST_TRANSACTION[1]["$match"]["transaction.timeOpenMicros"], "$gt", 1)
    with MongoClient[Document](guarded.url(), appname="shop") as client, client.start_session() as session:
        session.start_transaction()
        client["shop"]["things"].insert_one({}, session=session)
        guarded.paste(guarded.finding("transactions", "warning").remedy)
        assert not guarded.findings("transactions", "warning")


def test_a_short_oplog_is_large_enough_after_its_remedy(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "FULL", 0.0)
    guarded.paste(guarded.finding("oplog", "warning").remedy)
    (stats,) = guarded.root["local"]["oplog.rs"].aggregate([{"$collStats": {"storageStats": {}}}])
    assert (
        stats["storageStats"]["maxSize"] == 990 * checks.MEGABYTE
    )  # twice the 256 MB of the test's server are fewer than it takes


def test_old_features_are_switched_on_by_the_remedy(guarded: Guarded) -> None:
    guarded.root.admin.command("setFeatureCompatibilityVersion", "5.0")
    url = guarded.url("root:r@")
    with pytest.raises(Unsupported, match="feature compatibility version") as error:
        guarded.run(lambda store: store.counts(), url)
    guarded.paste(str(error.value))
    assert guarded.run(lambda store: store.counts(), url) == {}


@pytest.mark.parametrize(
    ("user", "more", "problem"),
    [
        ("jobs:p@", "", "add authSource=admin to the URL"),
        ("", "", "name a user and a password in the URL: mongodb://user:password@"),
    ],
)
def test_what_the_message_adds_to_the_url_lets_the_user_in(guarded: Guarded, user: str, more: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        guarded.run(lambda store: store.counts(), guarded.url(user, more))
    assert problem in str(error.value)
    assert "lsid" not in str(error.value)
    (added,) = set(re.findall(r"authSource=\w+", str(error.value)))
    assert guarded.run(lambda store: store.counts(), guarded.url("jobs:p@", f"&{added}")) == {}


def test_a_newer_schema_names_the_remedy_and_no_other(guarded: Guarded) -> None:
    versions = guarded.root["shop"]["holdfast.state"]
    versions.update_one({"_id": "schema"}, {"$inc": {"version": 1}})
    try:
        with pytest.raises(SchemaTooNew, match=r"upgrade holdfast to the release that migrated the store$"):
            guarded.run(lambda store: store.counts())
    finally:
        versions.update_one({"_id": "schema"}, {"$inc": {"version": -1}})


def test_a_server_outside_of_a_set_keeps_jobs_after_its_remedy() -> None:
    """The options of the message are those that ``MongoServer`` gives the restarted process."""
    with MongoServer() as server:
        url = f"mongodb://{server.address}/shop"
        with pytest.raises(HoldfastError, match="no replica set member") as error:
            asyncio.run(_counts(url))
    name = re.search(r"--replSet (\w+)", str(error.value))
    assert name is not None
    with MongoServer(replica_set=name[1]) as server:
        server.command("replSetInitiate", {})  # rs.initiate() sends this
        assert until(lambda: server.hello().get("isWritablePrimary"), within=STALL)
        assert asyncio.run(_counts(f"mongodb://{server.address}/shop", migrate=True)) == {}


async def _counts(url: str, *, migrate: bool = False) -> Any:
    store = MongoStore(url, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)
    try:
        if migrate:
            await store.migrate()
        return await store.counts()
    finally:
        await store.close()

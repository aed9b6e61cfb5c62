"""Hints through MongoDB: the collection and its cursor, the change stream, and servers that are lost or refuse."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from pymongo import MongoClient

from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._ports.transport import Hint, Transport
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.opening import open_store, open_transport
from holdfast.settings import Settings
from holdfast.testing.servers import MongoServer, MongoSet
from holdfast.testing.servers.process import free_port
from holdfast.transports import _upkeep, mongo
from holdfast.transports._outbox import INTERVAL
from tests.servers.proxy import TcpProxy
from tests.transports.contract import TransportContract

TIMEOUT, AT_ONCE = 60.0, 5.0
ELECTION = 30.0
"""Seconds for an election and all that follows: about 3 if the primary is killed, and up to 16 more if it is paused."""
CHANGES = "mongodb+changes"
LINE = "-send\0" + "8" * 16 + "\0{}\0"
IDS = tuple(UUID(int=number) for number in range(1, 41))
CAPPED = {"capped": True, "size": 2**20}
NUMBERS, CHANCE = count(), SystemRandomness()


class Home:
    """A schema, and what others do with its collections."""

    def __init__(self, url: str, schema: str = "holdfast") -> None:
        self.url, self.schema = url, schema
        self._client: MongoClient[dict[str, Any]] = MongoClient(url, uuidRepresentation="standard")
        self._database = self._client.get_default_database()
        self.hints, self.jobs = self._database[f"{schema}.hints"], self._database[f"{schema}.jobs"]

    def end(self, transport: str | None = None, more: str = "") -> Transport:
        """Make an end of a transport. ``more``: options of the URL."""
        return open_transport(self.settings(transport, more))

    def settings(self, transport: str | None = None, more: str = "") -> Settings:
        return Settings.of(f"{self.url}{more}", schema=self.schema, transport=transport)

    def is_waiting(self, queue: str) -> None:
        """Write a job as a program in another language does."""
        self.jobs.insert_one({"line": LINE.format(queue)})

    @property
    def options(self) -> dict[str, Any]:
        """The options of the collection of hints."""
        found = [*self._database.list_collections(filter={"name": self.hints.name})]
        return dict(found[0]["options"]) if found else {}

    @property
    def cursors(self) -> list[dict[str, Any]]:
        """The commands by which the open cursors on these collections were opened."""
        return [each["cursor"]["originatingCommand"] for each in self._cursors()]

    @property
    def are_asked(self) -> bool:
        """Whether a request for the next batch of one of these cursors is at the server."""
        return any(each["type"] != "idleCursor" for each in self._cursors())

    def _cursors(self) -> list[dict[str, Any]]:
        found = self._client.admin.aggregate([{"$currentOp": {"allUsers": True, "idleCursors": True}}])
        ours = (self.hints.full_name, self.jobs.full_name)
        return [each for each in found if "cursor" in each and each["ns"] in ours]

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def database_url(mongo_set: MongoSet) -> Iterator[str]:
    """Make a database for all tests of this module: to drop one takes longer than most of them."""
    url = mongo_set.create_database()
    yield url
    mongo_set.drop_database(url)
    gc.collect()  # not in a later test, for which such a socket is an error


@pytest.fixture
def home(database_url: str) -> Iterator[Home]:
    """Make a fresh schema."""
    found = Home(database_url, f"hints_{next(NUMBERS)}")
    yield found
    found.close()


class TestHints(TransportContract):
    transport: str | None = None

    @pytest.fixture(autouse=True)
    def in_database(self, home: Home) -> None:
        self.home = home

    def make_transport(self) -> Transport:
        return self.home.end(self.transport)


class TestChanges(TestHints):
    transport = CHANGES


def run(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT):
            await act()

    asyncio.run(main())


@asynccontextmanager
async def listening(home: Home, transport: str | None = None, more: str = "") -> "AsyncIterator[asyncio.Queue[Hint]]":
    open_, received = home.end(transport, more), asyncio.Queue[Hint]()
    await open_.subscribe(received.put_nowait)
    await until_received(received, Hint(), cursors_of(transport))  # the first hint of each cursor comes when it is open
    try:
        yield received
    finally:
        await open_.close()


@asynccontextmanager
async def publishing(home: Home, more: str = "") -> AsyncIterator[Transport]:
    publisher = home.end(more=more)
    try:
        yield publisher
    finally:
        await publisher.close()


def cursors_of(transport: str | None) -> int:
    return 1 if transport is None else 2


async def until_received(received: "asyncio.Queue[Hint]", hint: Hint, times: int = 1) -> None:
    for _ in range(times):
        while await received.get() != hint:
            pass


async def until_it_arrives(received: "asyncio.Queue[Hint]", publisher: Transport, queue: str) -> None:
    """Publish a hint until it is received: any may be lost while a connection is."""
    while True:
        await publisher.publish([Hint(queue)])
        try:
            async with asyncio.timeout(0.2):
                return await until_received(received, Hint(queue))
        except TimeoutError:
            continue


def drain(received: "asyncio.Queue[Hint]") -> set[Hint]:
    return {received.get_nowait() for _ in range(received.qsize())}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING and record.name == "holdfast"]


def test_many_hints_are_few_inserts_and_none_is_missing(home: Home) -> None:
    async def act() -> None:
        async with listening(home) as received, publishing(home) as publisher:
            loop = asyncio.get_running_loop()
            started = loop.time()
            for number in range(3000):
                await publisher.publish([Hint(f"queue-{number % 30}"), Hint(ids=(IDS[number % 40],))])
            took = loop.time() - started
            await publisher.publish([Hint("the last")])
            await until_received(received, Hint("the last"))
        found = [*home.hints.find()]
        assert len(found) <= took / INTERVAL + 4
        assert {queue for each in found for queue in each.get("queues", ())} >= {f"queue-{number}" for number in range(30)}
        assert {job for each in found for job in each.get("ids", ())} == set(IDS)

    run(act)


def test_the_hints_of_a_program_that_enqueues_and_ends_are_received(home: Home) -> None:
    async def program(number: int) -> None:
        transport = home.end()
        await transport.publish([Hint(f"first-{number}")])
        await SystemClock().sleep(4 * INTERVAL)
        await transport.publish([Hint(f"last-{number}")])

    async def act() -> None:
        async with listening(home) as received:
            for number in range(3):
                await asyncio.to_thread(asyncio.run, program(number))  # the event loop ends with the last call
                await until_received(received, Hint(f"first-{number}"))
                await until_received(received, Hint(f"last-{number}"))

    run(act)


def test_a_process_has_one_cursor_without_a_filter_and_receives_no_old_hints(home: Home) -> None:
    async def act() -> None:
        async with publishing(home) as publisher:
            for number in range(5):
                await publisher.publish([Hint(f"old-{number}")])
                await SystemClock().sleep(2 * INTERVAL)
            transport, received = home.end(), asyncio.Queue[Hint]()
            await transport.subscribe(received.put_nowait)
            await transport.subscribe(lambda hint: None)
            assert await received.get() == Hint()
            await publisher.publish([Hint("new")])
            assert await received.get() == Hint("new")
            (opened,) = home.cursors
            assert (opened["find"], opened["filter"], opened["tailable"]) == (home.hints.name, {}, True)
            await transport.close()

    run(act)


def test_a_process_that_publishes_first_and_listens_later_receives_hints(home: Home) -> None:
    async def act() -> None:
        async with publishing(home) as publisher:
            await publisher.publish([Hint("old")])
            received = asyncio.Queue[Hint]()
            await publisher.subscribe(received.put_nowait)
            await until_received(received, Hint())
            await publisher.publish([Hint("new")])
            await until_received(received, Hint("new"))

    run(act)


def test_migration_makes_a_capped_collection_that_is_not_empty(home: Home) -> None:
    async def act() -> None:
        store = open_store(home.settings())
        for _ in range(2):
            await store.migrate()
            assert home.options == CAPPED
            assert home.hints.count_documents({}) == 1
        await store.close()

    run(act)


@pytest.mark.parametrize("is_listening", [False, True])
@pytest.mark.parametrize("what", ["missing", "empty", "uncapped"])
def test_a_damaged_collection_is_made_again(what: str, is_listening: bool, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongo, "AWAIT", 0.1)

    def damage() -> None:
        if what == "empty":
            home.hints.delete_many({})
            return
        home.hints.drop()
        if what == "uncapped":
            home.hints.insert_one({"queues": ["old"]})

    async def act() -> None:
        async with publishing(home) as publisher:
            await publisher.publish([Hint("mail")])
            if not is_listening:
                damage()
            async with listening(home) as received:
                if is_listening:
                    damage()
                    await until_received(received, Hint())
                await until_it_arrives(received, publisher, "again")
                assert home.options == CAPPED
                assert len(home.cursors) == 1

    run(act)


def test_a_process_that_only_publishes_notices_a_damaged_collection_too(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongo, "LOOK", 0.0)

    async def act() -> None:
        async with publishing(home) as publisher:
            await publisher.publish([Hint("mail")])
            home.hints.drop()
            home.hints.insert_one({})
            while home.options != CAPPED:
                await publisher.publish([Hint("mail")])
                await SystemClock().sleep(INTERVAL)

    run(act)


def test_several_processes_that_find_no_collection_make_one_in_silence(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        ends, received = [home.end() for _ in range(6)], asyncio.Queue[Hint]()
        await asyncio.gather(*(each.subscribe(received.put_nowait) for each in ends))
        await until_received(received, Hint(), len(ends))
        await asyncio.gather(*(each.close() for each in ends))

    run(act)
    assert warnings(caplog) == []


@pytest.mark.parametrize("transport", [None, CHANGES])
def test_without_capped_collections_workers_poll_and_that_is_reported_once(
    transport: str | None, mongo_set: MongoSet, home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_upkeep, "LONGEST_PAUSE", 0.05)
    point = {"failCommands": ["create"], "errorCode": 115, "namespace": home.hints.full_name}

    async def act() -> None:
        store, open_, received = open_store(home.settings()), home.end(transport), asyncio.Queue[Hint]()
        server = mongo_set.primary()
        server.set_fail_point("failCommand", data=point)
        try:
            await open_.subscribe(received.put_nowait)
            for _ in range(3):
                await open_.publish([Hint("mail")])
                await SystemClock().sleep(0.1)
            if transport is None:
                assert received.empty()
            else:
                await store.migrate()
                await until_received(received, Hint())
                job = NewJob(id=CHANCE.uuid7(), task="send", payload=b"{}", policy=Policy(), queue="mail")
                await store.enqueue(CHANCE.uuid4(), [job])
                await until_received(received, Hint("mail"))
            assert home.options == {}
        finally:
            server.set_fail_point("failCommand", "off")
        (warning,) = warnings(caplog)
        assert "workers poll instead" in warning
        assert f"{home.hints.name} must be a capped collection" in warning
        await until_it_arrives(received, open_, "at last")
        await open_.close()
        await store.close()

    run(act)


def test_rubbish_is_ignored(home: Home) -> None:
    async def act() -> None:
        async with listening(home) as received:
            for rubbish in ({}, {"queues": 7}, {"ids": ["x"]}, {"queues": [None]}, {"is_for_all": "yes"}):
                home.hints.insert_one(rubbish)
            home.hints.insert_one({"queues": ["mail"], "later": 1})
            assert await received.get() == Hint("mail")

    run(act)


def test_the_url_decides_no_limits_and_no_concerns(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mongo, "AWAIT", 0.2)
    more = "&socketTimeoutMS=50&timeoutMS=50&readPreference=secondary&readConcernLevel=linearizable&w=0&journal=false"

    async def act() -> None:
        async with listening(home, CHANGES, more) as received, publishing(home, more) as publisher:
            await SystemClock().sleep(0.3)
            await publisher.publish([Hint("mail")])
            await until_received(received, Hint("mail"))

    run(act)
    assert warnings(caplog) == []


@pytest.mark.parametrize("transport", [None, CHANGES])
def test_a_server_that_is_down_delays_nothing_and_is_reported_once(
    transport: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_upkeep, "LONGEST_PAUSE", 0.05)
    home = Home(f"mongodb://127.0.0.1:{free_port()}/holdfast?directConnection=true")

    async def act() -> None:
        received, open_ = asyncio.Queue[Hint](), home.end(transport)
        async with asyncio.timeout(AT_ONCE):
            await open_.subscribe(received.put_nowait)
            for job in IDS:
                await open_.publish([Hint("mail", (job,))])
            await open_.close()
        assert received.empty()

    run(act)
    home.close()
    assert len(warnings(caplog)) <= cursors_of(transport)


@pytest.mark.prove
@pytest.mark.parametrize("way", ["both", "down"])
def test_a_half_open_connection_is_noticed(
    way: Any, mongo_set: MongoSet, home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mongo, "AWAIT", 0.1)
    monkeypatch.setattr(mongo, "ANSWER", 0.2)

    async def act() -> None:
        with TcpProxy(mongo_set.primary().port) as proxy:
            through = Home(f"mongodb://127.0.0.1:{proxy.port}{urlsplit(home.url).path}?directConnection=true", home.schema)
            async with listening(through) as received, publishing(home) as publisher:
                proxy.blackhole(way)
                while not any("no answer within 0.3 s" in text for text in warnings(caplog)):
                    await SystemClock().sleep(0.01)
                proxy.restore()
                await until_received(received, Hint())
                await until_it_arrives(received, publisher, "received")
            through.close()

    run(act)


def test_jobs_that_others_wrote_are_noticed_and_nothing_else(home: Home) -> None:
    jobs = home.jobs

    async def act() -> None:
        async with listening(home, CHANGES) as received:
            home.is_waiting("mail")
            assert await received.get() == Hint("mail")
            jobs.insert_one({"_id": 1})  # a receipt
            jobs.insert_one({"_id": 2, "active": 1})
            jobs.update_one({"_id": 2}, {"$set": {"stage": "half"}})
            jobs.update_one({"_id": 2}, {"$set": {"line": LINE.format("again")}, "$unset": {"active": ""}})
            assert await received.get() == Hint("again")
            jobs.update_one({"_id": 2}, [{"$set": {"active": 1}}, {"$unset": "line"}])
            jobs.update_one({"_id": 2}, [{"$set": {"line": LINE.format("by a pipeline")}}])
            assert await received.get() == Hint("by a pipeline")
            jobs.replace_one({"_id": 2}, {"line": LINE.format("replaced")})
            assert await received.get() == Hint("replaced")
            jobs.delete_one({"_id": 2})
            for rubbish in ("rubbish", 7, "a\0b"):
                jobs.insert_one({"line": rubbish})
                assert await received.get() == Hint()
            with jobs.database.client.start_session() as session:
                for queue in ("aborted", "committed"):
                    session.start_transaction()
                    jobs.insert_one({"line": LINE.format(queue)}, session=session)
                    if queue == "committed":
                        session.commit_transaction()
                    else:
                        session.abort_transaction()
            assert await received.get() == Hint("committed")
            home.is_waiting("the last")
            assert await received.get() == Hint("the last")

    run(act)


def test_many_changes_are_few_hints(home: Home) -> None:
    async def act() -> None:
        async with listening(home, CHANGES) as received:
            loop = asyncio.get_running_loop()
            started = loop.time()
            with ThreadPoolExecutor(8) as threads:
                await asyncio.gather(*(loop.run_in_executor(threads, home.is_waiting, "mail") for _ in range(800)))
            home.is_waiting("the last")
            hints = 1
            while await received.get() != Hint("the last"):
                hints += 1
            assert hints <= (loop.time() - started) / INTERVAL + 3

    run(act)


def test_a_change_stream_whose_place_is_no_longer_in_the_log_is_opened_again(
    mongo_set: MongoSet, home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mongo, "AWAIT", 0.1)
    point = {"failCommands": ["getMore"], "errorCode": 286, "namespace": home.jobs.full_name}

    async def act() -> None:
        async with listening(home, CHANGES) as received:
            home.is_waiting("mail")
            await until_received(received, Hint("mail"))
            mongo_set.primary().set_fail_point("failCommand", {"times": 1}, point)
            await until_received(received, Hint())
            home.is_waiting("again")
            await until_received(received, Hint("again"))
            (pipeline,) = (each["pipeline"] for each in home.cursors if "pipeline" in each)
            assert pipeline[0] == {"$changeStream": {}}

    run(act)
    (warning,) = warnings(caplog)
    assert "no hints by the change stream" in warning


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_a_change_stream_that_slept_while_the_log_rolled_over_is_opened_again() -> None:
    async def act(servers: MongoSet) -> None:
        home = Home(servers.create_database())
        async with listening(home, CHANGES) as received:
            with MongoClient[dict[str, Any]](home.url) as client:
                while home.are_asked:  # nothing of this event loop runs before the next `await`
                    continue
                first = {"sort": [("$natural", 1)]}
                while "text" not in (client.local["oplog.rs"].find_one(**first) or {}).get("o", ()):
                    home.jobs.insert_many([{"text": "x" * 2**20} for _ in range(15)])
            await until_received(received, Hint())
            home.is_waiting("again")
            await until_received(received, Hint("again"))
        home.close()

    # The log is cut off after a checkpoint, at most once in these seconds.
    with MongoSet(settings={"replication.oplogSizeMB": 10, "storage.syncPeriodSecs": 1}) as servers:
        run(lambda: act(servers))


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_a_server_that_starts_later_and_one_that_was_lost_are_found(caplog: pytest.LogCaptureFixture) -> None:
    async def act(servers: MongoSet) -> None:
        home = Home(servers.create_database())
        await asyncio.to_thread(servers.kill)
        received, open_ = asyncio.Queue[Hint](), home.end(CHANGES)
        await open_.subscribe(received.put_nowait)
        await open_.publish([Hint("mail")])
        for _ in range(2):
            await SystemClock().sleep(6.0)  # longer than a client waits for a server
            assert received.empty()
            await asyncio.to_thread(servers.start)
            await until_received(received, Hint(), 2)
            await until_it_arrives(received, open_, "mail")
            await asyncio.to_thread(servers.kill)
            drain(received)
        await open_.close()
        home.close()

    with MongoSet() as servers:
        run(lambda: act(servers))
    assert sum("no hints by MongoDB at" in text for text in warnings(caplog)) <= 3
    assert sum("no hints by the change stream of MongoDB at" in text for text in warnings(caplog)) <= 3


@pytest.mark.prove
@pytest.mark.timeout(120)
@pytest.mark.parametrize("transport", [None, CHANGES])
@pytest.mark.parametrize("how", ["killed", "paused", "stepped down"])
def test_hints_go_on_by_themselves_after_an_election(how: str, transport: str | None, mongo_trio: MongoSet) -> None:
    home = Home(mongo_trio.create_database())

    def lose(server: MongoServer) -> None:
        match how:
            case "killed":
                server.kill()
            case "paused":
                server.pause()
            case _:
                mongo_trio.step_down()

    async def act() -> None:
        async with listening(home, transport) as received, publishing(home) as publisher:
            await until_it_arrives(received, publisher, "before")
            old = await asyncio.to_thread(mongo_trio.primary)
            started = SystemClock().monotonic()
            await asyncio.to_thread(lose, old)
            await until_received(received, Hint(), cursors_of(transport))
            await until_it_arrives(received, publisher, "after")
            if transport is not None:
                await asyncio.to_thread(home.is_waiting, "changed")
                await until_received(received, Hint("changed"))
            assert SystemClock().monotonic() - started < ELECTION
            new = await asyncio.to_thread(mongo_trio.primary)
            assert new is not old
            there = Home(f"mongodb://{new.address}{urlsplit(home.url).path}?directConnection=true")
            assert len(there.cursors) == cursors_of(transport), "the cursors are not those of the new primary"
            there.close()

    try:
        run(act)
    finally:
        for member in mongo_trio.members:
            if member.is_paused:
                member.resume()
        mongo_trio.start()
        mongo_trio.drop_database(home.url)
        home.close()

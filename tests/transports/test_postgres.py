"""LISTEN and NOTIFY: few notifications for many hints, and a connection that is lost, half-open, or not needed."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import UUID

import asyncpg
import msgspec
import pytest

from holdfast._ports.transport import MOST_DUE, Hint
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.testing.servers import PostgresServer
from holdfast.transports import postgres
from holdfast.transports._outbox import INTERVAL, LONGEST, Notification, Outbox
from holdfast.transports.postgres import PostgresTransport
from tests.servers.proxy import TcpProxy

TIMEOUT = 40.0
AT_ONCE = 5.0
IDS = tuple(UUID(int=number) for number in range(1, 2000))


def run(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT):
            await act()

    asyncio.run(main())


def end(dsn: str, opened: "list[asyncpg.Connection] | None" = None) -> PostgresTransport:
    async def connect() -> Any:
        connection = await asyncpg.connect(dsn, timeout=5.0)
        if opened is not None:
            opened.append(connection)
        return connection

    return PostgresTransport(connect, "holdfast", name="a database", clock=SystemClock(), chance=SystemRandomness())


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """Start a server that tests may restart: others of this process keep connections to theirs."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def own_database(own_server: PostgresServer) -> Iterator[str]:
    """Make a database on the server that this test may restart."""
    dsn = own_server.create_database()
    yield dsn
    own_server.drop_database(dsn)


@asynccontextmanager
async def listening(dsn: str, opened: "list[asyncpg.Connection] | None" = None) -> "AsyncIterator[asyncio.Queue[Hint]]":
    transport, received = end(dsn, opened), asyncio.Queue[Hint]()
    await transport.subscribe(received.put_nowait)
    await until_received(received, Hint())  # the first hint comes when it listens
    try:
        yield received
    finally:
        await transport.close()


async def until_received(received: "asyncio.Queue[Hint]", hint: Hint) -> None:
    while await received.get() != hint:
        pass


def test_many_hints_are_few_notifications_and_none_is_missing(postgres_dsn: str) -> None:
    async def act() -> None:
        output: asyncio.Queue[str] = asyncio.Queue()
        listener = await asyncpg.connect(postgres_dsn)
        await listener.add_listener("holdfast", lambda *words: output.put_nowait(str(words[3])))
        speaker = end(postgres_dsn)
        async with listening(postgres_dsn) as received:
            loop = asyncio.get_running_loop()
            started = loop.time()
            for number in range(3000):
                await speaker.publish([Hint(f"queue-{number % 30}"), Hint(ids=(IDS[number % 40],))])
            took = loop.time() - started
            await speaker.publish([Hint("the last")])
            await until_received(received, Hint("the last"))
        payloads = [await output.get()]
        while "the last" not in payloads[-1]:
            payloads.append(await output.get())
        assert len(payloads) <= took / INTERVAL + 3
        news = [msgspec.json.decode(payload, type=Notification) for payload in payloads]
        assert {queue for each in news for queue in each.queues} >= {f"queue-{number}" for number in range(30)}
        assert {job for each in news for job in each.ids} == set(IDS[:40])
        await speaker.close()
        await listener.close()

    run(act)


def test_the_hint_of_a_program_that_enqueues_and_ends_is_received(postgres_dsn: str) -> None:
    async def act() -> None:
        async with listening(postgres_dsn) as received:
            for number in range(3):
                # Its event loop ends with the call.
                await asyncio.to_thread(asyncio.run, end(postgres_dsn).publish([Hint(f"queue-{number}")]))
                await until_received(received, Hint(f"queue-{number}"))
            assert received.empty()

    run(act)


def test_telling_does_not_wait_for_a_database_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        async def connect() -> Any:
            raise ConnectionRefusedError("no server there")

        transport = PostgresTransport(connect, "holdfast", name="a database", clock=SystemClock(), chance=SystemRandomness())
        async with asyncio.timeout(AT_ONCE):
            await transport.subscribe(lambda hint: None)
            for job in IDS:
                await transport.publish([Hint("mail", (job,))])
            await transport.close()

    with caplog.at_level(logging.INFO, "holdfast"):
        run(act)
    assert sum("no hints by LISTEN at a database" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("how", ["fast", "immediate", "terminated"])
def test_a_lost_connection_is_opened_again_and_missed_hints_wake_all_listeners(
    how: str, own_server: PostgresServer, own_database: str
) -> None:
    async def act() -> None:
        speaker = end(own_database)
        async with listening(own_database) as received:
            await speaker.publish([Hint("mail")])
            await until_received(received, Hint("mail"))
            if how == "terminated":
                theirs = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
                await asyncio.to_thread(own_server.sql, f"SELECT pg_terminate_backend(pid) {theirs}", dsn=own_database)
            else:
                await asyncio.to_thread(own_server.restart, how)
            await until_received(received, Hint())
            await speaker.publish([Hint("again")])
            await until_received(received, Hint("again"))
            assert received.empty()
        await speaker.close()

    run(act)


@pytest.mark.parametrize("way", ["up", "down", "both"])
def test_a_half_open_connection_is_noticed(
    way: Literal["up", "down", "both"], own_server: PostgresServer, own_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "PROBE", 0.2)
    monkeypatch.setattr(postgres, "ANSWER", 0.3)

    async def act() -> None:
        speaker, opened = end(own_database), list[asyncpg.Connection]()
        with TcpProxy(own_server.port) as proxy:
            async with listening(proxy.through(own_database), opened) as received:
                proxy.blackhole(way)
                await speaker.publish([Hint("unheard")])
                while not opened[0].is_closed():
                    await SystemClock().sleep(0.01)
                proxy.restore()
                await until_received(received, Hint())
                await speaker.publish([Hint("heard")])
                await until_received(received, Hint("heard"))
                assert len(opened) == 2, "the listener has not connected again"
        await speaker.close()

    run(act)


def test_a_publisher_closes_its_idle_connection_and_opens_another(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PROBE", 0.05)
    monkeypatch.setattr(postgres, "IDLE", 0.1)

    async def act() -> None:
        opened: list[asyncpg.Connection] = []
        speaker = end(postgres_dsn, opened)
        async with listening(postgres_dsn) as received:
            for number in range(3):
                await speaker.publish([Hint(f"queue-{number}")])
                await until_received(received, Hint(f"queue-{number}"))
                while not opened[-1].is_closed():
                    await SystemClock().sleep(0.01)
                await SystemClock().sleep(0.1)
                assert len(opened) == number + 1
            # A connection that begins to listen is kept.
            ours: asyncio.Queue[Hint] = asyncio.Queue()
            await speaker.subscribe(ours.put_nowait)
            await until_received(ours, Hint())
            for _ in range(5):
                await SystemClock().sleep(0.1)
                assert not opened[-1].is_closed()
        await speaker.close()
        assert all(connection.is_closed() for connection in opened)

    run(act)


def test_closing_it_in_one_event_loop_soon_closes_what_others_have(postgres_dsn: str) -> None:
    opened: list[asyncpg.Connection] = []
    transport, other = end(postgres_dsn, opened), asyncio.new_event_loop()

    def serve() -> None:
        with asyncio.Runner(loop_factory=lambda: other) as runner:  # which waits at its end for what is being closed
            runner.get_loop().run_forever()

    thread = threading.Thread(target=serve)
    thread.start()
    asyncio.run_coroutine_threadsafe(transport.publish([Hint("mail")]), other).result(TIMEOUT)

    async def act() -> None:
        await transport.publish([Hint("post")])
        assert len(opened) == 2
        await transport.close()
        while not all(connection.is_closed() for connection in opened):
            await SystemClock().sleep(0.01)

    run(act)
    other.call_soon_threadsafe(other.stop)
    thread.join(TIMEOUT)
    assert other.is_closed()


def test_rubbish_is_ignored(postgres_dsn: str) -> None:
    async def act() -> None:
        another = await asyncpg.connect(postgres_dsn)
        async with listening(postgres_dsn) as received:
            for rubbish in ("", "x", "[]", '{"queues": 7}', '{"ids": ["x"]}', "{}"):
                await another.execute("SELECT pg_notify('holdfast', $1)", rubbish)
            await another.execute("SELECT pg_notify('holdfast', $1)", '{"queues": ["mail"], "later": 1}')
            assert await received.get() == Hint("mail")
        await another.close()

    run(act)


def test_due_jobs_are_named_while_they_are_few_and_all_that_a_queue_is_named_for() -> None:
    async def act() -> None:
        outbox = Outbox()
        outbox.add([Hint("mail", IDS[:2]), Hint("post", IDS[2:3]), Hint("other", IDS[3:4])])
        outbox.add([Hint("mail", IDS[4:5]), Hint("post"), Hint("other", IDS[5 : 5 + MOST_DUE])])
        assert outbox.take().hints() == [Hint("mail", (*IDS[:2], IDS[4])), Hint("post"), Hint("other")]
        outbox.add([Hint(f"{number:0100}", IDS[:1]) for number in range(50)])
        assert outbox.take().hints() == [Hint(f"{number:0100}") for number in range(50)]

    run(act)


def test_what_does_not_fit_wakes_every_worker() -> None:
    async def act() -> None:
        outbox = Outbox()
        outbox.add([Hint("mail"), Hint(ids=IDS[:300]), Hint("post", IDS[5:7], "crashed")])
        news = outbox.take()
        assert (news.queues, news.is_for_all) == (["mail", "post"], True)
        assert 100 <= len(news.ids) < 300
        assert len(msgspec.json.encode(news)) <= LONGEST
        assert not outbox.is_filled.is_set()
        outbox.add([Hint("x" * 200 + str(number)) for number in range(200)])
        assert outbox.take() == Notification(is_for_all=True)
        outbox.add([Hint(str(number)) for number in range(5000)])
        assert outbox.take() == Notification(is_for_all=True)
        assert outbox.take() == Notification()

    run(act)

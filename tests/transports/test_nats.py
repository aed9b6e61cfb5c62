"""JetStream on bad days: its server dies, forgets, freezes or refuses, and an operator deletes or fills the stream."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from nats.aio.client import Client

from holdfast._core.transport_url import TransportUrl
from holdfast._ports.transport import Delivery, Hint
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.testing.servers import NatsServer
from holdfast.transports.nats import transport as module
from holdfast.transports.nats.transport import NatsTransport

TIMEOUT = 40.0
AT_ONCE = 5.0
"""Seconds: a publishing caller must not wait; a busy machine may."""
STREAM = "shop"
JOBS = [UUID(int=number) for number in range(1, 100)]

pytestmark = pytest.mark.timeout(120)


def run(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT):
            await act()

    asyncio.run(main())


@asynccontextmanager
async def ends(url: str, count: int = 1, options: str = "") -> AsyncIterator[list[NatsTransport]]:
    address = TransportUrl.of(url + options)
    made = [NatsTransport(address, STREAM, clock=SystemClock(), chance=SystemRandomness()) for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            await each.close()


@asynccontextmanager
async def operator(url: str) -> AsyncIterator[Client]:
    client = Client()
    await client.connect(url)
    try:
        yield client
    finally:
        await client.close()


async def api(client: Client, verb: str, **wish: Any) -> dict[str, Any]:
    """Return what the server answers, word by word as it is on the wire."""
    answer = await client.request(f"$JS.API.{verb}", json.dumps(wish).encode() if wish else b"", timeout=AT_ONCE)
    found: dict[str, Any] = json.loads(answer.data)
    return found


async def deliver(speaker: NatsTransport, receiver: NatsTransport, job: UUID) -> list[UUID]:
    """Publish the job until it is delivered, as a sweep does; return all that came."""
    fetching = asyncio.ensure_future(receiver.fetch(None, 10))
    found: list[UUID] = []
    while job not in found:
        await speaker.publish([Hint("default", (job,))])
        await asyncio.wait({fetching}, timeout=0.2)
        if fetching.done():
            await receiver.acknowledge(fetching.result())
            found += [each.job for each in fetching.result()]
            fetching = asyncio.ensure_future(receiver.fetch(None, 10))
    fetching.cancel()
    await asyncio.wait({fetching})
    return found


async def hear(received: "asyncio.Queue[Hint]", hint: Hint, speaker: NatsTransport) -> None:
    """Publish it until it is received."""
    while True:
        await speaker.publish([hint])
        try:
            async with asyncio.timeout(0.2):
                while await received.get() != hint:
                    pass
                return
        except TimeoutError:
            continue


def test_the_stream_keeps_what_receivers_have_not_acknowledged_and_times_are_nanoseconds_on_the_wire(nats_url: str) -> None:
    async def act() -> None:
        async with ends(nats_url, 2, "?ack_wait=7m") as (speaker, receiver), operator(nats_url) as client:
            await api(client, f"STREAM.DELETE.{STREAM}")
            await deliver(speaker, receiver, JOBS[0])
            stream = (await api(client, f"STREAM.INFO.{STREAM}"))["config"]
            consumer = (await api(client, f"CONSUMER.INFO.{STREAM}.=all"))["config"]
        assert (stream["retention"], stream["discard"], stream["subjects"]) == ("interest", "old", [f"{STREAM}.job.*"])
        assert (stream["max_age"], stream["max_msgs"]) == (86_400 * 10**9, 1_000_000)
        assert (consumer["ack_wait"], consumer["ack_policy"], consumer["max_deliver"]) == (420 * 10**9, "explicit", -1)
        assert consumer["max_ack_pending"] >= 10_000

    run(act)


def test_another_ack_wait_of_a_later_release_is_taken_over(nats_url: str) -> None:
    async def act() -> None:
        for wait in ("10m", "11m"):
            async with ends(nats_url, 2, f"?ack_wait={wait}") as (speaker, receiver), operator(nats_url) as client:
                await deliver(speaker, receiver, JOBS[0])
                config = (await api(client, f"CONSUMER.INFO.{STREAM}.=all"))["config"]
        assert config["ack_wait"] == 660 * 10**9

    run(act)


def test_an_existing_stream_is_used_as_it_is(nats_url: str) -> None:
    async def act() -> None:
        async with ends(nats_url, 2) as (speaker, receiver), operator(nats_url) as client:
            await api(client, f"STREAM.DELETE.{STREAM}")
            made = {"name": STREAM, "subjects": [f"{STREAM}.>"], "retention": "limits", "storage": "memory", "max_msgs": 3}
            await api(client, f"STREAM.CREATE.{STREAM}", **made)
            await deliver(speaker, receiver, JOBS[0])
            assert (await api(client, f"STREAM.INFO.{STREAM}"))["config"]["max_msgs"] == 3
            await api(client, f"STREAM.DELETE.{STREAM}")

    run(act)


@pytest.mark.parametrize("discard", ["old", "new"])
def test_a_full_stream_costs_messages_and_nothing_else(nats_url: str, discard: str) -> None:
    async def act() -> None:
        async with ends(nats_url, 2) as (speaker, receiver), operator(nats_url) as client:
            await api(client, f"STREAM.DELETE.{STREAM}")
            made = {"name": STREAM, "subjects": [f"{STREAM}.job.*"], "retention": "interest", "max_msgs": 5, "discard": discard}
            await api(client, f"STREAM.CREATE.{STREAM}", **made)
            await deliver(speaker, receiver, JOBS[0])
            await receiver.close()
            while (await api(client, f"STREAM.INFO.{STREAM}"))["state"]["messages"] < 5:
                await speaker.publish([Hint("default", tuple(JOBS[:20]))])
            await speaker.publish([Hint("default", tuple(JOBS[20:40]))])
            found: list[UUID] = []
            while not (found and await receiver.is_drained(None)):
                fetched = await receiver.fetch(None, 10)
                await receiver.acknowledge(fetched)
                found += [each.job for each in fetched]
            assert len(found) <= 5
            await deliver(speaker, receiver, JOBS[50])
            await api(client, f"STREAM.DELETE.{STREAM}")

    run(act)


@pytest.mark.parametrize("what", ["STREAM.DELETE.shop", "CONSUMER.DELETE.shop.=all", "STREAM.PURGE.shop"])
def test_a_deleted_stream_or_consumer_is_made_again(nats_url: str, what: str) -> None:
    async def act() -> None:
        async with ends(nats_url, 2) as (speaker, receiver), operator(nats_url) as client:
            await deliver(speaker, receiver, JOBS[0])
            for job in JOBS[1:3]:
                assert (await api(client, what)).get("success")
                await deliver(speaker, receiver, job)

    run(act)


def test_rubbish_is_ended_and_does_not_come_again(nats_url: str) -> None:
    async def act() -> None:
        async with ends(nats_url, 2) as (speaker, receiver), operator(nats_url) as client:
            await deliver(speaker, receiver, JOBS[0])
            for rubbish in (b"", b"{}", b'{"id": 7}', b"\xff\xfe", b'{"id": "x"}', b"[]"):
                await client.publish(f"{STREAM}.job.default", rubbish)
                await client.publish(f"{STREAM}.wake", rubbish)
            await deliver(speaker, receiver, JOBS[1])
            while True:
                info = await api(client, f"CONSUMER.INFO.{STREAM}.=all")
                if info["num_ack_pending"] == info["num_pending"] == 0:
                    break
                await receiver.fetch(None, 1)
            assert info["num_redelivered"] == 0

    run(act)


def test_messages_say_ids_and_reasons_and_nothing_else(nats_url: str) -> None:
    async def act() -> None:
        async with ends(nats_url, 2) as (speaker, receiver), operator(nats_url) as client:
            seen = await client.subscribe(f"{STREAM}.>")
            await client.flush()
            await speaker.publish([Hint("default", (JOBS[0],)), Hint("default", (JOBS[1],), "crashed"), Hint("mail")])
            output = [json.loads((await seen.next_msg(AT_ONCE)).data) for _ in range(3)]
            assert output == [{"id": str(JOBS[0])}, {"id": str(JOBS[1]), "rescued": "crashed"}, {"queue": "mail"}]
            await receiver.close()

    run(act)


# the server


def test_a_server_that_is_killed_or_forgets_everything_costs_messages_and_is_found_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with NatsServer() as server:

        async def act() -> None:
            received: asyncio.Queue[Hint] = asyncio.Queue()
            async with ends(server.url, 2) as (speaker, receiver):
                await receiver.subscribe(received.put_nowait)
                await deliver(speaker, receiver, JOBS[0])
                for is_forgetful in (False, True):
                    await asyncio.to_thread(server.kill)
                    if is_forgetful:
                        server.forget()
                    async with asyncio.timeout(AT_ONCE):
                        for job in JOBS[:20]:
                            await speaker.publish([Hint("default", (job,)), Hint("mail")])
                            await receiver.acknowledge([Delivery(job, "default", "delivery", receipt="$JS.ACK.gone")])  # type: ignore[arg-type]
                    assert not await speaker.is_drained(None)
                    await asyncio.to_thread(server.start)
                    await deliver(speaker, receiver, JOBS[21])
                    await hear(received, Hint(f"after {is_forgetful}"), speaker)

        with caplog.at_level(logging.INFO, "holdfast"):
            run(act)
    output = [record.getMessage() for record in caplog.records if record.name == "holdfast"]
    assert any("no hints by NATS" in each for each in output)
    assert any("again" in each for each in output)


def test_a_driver_that_closes_itself_without_a_callback_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PING", 1)
    close = Client._close
    monkeypatch.setattr(Client, "_close", lambda client, status, do_cbs=True: close(client, status, do_cbs=False))
    with NatsServer() as server:

        async def act() -> None:
            async with ends(server.url, 2) as (speaker, receiver):
                await deliver(speaker, receiver, JOBS[0])
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                assert JOBS[1] in await deliver(speaker, receiver, JOBS[1])

        run(act)


def test_without_a_server_no_caller_waits_and_it_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        async with ends("nats://ann:s3cret@127.0.0.1:9") as (speaker,):
            received: list[Hint] = []
            async with asyncio.timeout(AT_ONCE):
                await speaker.subscribe(received.append)
                for job in JOBS:
                    await speaker.publish([Hint("default", (job,))])
                await speaker.republish([])
                assert await speaker.fetch(None, 0) == ()
                assert not await speaker.is_drained(None)
            assert await speaker.fetch(None, 5) == ()
            assert received == []

    with caplog.at_level(logging.DEBUG, "holdfast"):
        run(act)
    output = [record.getMessage() for record in caplog.records]
    assert sum("no hints by NATS at nats://127.0.0.1:9" in each for each in output) == 1
    assert "s3cret" not in "\n".join(output)


def test_a_frozen_server_delays_no_caller_for_long_and_goes_on_when_it_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PING", 1)
    with NatsServer() as server:

        async def act() -> None:
            async with ends(server.url, 2) as (speaker, receiver):
                await deliver(speaker, receiver, JOBS[0])
                os.kill(server.pid, signal.SIGSTOP)
                try:
                    loop = asyncio.get_running_loop()
                    started = loop.time()
                    for _ in range(5):
                        await speaker.publish([Hint(f"queue-{number}" * 50, tuple(JOBS)) for number in range(20)])
                    assert loop.time() - started < AT_ONCE
                    assert await receiver.fetch(None, 5) == ()
                finally:
                    os.kill(server.pid, signal.SIGCONT)
                await deliver(speaker, receiver, JOBS[1])

        run(act)


def test_an_account_without_jetstream_still_wakes_all_workers_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FETCH_WAIT", 0.3)
    with NatsServer(settings="accounts: {plain: {users: [{user: ann, password: b}]}}") as server:

        async def act() -> None:
            received: asyncio.Queue[Hint] = asyncio.Queue()
            async with ends(server.url.replace("//", "//ann:b@"), 2) as (speaker, receiver):
                await receiver.subscribe(received.put_nowait)
                await hear(received, Hint("mail"), speaker)
                assert [await receiver.fetch(None, 5) for _ in range(2)] == [(), ()]

        with caplog.at_level(logging.INFO, "holdfast"):
            run(act)
    assert sum("delivers no jobs" in record.getMessage() for record in caplog.records) == 1


def test_the_next_server_of_the_list_is_taken(nats_url: str) -> None:
    async def act() -> None:
        async with ends("nats://127.0.0.1:9," + nats_url.removeprefix("nats://"), 2) as (speaker, receiver):
            assert JOBS[0] in await deliver(speaker, receiver, JOBS[0])

    run(act)


@pytest.mark.parametrize(
    ("rules", "right", "wrong"),
    [
        ('{user: "ann", password: "p@ss"}', "ann:p%40ss@", "ann:wr0ng@"),
        ('{token: "t0ken/1"}', "t0ken%2F1@", "wr0ng@"),
    ],
)
def test_users_and_tokens(rules: str, right: str, wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    with NatsServer(settings=f"authorization: {rules}") as server:
        place = server.url.removeprefix("nats://")

        async def act() -> None:
            async with ends(f"nats://{right}{place}", 2) as (speaker, receiver):
                await deliver(speaker, receiver, JOBS[0])
            async with ends(f"nats://{wrong}{place}") as (refused,):
                await refused.publish([Hint("mail")])
                assert await refused.fetch(None, 1) == ()

        with caplog.at_level(logging.DEBUG, "holdfast"):
            run(act)
    output = "\n".join(record.getMessage() for record in caplog.records)
    assert "Authorization" in output
    assert "wr0ng" not in output
    assert "t0ken" not in output
    assert "p@ss" not in output


def test_a_server_that_does_not_demand_tls_learns_no_password_from_an_address_that_does(caplog: pytest.LogCaptureFixture) -> None:
    received: list[bytes] = []
    has_left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","auth_required":true,"max_payload":1048576}\r\n')
        received.append(await reader.read())
        writer.close()
        has_left.set()

    async def act() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with ends(f"tls://ann:secret@127.0.0.1:{port}") as (end,):
                await end.subscribe(lambda _: None)
                await has_left.wait()

    run(act)
    assert received[0] == b""
    assert "does not demand TLS" in caplog.text

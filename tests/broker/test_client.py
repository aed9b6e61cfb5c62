"""What a remote store concludes from servers that fail, lie or are something else."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.requests import ClaimRequest
from holdfast._ports import wire
from holdfast._ports.wire_errors import encode_error
from holdfast.databases.http import client as http_client
from holdfast.errors import StoreUnavailable, Unsupported
from holdfast.stores.remote.store import RemoteStore
from holdfast.testing.clock import FakeChance

CHANCE = FakeChance()
CLAIM = ClaimRequest(lease=CHANCE.uuid4(), claim=CHANCE.uuid4(), tasks={}, limit=1)
CUT = b""
"""The server closes the connection after it has read the request."""


def answer(body: bytes, status: int = 200, version: int | None = wire.VERSION, more: str = "") -> bytes:
    spoken = "" if version is None else f"{wire.HEADER}: {version}\r\n"
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{spoken}{more}\r\n".encode() + body


COUNTS = answer(wire.VERBS["counts"].encode_answer({}))
CLAIMED = wire.VERBS["exchange"]


class Scripted:
    """A server that answers each request with the next of its answers, the last one indefinitely; ``seen``: what it was sent."""

    def __init__(self, *answers: bytes) -> None:
        self._answers, self.seen = list(answers), list[bytes]()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
                await reader.readexactly(length)
                self.seen.append(head)
                reply = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                if reply == CUT:
                    break
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def against(servers: Sequence[Scripted], act: Callable[[RemoteStore], Awaitable[Any]], token: str | None = None) -> Any:
    """Act with a client of these servers, and return what it returns."""

    async def run() -> Any:
        urls = [await server.start() for server in servers]
        store = RemoteStore(urls, token=token, chance=FakeChance())
        try:
            return await act(store)
        finally:
            await store.close()
            for server in servers:
                await server.stop()

    return asyncio.run(run())


def counts(store: Any) -> Awaitable[Any]:
    found: Awaitable[Any] = store.counts()
    return found


def test_a_read_is_sent_again_when_the_connection_is_cut() -> None:
    server = Scripted(CUT, COUNTS)
    assert against([server], counts) == {}
    assert len(server.seen) == 2


def test_a_claim_is_not_sent_again_when_the_connection_is_cut() -> None:
    server = Scripted(CUT, answer(b""))
    with pytest.raises(StoreUnavailable, match="closed the connection"):
        against([server], lambda store: store.exchange((), CLAIM))  # type: ignore[attr-defined]
    assert len(server.seen) == 1


def test_a_claim_that_an_overloaded_broker_did_not_accept_is_sent_to_the_next_one() -> None:
    refused = answer(encode_error(StoreUnavailable("busy")), 503)
    accepted = answer(CLAIMED.encode_answer(ExchangeAnswer()))
    servers = [Scripted(refused, accepted), Scripted(refused, accepted)]
    assert against(servers, lambda store: store.exchange((), CLAIM)) == ExchangeAnswer()  # type: ignore[attr-defined]


def test_a_claim_is_not_sent_again_when_a_proxy_finds_no_broker() -> None:
    proxies = [Scripted(answer(b"reset before headers", 503, version=None)) for _ in range(2)]
    with pytest.raises(StoreUnavailable, match="a proxy before it finds no broker"):
        against(proxies, lambda store: store.exchange((), CLAIM))  # type: ignore[attr-defined]
    assert sum(len(each.seen) for each in proxies) == 1, "the broker behind it may have read the call"


def test_the_next_broker_is_called_while_one_is_away() -> None:
    async def act(store: Any) -> Any:
        await servers[0].stop()
        return [await store.counts() for _ in range(4)]

    servers = [Scripted(COUNTS), Scripted(COUNTS)]
    assert against(servers, act) == [{}] * 4


def test_no_answer_in_time_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "TIMEOUT", 0.2)
    silent = Scripted(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n")
    with pytest.raises(StoreUnavailable, match=r"within 0\.2 s"):
        against([silent], counts)


@pytest.mark.parametrize("place", [0, 1])  # one of them is asked first
def test_a_broker_that_stands_still_costs_one_round_of_calls(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "TIMEOUT", 1.0)

    async def act(store: Any) -> Any:
        await asyncio.gather(*(store.counts() for _ in range(3)), return_exceptions=True)
        return [await store.counts() for _ in range(3)]

    servers = [Scripted(COUNTS)]
    servers.insert(place, Scripted(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n"))
    assert against(servers, act) == [{}] * 3


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"<html>hello</html>", 200, None),
        answer(b"<html>bad gateway</html>", 502, None),
        answer(b"not found", 404, None),
        answer(b"", 302, None, "Location: http://127.0.0.1:1/\r\n"),
    ],
)
def test_another_kind_of_server_is_named_with_the_remedy(reply: bytes) -> None:
    with pytest.raises(StoreUnavailable, match="no broker of Holdfast: check the URL"):
        against([Scripted(reply)], counts)


def test_a_redirect_is_not_followed_and_no_token_goes_there() -> None:
    other = Scripted(COUNTS)

    async def run() -> None:
        place = await other.start()
        server = Scripted(answer(b"", 307, None, f"Location: {place}/\r\n"))
        store = RemoteStore([await server.start()], token="secret", chance=FakeChance())
        with pytest.raises(StoreUnavailable):
            await counts(store)
        await store.close()
        await server.stop()
        await other.stop()
        assert b"Bearer secret" in server.seen[0]

    asyncio.run(run())
    assert other.seen == []


def test_a_broker_of_another_version_is_a_clear_error() -> None:
    with pytest.raises(Unsupported, match=r"speaks version 2 of the wire, this release .* version 1: upgrade brokers first"):
        against([Scripted(answer(b"", 404, 2))], counts)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x81\xa5value\x01", COUNTS[:10]])
def test_an_answer_that_cannot_be_read_is_unknown(body: bytes) -> None:
    with pytest.raises(StoreUnavailable):
        against([Scripted(answer(body))], counts)
    with pytest.raises(StoreUnavailable):
        against([Scripted(answer(body, 409))], counts)


def test_calls_under_way_are_answered_when_the_store_is_closed() -> None:
    async def act(store: Any) -> Any:
        waiting = asyncio.create_task(store.counts())
        while not silent.seen:
            await asyncio.wait({waiting}, timeout=0.01)
        await store.close()
        return await asyncio.gather(waiting, return_exceptions=True)

    silent = Scripted(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n")
    (found,) = against([silent], act)
    assert isinstance(found, StoreUnavailable)


def test_a_cancelled_caller_is_cancelled() -> None:
    async def act(store: Any) -> None:
        async with asyncio.timeout(0.2):
            await store.counts()

    with pytest.raises(TimeoutError):
        against([Scripted(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\n")], act)


class Gathering(Scripted):
    """A server that answers no request before it has read 100."""

    def __init__(self) -> None:
        super().__init__()
        self._is_complete = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen.append(await reader.readuntil(b"\r\n\r\n"))
        if len(self.seen) == 100:
            self._is_complete.set()
        await self._is_complete.wait()
        writer.write(COUNTS)
        writer.close()


def test_the_calls_of_100_callers_are_with_the_broker_at_once() -> None:
    """Else it cannot put them into one write."""

    async def call_together(store: RemoteStore) -> list[Any]:
        return await asyncio.gather(*(counts(store) for _ in range(100)))

    assert against([Gathering()], call_together) == [{}] * 100

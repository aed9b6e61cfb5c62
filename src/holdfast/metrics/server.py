"""``GET /metrics`` of a supervisor: one small server in its event loop, which answers nothing else.

It is written by hand because a supervisor has to stay small, and a scraper needs no more than this.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Self

from msgspec import Struct

from holdfast._core.listen_address import host_of, is_loopback, port_of
from holdfast.errors import ConfigurationError

SLOWEST = 5.0
"""Seconds in which a request must have come."""
MOST_BYTES = 16_384
MOST_REQUESTS = 16
REASONS = {
    200: "OK",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
Answer = tuple[int, str, bytes]


class MetricsAddress(Struct, frozen=True):
    """Where to listen, and the digest of the token that a scraper has to send, if any."""

    host: str
    port: int
    digest: bytes | None = None

    @classmethod
    def of(cls, address: str, token_file: str | None) -> Self:
        """Check what the user wrote; ``ConfigurationError`` with every problem. Beyond this machine a token is needed."""
        host, port, problems = host_of(address), port_of(address), list[str]()
        digest = None
        if not host or port is None:
            problems.append(f"--metrics: {address!r} is not host:port: write 127.0.0.1:9464")
        elif token_file is None and not is_loopback(host):
            problems.append(
                f"--metrics: {host} is reached from other machines, whose users could read the names of tasks and queues: "
                "pass --metrics-token-file FILE, or listen on 127.0.0.1"
            )
        if token_file is not None:
            try:
                token = Path(token_file).read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"--metrics-token-file: cannot be read: {error}")
            else:
                digest = sha256(token.encode()).digest()
                if len(token) < 16:
                    problems.append(
                        "--metrics-token-file: the token is shorter than 16 characters: openssl rand -hex 32 makes one"
                    )
        if problems:
            raise ConfigurationError(problems)
        return cls(host, port or 0, digest)

    def refusal_of(self, headers: Mapping[str, str]) -> int | None:
        """Return the status of a refusal: the token is missing, or a page of a browser reached this machine by another name."""
        if self.digest is not None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            is_known = hmac.compare_digest(sha256(token.strip().encode()).digest(), self.digest)
            return None if is_known and scheme.lower() == "bearer" else 401
        return None if "origin" not in headers and is_loopback(host_of(headers.get("host", ""))) else 403


class MetricsServer:
    """Answers scrapers. ``render`` returns the content type and the body for an ``Accept`` header."""

    def __init__(self, address: MetricsAddress, render: Callable[[str], Awaitable[tuple[str, bytes]]]) -> None:
        self._address, self._render = address, render
        self._free = asyncio.Semaphore(MOST_REQUESTS)
        self.port = address.port

    async def open(self) -> None:
        """Listen; ``ConfigurationError`` if the address cannot be used. The server ends with the event loop."""
        where = self._address
        try:
            self._server = await asyncio.start_server(self._serve, where.host, where.port, limit=MOST_BYTES)
        except OSError as error:
            raise ConfigurationError([f"--metrics: {where.host}:{where.port} cannot be listened on: {error.strerror}"]) from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening; requests that are being answered still are."""
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SLOWEST), self._free:
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = await self._answer(head.decode("latin-1"))
                extra = "WWW-Authenticate: Bearer\r\n" if status == 401 else ""
                lines = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}"
                writer.write(f"{lines}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a scraper that went away, or never was one
        finally:
            writer.close()

    async def _answer(self, head: str) -> Answer:
        first, *lines = head.split("\r\n")
        method, _, target = first.partition(" ")
        headers = {name.strip().lower(): value.strip() for name, found, value in (each.partition(":") for each in lines) if found}
        path = target.partition(" ")[0].partition("?")[0]
        if (status := self._address.refusal_of(headers)) is not None:
            return _problem(status)
        if path != "/metrics" or method != "GET":
            return _problem(404 if path != "/metrics" else 405)
        kind, body = await self._render(headers.get("accept", ""))
        return 200, kind, body


def _problem(status: int) -> Answer:
    return status, "text/plain; charset=utf-8", f"{REASONS[status]}: GET /metrics is all there is\n".encode()

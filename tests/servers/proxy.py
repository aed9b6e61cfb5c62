"""A bad network: a TCP proxy that delays, swallows, cuts and refuses as a test asks."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Literal, Self

from holdfast._system.clock import SystemClock
from holdfast.testing.servers.process import free_port

_CHUNK = 1 << 16
_THRESHOLD = 5  # turns of a loop within which a connection that it has accepted is served
_RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)


class TcpProxy:
    """Between clients and a server on this machine, in a separate thread, so that tests may block.

    ``up`` is what clients send, ``down`` what the server answers.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port = free_port()
        self._behind = host, port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._up, self._down = _Way(), _Way()
        self._links: set[_Link] = set()
        self._visits: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    def through(self, url: str) -> str:
        """Return the same address with this proxy instead of the server."""
        return url.replace(f":{self._behind[1]}", f":{self.port}")

    def lead_to(self, port: int) -> None:
        """Connect to another server on this machine from now on, and break the connections to the one before."""
        self._behind = self._behind[0], port
        self.reset()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._links)

    def delay(self, seconds: float) -> None:
        """Delay each piece by ``seconds`` from now on, both ways."""
        self._up.delay = self._down.delay = seconds

    def blackhole(self, way: Literal["up", "down", "both"] = "both") -> None:
        """Swallow what goes this way, the end of a connection too, and report nothing; connections stay, and new ones are taken."""
        self._up.is_blackhole, self._down.is_blackhole = way != "down", way != "up"

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Reset a connection once ``up`` or ``down`` bytes more have passed this way, over all connections: that of the last byte."""
        self._up.left, self._down.left = up, down

    def half_open(self) -> None:
        """End every connection towards the server only; its clients notice nothing."""
        self._do(self._forsake)

    def reset(self) -> None:
        """Break every connection, as a machine between them that restarts; new ones work."""
        self._do(self._reset)

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        self._do(self._cut)

    def restore(self) -> None:
        """Work normally again; connections that have lost something are reset."""
        self._do(self._restore)

    def close(self) -> None:
        """Break everything and end."""
        if self._thread.is_alive():
            self._do(self._end)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _do(self, act: Callable[[], Coroutine[None, None, None]]) -> None:
        asyncio.run_coroutine_threadsafe(act(), self._loop).result()

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _reset(self) -> None:
        for link in self._links:
            link.reset()

    async def _forsake(self) -> None:
        for link in self._links:
            link.is_forsaken = link.has_lost = True
            link.server.reset()

    async def _cut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            # A client that is just being accepted would be left waiting by a server that is closed.
            for door in listener.sockets:
                self._loop.remove_reader(door.fileno())
            for _ in range(_THRESHOLD):
                await SystemClock().sleep(0)
            listener.close()
        await self._reset()

    async def _restore(self) -> None:
        self._up.restore()
        self._down.restore()
        for link in self._links:
            if link.has_lost:
                link.reset()
        await self._listen()

    async def _end(self) -> None:
        await self._cut()
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _End(reader, writer)
        visit = self._loop.create_task(self._serve(client))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)
        visit.add_done_callback(lambda _: client.reset())  # also of one that was cancelled before it had begun

    async def _serve(self, client: "_End") -> None:
        try:
            server = _End(*await asyncio.open_connection(*self._behind))
        except (OSError, asyncio.CancelledError):
            client.reset()
            return
        link = _Link(client, server)
        self._links.add(link)
        try:
            await asyncio.gather(_carry(link, client, server, self._up), _carry(link, server, client, self._down))
        finally:
            self._links.discard(link)
            link.reset()


class _Way:
    """The bytes that go one way, and what happens to them."""

    def __init__(self) -> None:
        self.restore()

    def restore(self) -> None:
        self.delay = 0.0
        self.is_blackhole = False
        self.left: int | None = None

    def take(self, chunk: bytes) -> bytes:
        """Return what of it still passes."""
        if self.left is None:
            return chunk
        passing = chunk[: self.left]
        self.left -= len(passing)
        return passing


class _End:
    """One of the two sockets of a link."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer
        writer.transport.set_write_buffer_limits(0)  # what was sent has left when the next thing happens

    async def send(self, chunk: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._writer.write(chunk)
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        with contextlib.suppress(OSError):  # closed already
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_WHEN_CLOSED)
        self._writer.transport.abort()


class _Link:
    """A client's connection and the server's."""

    def __init__(self, client: _End, server: _End) -> None:
        self.client, self.server = client, server
        self.has_lost = self.is_forsaken = False

    def reset(self) -> None:
        self.client.reset()
        self.server.reset()


async def _carry(link: _Link, source: _End, target: _End, way: _Way) -> None:
    """Carry all that comes, until it ends; a connection that ends badly ends well for the other side, unless both are reset."""
    is_over = False
    while not is_over:
        chunk = b""
        with contextlib.suppress(OSError):
            chunk = await source.reader.read(_CHUNK)
        is_over = not chunk
        if way.delay:
            await SystemClock().sleep(way.delay)
        if way.is_blackhole or link.is_forsaken:
            link.has_lost = True
            continue
        await target.send(way.take(chunk))
        if way.left == 0:
            way.left = None
            link.reset()
        if is_over:
            target.close()

"""A bucket server with as much S3 as obstore needs: conditions, ETags of the content, lists, and faults that a test switches on.

Of Google's protocol it knows the generations; that is all in which obstore's calls for Google differ.

It serves the loopback address from a thread of the test's process, and checks no signatures.
"""

import asyncio
import socket
import struct
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import md5
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from msgspec import Struct

from holdfast._ports.clock import Clock
from holdfast._system.clock import SystemClock
from holdfast.testing.servers.process import free_port

_LINGER = struct.pack("ii", 1, 0)  # a closed connection is reset, not ended
_RACE = 0.02  # seconds between check and act, long enough for 16 writers to check
_REASONS = {400: "InvalidRequest", 409: "ConditionalRequestConflict", 412: "PreconditionFailed", 500: "InternalError"}
_REASONS |= {403: "AccessDenied", 404: "NoSuchKey", 405: "MethodNotAllowed", 429: "SlowDown", 503: "SlowDown"}


class BucketFault(Struct, frozen=True):
    """What happens to one request. ``status``: of the answer; ``None``: the connection is reset instead.

    ``is_applied``: the request takes effect all the same. ``is_late``: it takes effect at ``apply_late``, if its condition holds then.
    ``is_stale``: a read returns what the object was before its last write.
    """

    status: int | None = None
    is_applied: bool = False
    is_late: bool = False
    is_stale: bool = False


class BucketRequest(Struct, frozen=True):
    """A request as it arrived. ``key``: empty for a list."""

    method: str
    key: str
    headers: dict[str, str]
    query: dict[str, str]
    body: bytes
    bucket: str


class StoredObject(Struct, frozen=True):
    """A body and when it was written. ``generation``: the number of that write, by which Google's conditions compare."""

    body: bytes
    modified: datetime
    generation: int = 1

    @property
    def etag(self) -> str:
        """The ETag: of the content alone, as S3 computes it."""
        return f'"{md5(self.body, usedforsecurity=False).hexdigest()}"'


class _Answer(Struct, frozen=True):
    status: int
    body: bytes = b""
    found: StoredObject | None = None


class BucketServer:
    """A bucket named ``bucket`` on a free port of this machine. What a test sets counts from the next request on.

    ``latency``: seconds before each answer. ``interval``: seconds that must lie between two writes of a key, else 429. ``clock_offset``:
    how far its clock is ahead. ``denied``: methods that get a 403. ``region``: the only one whose signatures it accepts.
    ``ignores_conditions``, ``checks_then_acts`` (a condition and its write are two steps), ``accepts_absent`` (a condition on an absent key
    holds), ``reads_stale`` (each read returns the object before the last write): how dishonest servers behave.
    ``on_write`` gets the key and the body of each write when it takes effect.

    >>> with BucketServer() as server:  # doctest: +SKIP
    ...     server.fail("PUT", BucketFault(503, is_applied=True))
    ...     bucket = open_bucket(server.bucket_url, SystemClock())
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.port, self.objects = free_port(), dict[str, StoredObject]()
        self.requests: list[BucketRequest] = []
        self.latency = self.interval = self.clock_offset = 0.0
        self.region, self.denied = "us-east-1", frozenset[str]()
        self.ignores_conditions = self.checks_then_acts = self.accepts_absent = self.reads_stale = False
        self.page = 1000
        self.on_write: Callable[[str, bytes], None] = lambda key, body: None
        self._clock = clock or SystemClock()
        self._faults: defaultdict[str, deque[BucketFault | None]] = defaultdict(deque)
        self._before: dict[str, StoredObject | None] = {}
        self._written: dict[str, float] = {}
        self._late: list[BucketRequest] = []
        self._generation = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bucket-server", daemon=True)
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The endpoint, such as ``http://127.0.0.1:15000``."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bucket_url(self) -> str:
        """The URL of the bucket with a prefix, as users write it."""
        return f"s3://bucket/jobs?endpoint={self.url}"

    @property
    def counts(self) -> Counter[str]:
        """How many requests of each method arrived."""
        return Counter(each.method for each in self.requests)

    def fail(self, method: str, *faults: BucketFault | None) -> None:
        """Let the next requests of this method end so, one after the other; ``None`` leaves one alone."""
        self._faults[method].extend(faults)

    def recover(self) -> None:
        """Leave the next requests alone: drop the faults that none has met yet."""
        self._faults.clear()

    def apply_late(self) -> None:
        """Apply the writes that were late until now, in the order in which they came."""
        self._do(self._apply_late())

    def start(self) -> Self:
        """Start serving; return once it listens."""
        self._thread.start()
        self._do(self._listen())
        return self

    def close(self) -> None:
        """Stop serving; its objects can still be inspected."""
        if self._thread.is_alive():
            self._do(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _do(self, act: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=256)

    async def _end(self) -> None:
        self._listener.close()
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _apply_late(self) -> None:
        late, self._late = self._late, []
        for request in late:
            await self._judge(request)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = self._loop.create_task(self._serve(reader, writer))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (answer := await self._answer(request := await _read(reader))) is not None:
                writer.write(self._written_out(request, answer))
                await writer.drain()
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
            writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            pass  # its client has gone
        finally:
            writer.close()

    async def _answer(self, request: BucketRequest) -> _Answer | None:
        """Carry out a request, or fail it; ``None``: reset the connection."""
        self.requests.append(request)
        if self.latency:
            await SystemClock().sleep(self.latency)
        faults = self._faults[request.method]
        fault = faults.popleft() if faults else None
        if fault is None:
            return await self._judge(request)
        if fault.is_stale:
            return self._get(request, is_stale=True)
        if fault.is_applied:
            await self._judge(request)
        if fault.is_late:
            self._late.append(request)
        return None if fault.status is None else _failed(fault.status)

    async def _judge(self, request: BucketRequest) -> _Answer:
        if request.bucket != "bucket":
            return _failed(404, "NoSuchBucket")
        signature = request.headers.get("authorization", "")
        if signature.startswith("AWS4") and f"/{self.region}/s3/" not in signature:
            return _failed(400, "AuthorizationHeaderMalformed")
        if request.method in self.denied:
            return _failed(403)
        match request.method:
            case "GET":
                return self._get(request, is_stale=self.reads_stale) if request.key else self._list(request.query)
            case "PUT":
                return await self._put(request)
            case "DELETE":
                self.objects.pop(request.key, None)
                return _Answer(204)
        return _failed(405)

    def _get(self, request: BucketRequest, *, is_stale: bool) -> _Answer:
        found = self.objects.get(request.key)
        if is_stale and request.key in self._before:
            found = self._before[request.key]
        if found is None:
            return _failed(404)
        return _Answer(304) if request.headers.get("if-none-match") == found.etag else _Answer(200, found.body, found)

    async def _put(self, request: BucketRequest) -> _Answer:
        now = self._clock.monotonic()
        if self.interval and now - self._written.get(request.key, now - self.interval) < self.interval:
            return _failed(429)
        if (refusal := self._refusal(request)) is not None:
            return refusal
        if self.checks_then_acts:
            await SystemClock().sleep(_RACE)
        self._generation += 1
        new = StoredObject(request.body, datetime.fromtimestamp(self._clock.wall() + self.clock_offset, UTC), self._generation)
        self._before[request.key], self._written[request.key] = self.objects.get(request.key), now
        self.objects[request.key] = new
        self.on_write(request.key, request.body)
        return _Answer(200, found=new)

    def _refusal(self, request: BucketRequest) -> _Answer | None:
        """Return the answer to a write whose condition fails; ``None`` if it holds."""
        found, wanted = self.objects.get(request.key), request.headers.get("if-match")
        generation = request.headers.get("x-goog-if-generation-match")
        if self.ignores_conditions:
            return None
        if generation is not None:
            is_met = int(generation) == (found.generation if found else 0) or (self.accepts_absent and found is None)
            return None if is_met else _failed(412)
        if found is None:
            return None if wanted is None or self.accepts_absent else _failed(404)
        is_taken = request.headers.get("if-none-match") == "*"
        return _failed(412) if is_taken or wanted not in (None, found.etag) else None

    def _list(self, query: dict[str, str]) -> _Answer:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", query.get("start-after", ""))
        found = sorted(key for key in self.objects if key > after and key.startswith(prefix))
        page = found[: self.page]
        shown = "".join(_entry(key, self.objects[key]) for key in page)
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(page) < len(found) else ""
        counted = f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(bool(more)).lower()}</IsTruncated>"
        return _Answer(
            200, _xml("ListBucketResult", f"<Name>bucket</Name><Prefix>{escape(prefix)}</Prefix>{counted}{more}{shown}")
        )

    def _written_out(self, request: BucketRequest, answer: _Answer) -> bytes:
        now = datetime.fromtimestamp(self._clock.wall() + self.clock_offset, UTC)
        head = [f"HTTP/1.1 {answer.status} -", f"Date: {format_datetime(now, usegmt=True)}"]
        if answer.status not in (204, 304):
            head.append(f"Content-Length: {len(answer.body)}")
        if answer.found is not None:
            head += [f"ETag: {answer.found.etag}", f"Last-Modified: {format_datetime(answer.found.modified, usegmt=True)}"]
            head.append(f"x-goog-generation: {answer.found.generation}")
        return "\r\n".join(head).encode() + b"\r\n\r\n" + answer.body


async def _read(reader: asyncio.StreamReader) -> BucketRequest:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    path, _, query = target.partition("?")
    bucket, _, key = unquote(path).removeprefix("/").partition("/")
    return BucketRequest(method, key, headers, dict(parse_qsl(query, keep_blank_values=True)), body, bucket)


def _failed(status: int, code: str = "") -> _Answer:
    reason = code or _REASONS.get(status, "InternalError")
    return _Answer(status, _xml("Error", f"<Code>{reason}</Code><Message>{reason}</Message>"))


def _entry(key: str, found: StoredObject) -> str:
    modified = found.modified.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified><ETag>{escape(found.etag)}</ETag>"
        f"<Size>{len(found.body)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _xml(name: str, inside: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}>{inside}</{name}>'.encode()

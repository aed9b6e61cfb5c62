"""A bucket in memory that implements as much S3 as `obstore` needs, and fails as often as a test asks.

`python bucket_server.py --port 9000` prints its address and runs until Ctrl-C.
"""

import argparse
import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Coroutine
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from holdfast.testing.servers.process import free_port

_PAGE = 1000
_PHRASES = {
    200: "OK",
    204: "No Content",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
_STAMP = "2026-01-01T00:00:00.000Z"


class Request(NamedTuple):
    """What a client asks for. ``key``: of the object, empty where the bucket itself is meant."""

    method: str
    key: str
    query: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    body: bytes = b""


class BucketServer:
    """Objects by key, in a separate thread: PUT, GET, HEAD, DELETE, bulk deletes, lists. Every client may do anything.

    Objects that are ``locked`` are never deleted. ``seed``: of the chance by which it fails.

    >>> with BucketServer() as bucket:  # doctest: +SKIP
    ...     app = subprocess.Popen([...], env={"BUCKET": bucket.url})
    ...     bucket.fail(failing=0.05, losing=0.01)
    """

    def __init__(self, port: int | None = None, *, seed: int = 0) -> None:
        self.port, self.name = port or free_port(), "bucket"
        self.objects: dict[str, bytes] = {}
        self.locked: set[str] = set()
        self.calls: Counter[str] = Counter()
        """How often each method was asked for; besides ``deletes``, and the ``failed``, ``lost`` and ``refused``."""
        self.fail()
        self._chance = Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bucket", daemon=True)
        self._visits: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the bucket."""
        return f"http://127.0.0.1:{self.port}/{self.name}"

    def fail(self, *, failing: float = 0.0, losing: float = 0.0, refusing: float = 0.0) -> None:
        """Refuse from now on such a part of all calls with a 503, or carry it out and lose its answer. Of a bulk delete's keys
        such a part stays, and the answer lists it. Without arguments no call fails."""
        self._failing, self._losing, self._refusing = failing, losing, refusing

    def close(self) -> None:
        """Stop serving; its objects can still be inspected."""
        if self._thread.is_alive():
            self._do(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _do(self, act: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _end(self) -> None:
        self._listener.close()
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = self._loop.create_task(self._serve(reader, writer))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await self._read(reader)
                answer = self._judge(request)
                if answer is None:
                    break
                writer.write(_written(request, answer))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # its caller has gone
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path, _, query = target.partition("?")
        key = unquote(path).removeprefix(f"/{self.name}").removeprefix("/")
        return Request(method, key, dict(parse_qsl(query, keep_blank_values=True)), body)

    def _judge(self, request: Request) -> Answer | None:
        """Carry out the request, or fail; ``None``: the client gets no answer."""
        self.calls[request.method] += 1
        if self._chance.random() < self._failing:
            self.calls["failed"] += 1
            return Answer(503, _error("SlowDown"))
        answer = self._done(request)
        if self._chance.random() < self._losing:
            self.calls["lost"] += 1
            return None
        return answer

    def _done(self, request: Request) -> Answer:
        objects, key = self.objects, request.key
        match request.method:
            case "GET" if not key:
                return Answer(200, self._list(request.query))
            case "POST" if "delete" in request.query:
                return Answer(200, self._delete_all(request.body))
            case "GET" | "HEAD":
                return Answer(200, objects[key]) if key in objects else Answer(404, _error("NoSuchKey"))
            case "PUT":
                objects[key] = request.body
                return Answer(200)
            case "DELETE" if key in self.locked:
                return Answer(403, _error("AccessDenied"))
            case "DELETE":
                objects.pop(key, None)
                return Answer(204)
        return Answer(405, _error("MethodNotAllowed"))

    def _delete_all(self, body: bytes) -> bytes:
        self.calls["deletes"] += 1
        parts = []
        for key in _keys(body):
            code = "AccessDenied" if key in self.locked else "InternalError" if self._chance.random() < self._refusing else ""
            if code:
                self.calls["refused"] += 1
                parts.append(f"<Error><Key>{escape(key)}</Key><Code>{code}</Code><Message>{code}</Message></Error>")
            else:
                self.objects.pop(key, None)
                parts.append(f"<Deleted><Key>{escape(key)}</Key></Deleted>")
        return _xml("DeleteResult", "".join(parts))

    def _list(self, query: dict[str, str]) -> bytes:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", query.get("start-after", ""))
        found = sorted(key for key in self.objects if key > after and key.startswith(prefix))
        page = found[: min(int(query.get("max-keys", _PAGE)), _PAGE)]
        shown = [
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_STAMP}</LastModified><ETag>&quot;0&quot;</ETag>"
            f"<Size>{len(self.objects[key])}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for key in page
        ]
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(page) < len(found) else ""
        counted = f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(bool(more)).lower()}</IsTruncated>"
        return _xml("ListBucketResult", f"<Name>bucket</Name><Prefix>{escape(prefix)}</Prefix>{counted}{more}{''.join(shown)}")


def _keys(body: bytes) -> list[str]:
    """Read the keys of a bulk delete, in any namespace of its XML."""
    return [each.text or "" for each in ElementTree.fromstring(body).iter() if each.tag.rpartition("}")[2] == "Key"]


def _written(request: Request, answer: Answer) -> bytes:
    head = [
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}",
        f"Content-Length: {len(answer.body)}",
        "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT",
        'ETag: "0"',
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + (b"" if request.method == "HEAD" else answer.body)


def _error(code: str) -> bytes:
    return _xml("Error", f"<Code>{code}</Code><Message>{code}</Message>")


def _xml(name: str, inside: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{name}>{inside}</{name}>'.encode()


def main() -> None:
    """Serve until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000, help="where it listens, on this machine only; 9000 if left out")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with BucketServer(parser.parse_args().port) as bucket:
        print(bucket.url, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()

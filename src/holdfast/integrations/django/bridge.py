"""A request of Django as one of ASGI, and the answer back."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from starlette.types import ASGIApp

STREAM: Final = b"text/event-stream"
Message = MutableMapping[str, Any]


def scope_of(request: HttpRequest, path: str) -> dict[str, Any]:
    """Return the scope of a request. ``path``: the rest of its path, below where the URLs are included."""
    root = request.path.removesuffix(path).rstrip("/")
    headers = [
        (name.lower().encode("latin-1"), str(value).encode("latin-1", "replace")) for name, value in request.headers.items()
    ]
    host = request.get_host()  # Django refuses a host that is not in ALLOWED_HOSTS, and knows the one that a proxy passes on
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": f"{root}/{path}",
        "raw_path": f"{root}/{path}".encode(),
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1", "replace"),
        "root_path": root,
        "headers": [*((name, value) for name, value in headers if name != b"host"), (b"host", host.encode("latin-1"))],
        "client": (request.META.get("REMOTE_ADDR") or "", 0),
        "server": None,
    }


async def answered(app: ASGIApp, scope: dict[str, Any], body: bytes) -> HttpResponse:
    """Return the answer of an application; one that is a stream goes on as Django reads it."""
    sent: asyncio.Queue[Message] = asyncio.Queue(1)
    asked = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if asked:
            return asked.pop()
        await asyncio.get_running_loop().create_future()  # the task is cancelled when the client has gone
        raise AssertionError("a future that has no result has ended")

    running = asyncio.ensure_future(app(scope, receive, sent.put))
    begun = await _next(sent, running)
    if dict(begun["headers"]).get(b"content-type", b"").startswith(STREAM):
        answer: HttpResponse = StreamingHttpResponse(_parts(sent, running), status=begun["status"])
    else:
        answer = HttpResponse(b"".join([part async for part in _parts(sent, running)]), status=begun["status"])
    del answer.headers["Content-Type"]
    for name, value in begun["headers"]:
        if name == b"set-cookie":
            answer.cookies.load(value.decode("latin-1"))
        else:
            answer.headers[name.decode("latin-1")] = value.decode("latin-1")
    return answer


async def _parts(sent: "asyncio.Queue[Message]", running: "asyncio.Future[None]") -> AsyncIterator[bytes]:
    try:
        is_open = True
        while is_open:
            message = await _next(sent, running)
            is_open = message.get("more_body", False)
            yield message.get("body", b"")
    finally:
        if is_open:
            running.cancel()


async def _next(sent: "asyncio.Queue[Message]", running: "asyncio.Future[None]") -> Message:
    """Return the next message. An application that fails before it raises its error here."""
    waiting = asyncio.ensure_future(sent.get())
    both: set[asyncio.Future[Any]] = {waiting, running}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        running.result()
        raise RuntimeError("the application ended without an answer")
    return waiting.result()

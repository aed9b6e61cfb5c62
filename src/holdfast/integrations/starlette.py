"""``holdfast.integrations.starlette``: the App's lifespan, and the progress of a job as server-sent events, for FastAPI and Starlette."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec

from holdfast._core.durations import Duration
from holdfast._core.view import JobView
from holdfast.app import App
from holdfast.errors import JobNotFound, MissingExtra

try:
    from starlette.responses import StreamingResponse
except ModuleNotFoundError as missing:
    raise MissingExtra(missing.name or "starlette", "dashboard") from missing

SHOWN = ("id", "task", "state", "stage", "fraction", "message", "attempt", "max_attempts", "rescued", "rescued_at")
LONGEST = 15.0
"""Seconds after which an answer ends."""
AGAIN = 300
"""Milliseconds after which the browser then connects again."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def lifespan(app: App, *, worker: bool = False, concurrency: int = 10) -> Callable[[object], AbstractAsyncContextManager[None]]:
    """Return a lifespan that closes the App at the end, and with ``worker`` runs its jobs in the event loop of the web server.

    >>> web = FastAPI(lifespan=lifespan(app))  # doctest: +SKIP
    """

    @asynccontextmanager
    async def span(_: object) -> AsyncIterator[None]:
        try:
            if worker:
                async with app.worker(concurrency=concurrency):
                    yield
            else:
                yield
        finally:
            await app.aclose()

    return span


async def progress_response(
    app: App, id: UUID | str, *, every: Duration = "1s", show: Callable[[JobView], Mapping[str, Any]] | None = None
) -> StreamingResponse:
    """Return the progress of a job as server-sent events: ``progress`` after each change, and ``end`` with the last one.

    ``show``: which fields visitors see, instead of ``SHOWN``, which has no payload and no result. The answer ends after ``LONGEST``
    seconds, because a server that stops waits for it, and the browser connects again. So the page must close its ``EventSource`` at
    ``end``. Raises ``JobNotFound``.

    >>> @web.get("/jobs/{id}/progress")  # doctest: +SKIP
    ... async def progress(id: UUID): return await progress_response(app, id)
    """
    views = app.jobs.afollow(id, every)
    await app.jobs.aget(id)
    return StreamingResponse(_lines(views, show or _shown), media_type="text/event-stream", headers=_HEADERS)


async def _lines(views: AsyncGenerator[JobView, None], show: Callable[[JobView], Mapping[str, Any]]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    until = loop.time() + LONGEST
    yield b"retry: %d\n\n" % AGAIN
    async with aclosing(views):
        while view := await _next(views, until - loop.time()):
            name = b"progress" if isinstance(view, JobView) and view.finished_at is None else b"end"
            shown = None if isinstance(view, JobNotFound) else show(view)
            yield b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(shown))
            if name == b"end":
                return


async def _next(views: AsyncGenerator[JobView, None], seconds: float) -> JobView | JobNotFound | None:
    """Return the next view, or that the job was deleted; None once the time is over."""
    waiting = asyncio.ensure_future(anext(views))
    try:
        await asyncio.wait({waiting}, timeout=seconds)
        return await waiting if waiting.done() else None
    except JobNotFound as error:
        return error
    finally:
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})


def _shown(view: JobView) -> Mapping[str, Any]:
    return {name: getattr(view, name) for name in SHOWN}

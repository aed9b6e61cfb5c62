"""``holdfast.integrations.starlette``: the App's lifespan, and the progress of a job as server-sent events, for FastAPI and Starlette."""

from collections.abc import AsyncIterator, Callable, Mapping
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

    ``show``: which fields visitors see, instead of ``SHOWN``, which has no payload and no result. The page must close its
    ``EventSource`` at ``end``, or the browser connects again. Raises ``JobNotFound``.

    >>> @web.get("/jobs/{id}/progress")  # doctest: +SKIP
    ... async def progress(id: UUID): return await progress_response(app, id)
    """
    await app.jobs.aget(id)
    return StreamingResponse(_lines(app, id, every, show or _shown), media_type="text/event-stream", headers=_HEADERS)


async def _lines(app: App, id: UUID | str, every: Duration, show: Callable[[JobView], Mapping[str, Any]]) -> AsyncIterator[bytes]:
    async with aclosing(app.jobs.afollow(id, every)) as views:
        try:
            async for view in views:
                name = "progress" if view.finished_at is None else "end"
                yield b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(show(view)))
        except JobNotFound:  # it was deleted
            yield b"event: end\ndata: null\n\n"


def _shown(view: JobView) -> Mapping[str, Any]:
    return {name: getattr(view, name) for name in SHOWN}

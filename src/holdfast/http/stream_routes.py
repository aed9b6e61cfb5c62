"""The two calls that answer with server-sent events: what changed anywhere, and what changed about one job."""

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from holdfast._engine.client.handle import id_of
from holdfast.errors import HoldfastError
from holdfast.http.access import Access, target_of
from holdfast.http.api import Endpoint, refused
from holdfast.http.openapi import PREFIX
from holdfast.http.permissions import Action
from holdfast.http.problems import ApiError, problem_of
from holdfast.http.stream import MOST_VIEWERS, TOPICS, Stream, Viewer

_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


def stream_routes(
    access: Access,
    stream: Stream,
    exists: Callable[[UUID], Awaitable[object]],
    wrapped: Callable[[Endpoint], Endpoint] = lambda endpoint: endpoint,
) -> list[Route]:
    """Return the routes. ``exists`` raises ``JobNotFound`` for a job that there is not; ``wrapped`` limits the requests."""

    def admitted(viewer_of: Callable[[Request], Awaitable[Viewer]]) -> Endpoint:
        async def answer(request: Request) -> Response:
            try:
                access.require(access.identity(request), Action.READ, target_of(request))
                viewer = await viewer_of(request)
                if stream.viewers >= MOST_VIEWERS:
                    raise ApiError(503, "overloaded", f"{MOST_VIEWERS} viewers are connected", "read the page again instead")
            except (ApiError, HoldfastError) as error:
                return refused(problem_of(error))
            lines = stream.read(viewer, request.headers.get("last-event-id"))
            return StreamingResponse(lines, media_type="text/event-stream", headers=_HEADERS)

        return wrapped(answer)

    async def anywhere(request: Request) -> Viewer:
        topics = [each for each in request.query_params.get("topics", ",".join(TOPICS)).split(",") if each]
        if unknown := sorted(set(topics) - set(TOPICS)):
            raise ApiError(422, "invalid", f"topics: {unknown[0]!r} is not one of them", f"use {', '.join(TOPICS)}")
        return Viewer(topics)

    async def about_job(request: Request) -> Viewer:
        job = id_of(request.path_params["id"])
        await exists(job)
        return Viewer(["job"], job)

    return [
        Route(f"{PREFIX}/events", admitted(anywhere), methods=["GET"]),
        Route(f"{PREFIX}/jobs/{{id}}/events", admitted(about_job), methods=["GET"]),
    ]

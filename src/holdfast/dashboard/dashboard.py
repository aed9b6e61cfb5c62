"""The dashboard as an ASGI app: the guard, the routes, and the page for a store that does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Final

from holdfast._core.durations import in_words
from holdfast.app import App, environment_of
from holdfast.dashboard.views import lists
from holdfast.dashboard.views.audit import audit
from holdfast.dashboard.views.job import job
from holdfast.dashboard.views.jobs import jobs
from holdfast.dashboard.views.overview import overview
from holdfast.dashboard.views.page import Asked, Page
from holdfast.dashboard.views.workflows import picture, workflow, workflows
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    JobNotFound,
    MissingExtra,
    StoreUnavailable,
    Unsupported,
)
from holdfast.http.guard import refusal
from holdfast.settings import public_url

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from starlette.types import Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra(error.name or "starlette", "dashboard") from None

READ_TIMEOUT: Final = 5.0
"""Seconds for which a page waits for the store."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PICTURE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
SECTIONS: Final = (
    ("/", "Overview", "overview"),
    ("/jobs", "Jobs", "jobs"),
    ("/errors", "Errors", "failed"),
    ("/queues", "Queues", "queues"),
    ("/workers", "Workers", "workers"),
    ("/schedules", "Schedules", "scheduled"),
    ("/workflows", "Workflows", "workflows"),
    ("/rows", "Rows", "queues"),
    ("/limits", "Limits", "limits"),
    ("/audit", "Audit", "audit"),
    ("/check", "Check", "check"),
)
VIEWS: Final[Sequence[tuple[str, Callable[[Asked], Awaitable[Page]]]]] = (
    ("/", overview),
    ("/jobs", jobs),
    ("/jobs/{id}", job),
    ("/errors", lists.errors),
    ("/queues", lists.queues),
    ("/workers", lists.workers),
    ("/schedules", lists.schedules),
    ("/workflows", workflows),
    ("/workflows/{id}", workflow),
    ("/rows", lists.rows),
    ("/limits", lists.limits),
    ("/audit", audit),
    ("/check", lists.check),
)
FILES: Final = {"style.css": "text/css", "holdfast.js": "text/javascript"}


class Dashboard:
    """Pages that show what is in the store of an App, as an ASGI app: it changes nothing, and answers this machine only.

    >>> from starlette.applications import Starlette
    >>> from starlette.routing import Mount
    >>> web = Starlette(routes=[Mount("/jobs", Dashboard(App("memory://")))])
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._store = public_url(app.settings.url)
        self._away_since: datetime | None = None
        self._templates = Environment(loader=PackageLoader("holdfast.dashboard"), autoescape=True, undefined=StrictUndefined)
        routes = [Route(path, self._answer(view)) for path, view in VIEWS]
        files = [Route("/static/{name}", _file), Route("/workflows/{id}/picture.svg", self._picture)]
        self._pages = Starlette(routes=[*files, *routes], exception_handlers={HTTPException: self._unknown})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one from elsewhere gets the reason for its refusal."""
        if scope["type"] != "http":
            await self._pages(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        client = scope.get("client")
        why = refusal(client[0] if client else None, scope["headers"])
        if why is not None:
            text = f"The dashboard did not answer this request. {why}\n"
            await PlainTextResponse(text, 403)(scope, receive, send_guarded)
        else:
            await self._pages(scope, receive, send_guarded)

    def _answer(self, view: Callable[[Asked], Awaitable[Page]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return self._rendered(request, await self._read(self._asked(request), view))

        return answer

    def _asked(self, request: Request) -> Asked:
        query = {name: value.strip() for name, value in request.query_params.items() if value.strip()}
        return Asked(app=self._app, now=self._now(), query=query, id=request.path_params.get("id", ""))

    async def _read(self, asked: Asked, view: Callable[[Asked], Awaitable[Page]]) -> Page:
        """Return the page, or one with the reason why there is none."""
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                page = await view(asked)
        except JobNotFound:
            remedy = "It never existed, or it was pruned: finished jobs are kept for the retention of their task."
            return _message("No job has this id", f"The store has no job {asked.id}.", remedy, status=404)
        except (TimeoutError, StoreUnavailable) as error:
            return self._away(error)
        except ConfigurationError as error:
            return _message("This page cannot be shown", " · ".join(error.problems), "Correct the address.", status=400)
        except Unsupported as error:
            return _message("This store cannot show it", str(error), status=501)
        except HoldfastError as error:
            return _message("The store cannot be read", str(error), "Run: holdfast check", status=503)
        self._away_since = None
        return page

    def _away(self, error: Exception) -> Page:
        self._away_since = since = self._away_since or self._now()
        gone = f"It has not answered since {since:%Y-%m-%d %H:%M:%S}Z, for {in_words((self._now() - since).total_seconds())}"
        why = str(error) or f"no answer within {READ_TIMEOUT:.0f} s"
        text = f"{gone}: {why.rstrip('.')}."
        return _message("The store does not answer", text, "Jobs are safe in it. Check that it runs, and load this page again.")

    async def _picture(self, request: Request) -> Response:
        async def view(asked: Asked) -> Page:
            return Page(template="", title=await picture(asked))

        page = await self._read(self._asked(request), view)
        if page.template:
            return self._rendered(request, page)
        return Response(page.title, media_type="image/svg+xml", headers={"content-security-policy": PICTURE_POLICY})

    def _rendered(self, request: Request, page: Page) -> Response:
        common = {"root": request.scope.get("root_path", "").rstrip("/"), "sections": SECTIONS, "store": self._store}
        template = self._templates.get_template(page.template)
        html = template.render(**common, title=page.title, section=page.section, **page.values)
        return HTMLResponse(html, page.status, {"retry-after": "5"} if page.status == 503 else None)

    async def _unknown(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status != 404:
            return PlainTextResponse("The dashboard only reads: use GET.\n", status, {"allow": "GET, HEAD"})
        return self._rendered(
            request, _message("There is no such page", f"The dashboard has no page {request.url.path}.", status=404)
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(environment_of(self._app).clock.wall(), UTC)


def _message(title: str, text: str, remedy: str = "", *, status: int = 503) -> Page:
    glyph, family = ("silent", "failed") if status == 503 else ("blocked", "waiting")
    values = {"text": text, "remedy": remedy, "glyph": glyph, "family": family}
    return Page(template="message.html", title=title, values=values, status=status)


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in FILES:
        raise HTTPException(404)
    content = resources.files("holdfast.dashboard").joinpath("static", name).read_text("utf-8")
    return Response(content, media_type=FILES[name])

"""The dashboard as an ASGI app: the guard, the routes, and the page for a store that does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Final
from urllib.parse import quote

from msgspec import structs

from holdfast._core.durations import in_words
from holdfast._system.clock import SystemRandomness
from holdfast.app import App, environment_of
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    JobNotFound,
    MissingExtra,
    StoreUnavailable,
    Unsupported,
)
from holdfast.settings import public_url

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route
    from starlette.types import Message, Receive, Scope, Send

    from holdfast.dashboard.acting import Acting, Wanted, form_of
    from holdfast.dashboard.selecting import fields
    from holdfast.dashboard.shared_readings import SharedReadings
    from holdfast.dashboard.views import lists, one
    from holdfast.dashboard.views.audit import audit
    from holdfast.dashboard.views.job import gone, job
    from holdfast.dashboard.views.jobs import jobs
    from holdfast.dashboard.views.overview import overview
    from holdfast.dashboard.views.page import Asked, Page, message
    from holdfast.dashboard.views.worker import worker
    from holdfast.dashboard.views.workflows import picture, workflow, workflows
    from holdfast.http.access import SENDER, Access, target_of
    from holdfast.http.api import Api, of_route
    from holdfast.http.compression import Compressed
    from holdfast.http.denials import Denials
    from holdfast.http.guard import refusal
    from holdfast.http.health import health
    from holdfast.http.identity import Authenticate, Identity
    from holdfast.http.managed import Managed
    from holdfast.http.management import management, operations_of
    from holdfast.http.openapi import PREFIX
    from holdfast.http.operations import Operations
    from holdfast.http.permissions import Action, Authorize
    from holdfast.http.problems import ApiError, Problem
    from holdfast.http.redact import Redact, no_more
    from holdfast.http.sessions import Sessions
    from holdfast.http.stream import Stream
    from holdfast.http.stream_routes import stream_routes
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
    ("/errors/{id}", one.error),
    ("/queues", lists.queues),
    ("/queues/{id}", one.queue),
    ("/workers", lists.workers),
    ("/workers/{id}", worker),
    ("/schedules", lists.schedules),
    ("/schedules/{id}", one.schedule),
    ("/workflows", workflows),
    ("/workflows/{id}", workflow),
    ("/rows", lists.rows),
    ("/limits", lists.limits),
    ("/audit", audit),
    ("/check", lists.check),
)
Answer = Callable[[Request, Identity], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]
_LIVE: Final = "x-holdfast-live"
"""The header of a page that renews itself."""
FILES: Final = {"style.css": "text/css", "holdfast.js": "text/javascript", "idiomorph.js": "text/javascript"}
THEMES: Final = (("auto", ""), ("light", "light"), ("dark", "dark"))
_THEME: Final = "holdfast_theme"
_YEAR: Final = 365 * 86_400


class Dashboard:
    """Pages that show what is in the store of an App, and the API below ``/api/v1``, as an ASGI app.

    As it is, it changes nothing and answers this machine only. ``authenticate``: a function of the request that returns an ``Identity``
    or None; then it answers every sender that this function knows, by its roles. ``authorize``: a function of the identity, the action and
    the path of what it is about, which may refuse more. ``actions``: people may act, by role. ``redact``: a function of the task, the path
    of a value and the value, which returns what is shown of it. ``title``: what the pages are called.

    >>> from starlette.applications import Starlette
    >>> from starlette.routing import Mount
    >>> web = Starlette(routes=[Mount("/jobs", Dashboard(App("memory://")))])
    """

    def __init__(
        self,
        app: App,
        *,
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        actions: bool = False,
        redact: Redact | None = None,
        title: str = "Holdfast",
    ) -> None:
        self._app, self._title, self._authenticate = app, title, authenticate
        self._store = public_url(app.settings.url)
        self._away_since: datetime | None = None
        self._templates = Environment(loader=PackageLoader("holdfast.dashboard"), autoescape=True, undefined=StrictUndefined)
        self._sessions = Sessions(app.settings.url, SystemRandomness())
        self._access = Access(authenticate, authorize=authorize, is_read_only=not actions, sessions=self._sessions)
        self._managed = Managed.of_app(app, redact or no_more)
        self._denials, self._api_denials = (
            Denials(lambda: environment_of(app), self._access, via) for via in ("dashboard", "api")
        )
        operations, epoch = operations_of(self._managed), SystemRandomness().uuid4().hex[:12]
        self._stream = Stream(lambda: self._managed.client, lambda: environment_of(app).clock, epoch)
        self._readings = SharedReadings(lambda: environment_of(app).clock, lambda: self._stream.changes)
        self._acting = Acting(self._managed, operations)
        self._pages = Starlette(routes=self._routes(operations), exception_handlers={HTTPException: self._unknown})
        self._answers = Compressed(self._pages, _has_form)

    def stop(self) -> None:
        """End the connections over which pages follow changes, so that the server can stop."""
        self._stream.close()

    def _routes(self, operations: Operations) -> list[Route]:
        return [
            Route("/static/{name}", _file),
            Route("/workflows/{id}/picture.svg", self._admitted(self._picture)),
            Route("/enter", self._enter),
            Route("/theme/{name}", self._admitted(self._choose_theme)),
            Route("/operations/{id}", self._admitted(self._progress)),
            Route("/actions/{kind}/{action}", self._admitted(self._confirm), methods=["GET"]),
            Route("/actions/{kind}/{action}", self._admitted(self._perform), methods=["POST"]),
            *stream_routes(self._access, self._stream, self._managed.record),
            *health(lambda: environment_of(self._app).store),
            *Api(management(self._managed, operations), self._access, self._api_denials).routes(),
            *(Route(path, self._admitted(self._answer(view))) for path, view in VIEWS),
        ]

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
        why = refusal(client[0] if client else None, scope["headers"]) if self._access.is_local else None
        if why is not None:
            text = f"The dashboard did not answer this request. {why}\n"
            await PlainTextResponse(text, 403)(scope, receive, send_guarded)
        else:
            await self._answers(scope, receive, send_guarded)

    def _admitted(self, answer: Answer) -> Endpoint:
        """Have a request answered if its sender is known, and may read the page."""

        async def admit(request: Request) -> Response:
            try:
                identity = self._access.identity(request)
                self._access.require(identity, Action.READ, target_of(request))
                return await answer(request, identity)
            except ApiError as error:
                await self._denials.note(request, error.problem, request.path_params.get("action", Action.READ))
                return self._refused(request, error.problem)

        return admit

    def _answer(self, view: Callable[[Asked], Awaitable[Page]]) -> Answer:
        async def answer(request: Request, identity: Identity) -> Response:
            asked = self._asked(request, identity)
            shared = self._shared(asked, view) if _LIVE in request.headers else self._read(asked, view)
            page = await shared
            return RedirectResponse(_root(request) + page.moved_to, 303) if page.moved_to else self._rendered(request, page)

        return answer

    def _shared(self, asked: Asked, view: Callable[[Asked], Awaitable[Page]]) -> "asyncio.Future[Page]":
        """Return a page that renews itself: all viewers who see the same share what is read of the store."""
        key = (asyncio.get_running_loop(), view, tuple(sorted(asked.query.items())), asked.id, asked.may)
        return self._readings.of(key, lambda: self._read(structs.replace(asked, now=self._now()), view))

    def _asked(self, request: Request, identity: Identity) -> Asked:
        query = {name: value.strip() for name, value in request.query_params.items() if value.strip()}
        may = self._access.may(identity, target_of(request))
        id, redact = request.path_params.get("id", ""), self._managed.redact
        is_live = _LIVE in request.headers
        counted = self._stream.queues if is_live else self._stream.counted
        return Asked(app=self._app, now=self._now(), query=query, id=id, may=may, redact=redact, counted=counted, is_live=is_live)

    async def _enter(self, request: Request) -> Response:
        """Give the browser that opens the link of ``holdfast dashboard --actions`` its session."""
        enter = getattr(self._authenticate, "enter", None)
        is_opened = request.method == "GET"  # programs that preview links send HEAD, and would use it up
        session = None if enter is None or not is_opened else enter(request.query_params.get("token", ""))
        if session is None:
            return PlainTextResponse("This link was opened before, or belongs to another run: start the dashboard again.\n", 403)
        answer = RedirectResponse(_root(request) + "/", 303)
        self._sessions.keep(request, session, answer)
        return answer

    async def _choose_theme(self, request: Request, _: Identity) -> Response:
        """Remember the colours in the browser: the server sends them with each page, so that none flashes in others."""
        back, name = request.query_params.get("back", "/"), dict(THEMES).get(request.path_params["name"])
        is_path = back.startswith("/") and not back.startswith(("//", "/\\"))
        answer = RedirectResponse(_root(request) + (back if is_path else "/"), 303)
        path, is_secure = quote(_root(request)) or "/", request.url.scheme == "https"
        answer.set_cookie(_THEME, name or "", _YEAR if name else 0, path=path, httponly=True, samesite="strict", secure=is_secure)
        return answer

    def _wanted(self, request: Request, identity: Identity, given: Mapping[str, str]) -> Wanted:
        """Return the action that a request is about. Raises ``ApiError`` for one that its sender may not take."""
        path = request.path_params
        wanted = Wanted(path["kind"], path["action"], given, identity, self._access.may(identity, "/jobs"))
        for target in wanted.targets:
            self._access.require(identity, wanted.action, target)
        if self._access.is_read_only:
            self._access.require_change(request)
        return wanted

    async def _confirm(self, request: Request, identity: Identity) -> Response:
        async def view(_: Asked) -> Page:
            return await self._acting.confirmation(self._wanted(request, identity, fields(request.query_params.multi_items())))

        return self._rendered(request, await self._read(self._asked(request, identity), view))

    async def _perform(self, request: Request, identity: Identity) -> Response:
        given = await form_of(request)
        path = ""

        async def view(_: Asked) -> Page:
            nonlocal path
            wanted = self._wanted(request, identity, given)
            self._access.require_change(request, given.get("token", ""))
            done = await self._acting.perform(wanted)
            path = done if isinstance(done, str) else ""
            return Page(template="", title="") if isinstance(done, str) else done

        page = await self._read(self._asked(request, identity), view, within=None)
        self._readings.clear()
        self._stream.forget_count()
        return self._rendered(request, page) if page.template else RedirectResponse(_root(request) + path, 303)

    async def _progress(self, request: Request, identity: Identity) -> Response:
        return self._rendered(
            request, self._acting.progress(request.path_params["id"], self._access.may(identity, target_of(request)))
        )

    async def _read(self, asked: Asked, view: Callable[[Asked], Awaitable[Page]], within: float | None = READ_TIMEOUT) -> Page:
        """Return the page, or one with the reason why there is none. ``within``: the seconds for it."""
        try:
            async with asyncio.timeout(within):
                page = await view(asked)
        except JobNotFound:
            return gone(asked)
        except (TimeoutError, StoreUnavailable) as error:
            return self._away(error)
        except ConfigurationError as error:
            return message("This page cannot be shown", " · ".join(error.problems), "Correct the address.", status=400)
        except Unsupported as error:
            return message("This store cannot show it", str(error), status=501)
        except HoldfastError as error:
            return message("The store cannot be read", str(error), "Run: holdfast check", status=503)
        self._away_since = None
        return page

    def _away(self, error: Exception) -> Page:
        self._away_since = since = self._away_since or self._now()
        gone = f"It has not answered since {since:%Y-%m-%d %H:%M:%S}Z, for {in_words((self._now() - since).total_seconds())}"
        why = str(error) or f"no answer within {READ_TIMEOUT:.0f} s"
        text = f"{gone}: {why.rstrip('.')}."
        return message("The store does not answer", text, "Jobs are safe in it. Check that it runs, and load this page again.")

    async def _picture(self, request: Request, identity: Identity) -> Response:
        async def view(asked: Asked) -> Page:
            return Page(template="", title=await picture(asked))

        page = await self._read(self._asked(request, identity), view)
        if page.template:
            return self._rendered(request, page)
        return Response(page.title, media_type="image/svg+xml", headers={"content-security-policy": PICTURE_POLICY})

    def _rendered(self, request: Request, page: Page) -> Response:
        session = (self._sessions.of(request) or self._sessions.new()) if page.has_form else ""
        common = {
            "root": _root(request),
            "sections": SECTIONS,
            "store": self._store,
            "brand": self._title,
            "mode": "read-only" if self._access.is_read_only else "actions on",
            "theme": theme if (theme := request.cookies.get(_THEME, "")) in dict(THEMES).values() else "",
            "themes": THEMES,
            "here": _here(request),
            "token": self._sessions.token(session) if session else "",
        }
        template = self._templates.get_template(page.template)
        html = template.render(**common, title=page.title, section=page.section, **page.values)
        answer = HTMLResponse(html, page.status, {"retry-after": "5"} if page.status == 503 else None)
        if session and session != self._sessions.of(request):
            self._sessions.keep(request, session, answer)
        return answer

    def _refused(self, request: Request, problem: Problem) -> Response:
        if problem.status == 403 and SENDER in request.scope:
            why = f"The dashboard did not answer this request: {problem.detail}."
            return self._rendered(request, message("You may not do this", why, f"{problem.remedy.capitalize()}.", status=403))
        text = f"The dashboard did not answer this request: {problem.detail}. {problem.remedy.capitalize()}.\n"
        if problem.status == 401 and hasattr(self._authenticate, "enter"):
            text = "Open the link that `holdfast dashboard` printed: it is good for one browser.\n"
        headers = {"www-authenticate": self._access.challenge} if problem.status == 401 else None
        return PlainTextResponse(text, problem.status, headers)

    async def _unknown(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if request.url.path.startswith(f"{_root(request)}{PREFIX}/"):
            return await of_route(request, error)
        if status != 404:
            return PlainTextResponse("Pages are only read: use GET.\n", status, {"allow": "GET, HEAD"})
        return self._rendered(
            request, message("There is no such page", f"The dashboard has no page {request.url.path}.", status=404)
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(environment_of(self._app).clock.wall(), UTC)


def _here(request: Request) -> str:
    """Return the path of a page below the dashboard, with its query; of one that a form has asked for, the overview."""
    path = str(request.scope["path"]).removeprefix(_root(request))
    return (
        f"{path}?{request.url.query}"
        if request.method == "GET" and request.url.query
        else path
        if request.method == "GET"
        else "/"
    )


def _has_form(path: str) -> bool:
    return path.startswith(("/actions/", "/operations/", "/enqueue"))


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in FILES:
        raise HTTPException(404)
    content = resources.files("holdfast.dashboard").joinpath("static", name).read_text("utf-8")
    return Response(content, media_type=FILES[name])

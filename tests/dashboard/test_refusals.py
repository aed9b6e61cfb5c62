"""Each change that the dashboard and its API can make is refused unless its sender may make it. The list is that of the routes."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from functools import cache
from typing import NamedTuple, cast
from uuid import UUID

import msgspec
import pytest
from starlette.requests import Request
from starlette.routing import Route

from holdfast import App
from holdfast._system.clock import SystemClock
from holdfast.dashboard import Dashboard, Identity
from holdfast.dashboard.actions import EFFECTS
from holdfast.http.api import asked
from holdfast.http.job_resources import ItemQuery
from holdfast.http.managed import Managed
from holdfast.http.management import management
from holdfast.http.permissions import ROLES, Action
from tests.dashboard.browser import OWN, Reply, ask

Headers = tuple[tuple[bytes, bytes], ...]
FORM = (b"content-type", b"application/x-www-form-urlencoded")
JSON = (b"content-type", b"application/json")
SAME: Headers = ((b"origin", b"http://localhost:8400"), (b"sec-fetch-site", b"same-origin"))
JOB = str(UUID(int=1))


class Change(NamedTuple):
    """A change, and whether a form or a program sends it."""

    method: str
    path: str
    action: Action
    is_form: bool


def _of_routes() -> list[Change]:
    """Return every route of the dashboard that takes another method than GET."""
    dashboard, found = Dashboard(App("memory://"), actions=True), list[Change]()
    calls = {(each.method, "/api/v1" + each.path): each.action for each in management(Managed.of_app(App("memory://")))}
    for route in dashboard._pages.routes:
        assert isinstance(route, Route)
        for method in (route.methods or set()) - {"GET", "HEAD"}:
            if (method, route.path) in calls:
                path = route.path.replace("{id}", JOB).replace("{name}", "x").replace("{scope}", "queue")
                found.append(Change(method, path, calls[method, route.path], is_form=False))
            else:
                assert route.path == "/actions/{kind}/{action}"
                found += [Change("POST", f"/actions/{kind}/{action}", action, is_form=True) for kind, action in EFFECTS]
    return found


CHANGES = _of_routes()


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def _send(dashboard: Dashboard, change: Change, *headers: tuple[bytes, bytes], peer: str = "127.0.0.1", token: str = "") -> Reply:
    body = f"name={JOB}&token={token}" if change.is_form else json.dumps(_BODIES.get(change.path, {}))
    given = (*(() if any(name == b"host" for name, _ in headers) else (OWN,)), FORM if change.is_form else JSON, *headers)
    given += ((b"content-length", str(len(body)).encode()),)
    return asyncio.run(ask(dashboard, change.path, method=change.method, headers=given, peer=peer, body=body.encode()))


_BODIES = {"/api/v1/jobs": {"task": "t"}, "/api/v1/jobs/actions": {"action": "cancel", "selector": {"all": True}}}


@cache
def _open(*, actions: bool) -> Dashboard:
    return Dashboard(App("memory://"), actions=actions)


@cache
def _as(*roles: str) -> Dashboard:
    return Dashboard(App("memory://"), authenticate=lambda _: Identity("anna", roles) if roles else None, actions=True)


def test_the_routes_have_every_kind_of_change() -> None:
    assert {change.action for change in CHANGES} >= {*ROLES} - {Action.READ_PAYLOAD}
    assert len(CHANGES) > 30


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.method} {change.path}")
def test_a_change_is_refused(change: Change) -> None:
    acting = _open(actions=True)
    read_only = _send(_open(actions=False), change, *SAME)
    assert read_only.status == 403
    assert "only reads here" in read_only.body
    # from elsewhere, by another name, through a proxy
    assert _send(acting, change, peer="10.0.0.7").status == 403
    assert _send(acting, change, (b"host", b"evil.example")).status == 403
    assert _send(acting, change, (b"x-forwarded-for", b"10.0.0.7")).status == 403
    # by a page of another site, or without the token of its session
    for headers in (((b"origin", b"https://evil.example"),), ((b"origin", b"null"),), ((b"sec-fetch-site", b"cross-site"),)):
        foreign = _send(acting, change, *headers)
        assert foreign.status == 403
        assert "It comes from" in foreign.body or "another site" in foreign.body
    for token in ("", "0" * 64):
        without = _send(acting, change, *SAME, (b"cookie", b"holdfast_session=" + b"a" * 64), token=token)
        assert without.status == 403
        assert "token of its session" in without.body
    # by an unknown sender, and by a role that may not
    unknown = _send(_as(), change, *SAME)
    assert unknown.status == 401
    assert unknown.headers["www-authenticate"]
    for roles in (("viewer",), ("worker",)) if change.path.endswith("/jobs/actions") else _too_low(change):
        refused = _send(_as(*roles), change, *SAME)
        assert (refused.status, "may not" in refused.body) == (403, True), roles


def _too_low(change: Change) -> list[tuple[str, ...]]:
    lower = [("viewer",), ("worker",), ("producer",), ("operator",)]
    return [role for role in lower if not ROLES[change.action].intersection(role)]


def test_authorize_may_refuse_what_the_role_allows() -> None:
    questions = list[tuple[str, str]]()

    def authorize(identity: Identity, action: str, target: str) -> bool:
        questions.append((action, target))
        return action == "read"

    dashboard = Dashboard(App("memory://"), authenticate=lambda _: Identity("anna", ["admin"]), authorize=authorize, actions=True)
    for change in CHANGES:
        if change.action is not Action.READ and not change.is_form:
            assert _send(dashboard, change).status == 403
            assert questions[-1] == (change.action, change.path.removeprefix("/api/v1"))


def test_a_program_needs_no_token_and_a_page_of_this_address_has_one(app: App) -> None:
    dashboard = Dashboard(app, actions=True)
    change = next(each for each in CHANGES if each.path == "/api/v1/jobs")
    assert _send(dashboard, change).status == 201
    session = "a" * 64
    token = dashboard._sessions.token(session).encode()
    cookie = (b"cookie", b"holdfast_session=" + session.encode())
    assert _send(dashboard, change, *SAME, cookie, (b"x-holdfast-token", token)).status == 201
    assert _send(dashboard, change, *SAME, (b"x-holdfast-token", token)).status == 403


def test_every_page_is_refused_without_identity(app: App) -> None:
    known: list[Request] = []

    def authenticate(request: Request) -> None:
        known.append(request)

    dashboard = Dashboard(app, authenticate=authenticate)
    open_ones = {"/static/{name}", "/enter", "/api/v1/health/live", "/api/v1/health/ready", "/api/v1/openapi.json"}
    for route in dashboard._pages.routes:
        assert isinstance(route, Route)
        if "GET" in (route.methods or ()) and route.path not in open_ones:
            reply = asyncio.run(ask(dashboard, route.path.replace("{", "").replace("}", "")))
            assert reply.status == 401, route.path


def test_without_the_right_no_list_and_no_action_looks_into_messages_of_errors() -> None:
    def authorize(_: Identity, action: str, target: str) -> bool:
        return action != "payload.read"

    dashboard = Dashboard(App("memory://"), authenticate=lambda _: Identity("anna", ["admin"]), authorize=authorize, actions=True)
    by_text = "state=failed&text=hunter2&up_to=2030-01-01T00:00:00Z"
    for path in ("/jobs?text=hunter2", "/api/v1/jobs?text=hunter2", f"/actions/jobs/retry?{by_text}"):
        refused = asyncio.run(ask(dashboard, path))
        assert (refused.status, "text looks into the messages" in refused.body) == (403, True), path
        assert asyncio.run(ask(dashboard, path.replace("text=", "task="))).status == 200
    for is_dry in (True, False):
        body = json.dumps({"action": "retry", "selector": {"state": "failed", "text": "hunter2"}, "dry_run": is_dry}).encode()
        headers = (OWN, JSON, (b"content-length", b"%d" % len(body)))
        assert asyncio.run(ask(dashboard, "/api/v1/jobs/actions", method="POST", headers=headers, body=body)).status == 403
    assert 'name="text"' not in asyncio.run(ask(dashboard, "/jobs")).body


@pytest.mark.parametrize("root", ["", "/jobs", "/tools/api/v1"])
def test_authorize_is_asked_about_the_path_below_where_it_is_mounted(root: str) -> None:
    targets = list[str]()

    def authorize(_: Identity, action: str, target: str) -> bool:
        targets.append(target)
        return False

    dashboard = Dashboard(App("memory://"), authenticate=lambda _: Identity("anna", ["admin"]), authorize=authorize, actions=True)
    for path in ("/api/v1/queues/mail?x", "/api/v1/queues/caf\N{LATIN SMALL LETTER E WITH ACUTE}", "/queues"):
        asyncio.run(ask(dashboard, path, root=root))
    assert targets == ["/queues/mail", "/queues/caf\N{LATIN SMALL LETTER E WITH ACUTE}", "/queues"]


def test_an_authorize_that_has_to_be_awaited_allows_nothing() -> None:
    answers = list[Coroutine[None, None, bool]]()

    async def later() -> bool:
        return False

    def authorize(*_: object) -> bool:
        answers.append(later())
        return cast(bool, answers[-1])

    dashboard = Dashboard(App("memory://"), authenticate=lambda _: Identity("anna", ["admin"]), authorize=authorize, actions=True)
    statuses = [asyncio.run(ask(dashboard, path)).status for path in ("/", "/api/v1/jobs")]
    for each in answers:
        each.close()
    assert statuses == [403, 403]


def test_a_query_with_many_names_is_read_at_once() -> None:
    clock = SystemClock()
    began = clock.monotonic()
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        asked(ItemQuery, [(f"name{number}", "") for number in range(20_000)])
    assert clock.monotonic() - began < 3.0

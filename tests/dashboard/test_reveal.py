"""The secret of the canary: no page and no call shows it but *Reveal*, and that is recorded."""

import asyncio
import json
from collections.abc import Iterator
from uuid import UUID

import pytest
from starlette.routing import Route

from holdfast import App, Job
from holdfast.dashboard import Dashboard, Identity
from tests.dashboard.browser import OWN, Elements, Reply, ask, get
from tests.dashboard.test_actions import Person
from tests.dashboard.test_refusals import JSON

SECRET = "hunter22"


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def _canary(app: App) -> UUID:
    """Leave a failed job with the secret in its payload, its checkpoint, its error and its headers; return its id."""

    @app.task(max_attempts=1)
    async def sings(job: Job, api_token: str, to: str) -> None:
        await job.checkpoint({"api_token": api_token})
        raise ValueError(f"{api_token} was refused")

    made = sings.options(headers={"authorization": SECRET}).enqueue(SECRET, to="ada")
    app.run_due()
    return made.id


def _read(dashboard: Dashboard, job: UUID) -> dict[str, str]:
    """Return what every route of the dashboard and the API answers to GET, but for the streams."""
    found, key = dict[str, str](), json.loads(get(dashboard, "/api/v1/errors").body)["groups"][0]["key"]
    for route in dashboard._pages.routes:
        assert isinstance(route, Route)
        if "GET" in (route.methods or ()) and not route.path.endswith("/events"):
            path = route.path.replace("{id}", str(job)).replace("{key}", key).replace("{name}", "default")
            found[path] = get(dashboard, path.replace("{kind}", "job").replace("{action}", f"reveal?name={job}")).body
    path = f"/api/v1/jobs/{job}?include=payload,result,checkpoint"
    return {**found, path: get(dashboard, path).body}


def test_the_secret_of_the_canary_is_nowhere_but_behind_reveal_and_who_looked_is_in_the_audit(app: App) -> None:
    job, dashboard = _canary(app), Dashboard(app, actions=True)
    shown = _read(dashboard, job)
    assert [path for path, body in shown.items() if SECRET in body] == []
    assert "hidden" in shown[f"/jobs/{job}"]
    anna = Person(dashboard)
    page = anna.open(anna.buttons(f"/jobs/{job}")["job/reveal"])
    assert "recorded that you looked" in page.body
    assert [entry.action for entry in app.audit.list()] == []
    revealed = anna.send(page, reason="the customer asked")
    assert (revealed.status, revealed.headers["cache-control"]) == (200, "no-store")
    assert Elements(revealed.body).text.count(SECRET) == 3  # the payload, the checkpoint and a header
    (entry,) = app.audit.list()
    assert (entry.who, entry.origin, entry.action, entry.count) == ("local", "dashboard", "reveal", 3)
    assert (entry.selector, entry.reason) == (f'{{"ids":["{job}"]}}', "the customer asked")
    assert [path for path, body in _read(dashboard, job).items() if SECRET in body] == []


def _reveal(dashboard: Dashboard, job: UUID) -> Reply:
    headers = (OWN, JSON, (b"content-length", b"2"))
    return asyncio.run(ask(dashboard, f"/api/v1/jobs/{job}/reveal", method="POST", headers=headers, body=b"{}"))


def test_the_api_reveals_by_right_also_what_the_program_hides(app: App) -> None:
    job = _canary(app)

    def authorize(identity: Identity, action: str, target: str) -> bool:
        return action != "reveal" or identity.name == "anna"

    for name, status in (("anna", 200), ("ben", 403)):
        identity = Identity(name, ["operator"])
        dashboard = Dashboard(
            app, authenticate=lambda _, who=identity: who, authorize=authorize, redact=lambda *_: "no", actions=True
        )
        assert ("job/reveal" in get(dashboard, f"/jobs/{job}").body) == (status == 200)
        reply = _reveal(dashboard, job)
        assert (reply.status, SECRET in reply.body) == (status, status == 200)
    found = json.loads(_reveal(Dashboard(app, actions=True), job).body)
    assert (found["payload"], found["result"]) == ({"api_token": SECRET, "to": "ada"}, None)
    assert _reveal(Dashboard(app), job).status == 403


def test_a_job_with_nothing_hidden_offers_no_reveal(app: App) -> None:
    app.task(lambda text: None, name="plain")
    job = app.enqueue("plain", text="a")
    assert "job/reveal" not in get(Dashboard(app, actions=True), f"/jobs/{job.id}").body
    assert "job/reveal" not in get(Dashboard(app), f"/jobs/{_canary(app)}").body

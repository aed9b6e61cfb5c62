"""What is refused is recorded: once a minute for each sender and action, with a count."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from msgspec import structs

from holdfast import App
from holdfast._core.audit import AuditEntry
from holdfast.app import environment_of
from holdfast.dashboard import Dashboard, Identity
from holdfast.http.denials import FLUSH, MOST_ROWS, NO_ACTION, OTHERS, UNKNOWN
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from tests.dashboard.browser import ask
from tests.dashboard.test_refusals import CHANGES, OWN, Change, _send
from tests.engine.support import turns


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def _viewer(app: App, name: str = "vera", **more: bool) -> Dashboard:
    return Dashboard(app, authenticate=lambda _: Identity(name, ["viewer"]), **{"actions": True, **more})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.method} {change.path}")
def test_a_change_that_is_refused_is_recorded(app: App, change: Change) -> None:
    refused = _send(_viewer(app), change)
    if change.path.endswith("/jobs/actions"):  # its action is known once its body was read
        assert (refused.status, len(app.audit.list())) == (403, 1)
        return
    (entry,) = app.audit.list()
    via = "dashboard" if change.is_form else "api"
    assert (entry.who, entry.origin, entry.action, entry.count) == ("vera", f"{via}:127.0.0.1", "denied", 1)
    asked = json.loads(entry.selector)
    path = change.path.removeprefix("/api/v1")
    assert asked == {"action": change.action, "method": change.method, "path": path, "code": "forbidden"}
    assert "may not" in (entry.reason or "")


def test_an_unknown_sender_is_recorded_and_neither_a_read_only_mount_nor_a_first_visit_is(app: App) -> None:
    change = CHANGES[0]
    stranger = Dashboard(app, authenticate=lambda _: None, actions=True)
    assert asyncio.run(ask(stranger, "/jobs")).status == 401
    assert _send(_viewer(app, actions=False), change).status == 403
    assert app.audit.list() == []
    assert _send(stranger, change, peer="10.0.0.7").status == 401
    (entry,) = app.audit.list()
    assert (entry.who, entry.origin.partition(":")[2]) == (UNKNOWN, "10.0.0.7")
    worker = Dashboard(app, authenticate=lambda _: Identity("w", ["worker"]), actions=True)
    assert asyncio.run(ask(worker, "/jobs")).status == 403
    assert {each.who for each in app.audit.list()} == {UNKNOWN, "w"}


def test_actions_that_do_not_exist_share_one_short_row(app: App) -> None:
    stranger = Dashboard(app, authenticate=lambda _: None, actions=True)
    for letter in "ab":
        assert asyncio.run(ask(stranger, f"/actions/queue/{letter * 20_000}", method="POST")).status == 401
    (entry,) = app.audit.list()
    assert json.loads(entry.selector)["action"] == NO_ACTION
    assert len(entry.selector) < 700


def test_a_flood_of_denials_adds_few_rows_and_few_writes(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, writes, record = FakeClock(), list[int](), MemoryStore.record_action
    name, dashboard = "", Dashboard(app, authenticate=lambda _: Identity(name, ["viewer"]), actions=True)
    dashboard._api_denials._environment = lambda: structs.replace(environment_of(app), clock=clock)

    async def counted(self: MemoryStore, by: object, changed: int) -> None:
        writes.append(changed)
        await record(self, by, changed)

    monkeypatch.setattr(MemoryStore, "record_action", counted)

    async def flood() -> list[AuditEntry]:
        nonlocal name
        for number in range(500):
            name = f"sender-{number % 100}"
            await ask(dashboard, "/api/v1/queues/mail/pause", method="POST", headers=(OWN,))
        assert len(writes) == MOST_ROWS + 1
        await turns()
        clock.advance(FLUSH)
        await turns()
        return await app.audit.alist(limit=500)

    found = asyncio.run(flood())
    counts = {entry.who: entry.count for entry in found}
    assert len(found) == MOST_ROWS + 1
    assert (counts["sender-0"], counts[OTHERS], sum(counts.values())) == (5, 200, 500)
    assert len(writes) == 2 * (MOST_ROWS + 1)

"""``app.check()`` names everything that can be seen to be wrong, at once, each with its remedy."""

from collections.abc import Iterator

import pytest

from holdfast import App
from holdfast._core.answers import Check
from holdfast.errors import StoreUnavailable
from tests.engine.support import LEASE
from tests.event_loops import run


async def mend() -> None: ...


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def of(app: App, name: str) -> list[Check]:
    return [each for each in app.check() if each.name == name]


def levels(app: App, name: str) -> list[str]:
    return [each.level for each in of(app, name)]


def test_an_idle_app_has_nothing_to_say(app: App) -> None:
    app.task(mend)
    assert levels(app, "workers") == ["ok"]
    assert {each.level for each in app.check() if each.name != "durability"} <= {"ok"}


def test_settings_that_work_but_leave_little_room_are_said() -> None:
    app = App("memory://", ttl="10s", beat="4s", margin="2s")
    assert levels(app, "settings") == ["warning"]
    app.close()


def test_a_limit_shorter_than_a_beat_is_an_error() -> None:
    app = App("memory://")
    app.task(progress_within="1s")(mend)
    (found,) = of(app, "tasks")
    assert (found.level, "progress_within >= beat + margin" in found.message) == ("error", True)
    app.close()


def test_jobs_that_wait_while_no_worker_is_alive_are_said(app: App) -> None:
    app.task(mend).enqueue()
    (found,) = of(app, "workers")
    assert (found.level, found.remedy) == ("warning", "start one: `holdfast worker module:app`")
    assert of(app, "tasks") == []


def test_tasks_that_no_live_worker_knows_are_named_with_who_could(app: App) -> None:
    app.task(mend).enqueue()
    app.enqueue("elsewhere")

    async def work() -> None:
        await app._connections.store.open_lease(LEASE)

    assert [each.message for each in of(app, "tasks")] == ["jobs of elsewhere wait, and this App has no such task"]
    run(work())
    elsewhere, own = of(app, "tasks")
    assert (elsewhere.remedy, own.remedy) == ("start a worker that has its code", "restart the workers, which have older code")
    (worker,) = of(app, "workers")
    assert (worker.level, worker.message) == ("ok", f"1 alive: {LEASE.worker}")


def test_paused_queues_are_named(app: App) -> None:
    app.task(queue="mail")(mend).enqueue_many([{}, {}])
    app.queues.pause("mail")
    (found,) = of(app, "queues")
    assert (found.level, found.remedy) == ("warning", "`holdfast queues resume mail`")
    assert found.message.endswith("waiting jobs: 2")


def test_a_store_that_cannot_be_asked_is_a_finding(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise StoreUnavailable("not reached")

    monkeypatch.setattr(app._connections.store, "workers", fail)
    assert [each.message for each in of(app, "store")] == ["not reached"]

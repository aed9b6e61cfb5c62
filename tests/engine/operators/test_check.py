"""``app.check()`` reports every problem that it can see at once, each with its remedy."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from holdfast import App, RecoverySwitches
from holdfast._core.answers import Check
from holdfast.errors import StoreUnavailable
from tests.engine.support import LEASE
from tests.event_loops import run


async def repair() -> None: ...


@pytest.fixture
def app() -> Iterator[App]:
    app = App("memory://")
    yield app
    app.close()


def findings(app: App, name: str) -> list[Check]:
    return [each for each in app.check() if each.name == name]


def levels(app: App, name: str) -> list[str]:
    return [each.level for each in findings(app, name)]


def test_an_idle_app_has_no_findings(app: App) -> None:
    app.task(repair)
    assert levels(app, "workers") == ["ok"]
    assert {each.level for each in app.check() if each.name != "durability"} <= {"ok"}


def test_settings_that_work_but_leave_little_margin_are_a_warning() -> None:
    app = App("memory://", ttl="10s", beat="4s", margin="2s")
    assert levels(app, "settings") == ["warning"]
    app.close()


def test_a_limit_shorter_than_a_beat_is_an_error() -> None:
    app = App("memory://")
    app.task(progress_within="1s")(repair)
    (found,) = findings(app, "tasks")
    assert (found.level, "progress_within >= beat + margin" in found.message) == ("error", True)
    app.close()


def test_jobs_that_wait_while_no_worker_is_alive_are_reported(app: App) -> None:
    app.task(repair).enqueue()
    (found,) = findings(app, "workers")
    assert (found.level, found.remedy) == ("warning", "start one: `holdfast worker module:app`")
    assert findings(app, "tasks") == []


def test_tasks_that_no_live_worker_knows_are_named_with_a_remedy(app: App) -> None:
    app.task(repair).enqueue()
    app.enqueue("elsewhere")

    async def work() -> None:
        await app._connections.store.open_lease(LEASE)

    assert [each.message for each in findings(app, "tasks")] == ["one job of elsewhere waits, and this App has no such task"]
    run(work())
    elsewhere, own = findings(app, "tasks")
    assert elsewhere.message == "one job of elsewhere waits, and no live worker knows the task"
    assert elsewhere.remedy == "start a worker that has its code"
    assert own.remedy == f"start a worker that imports the code of {repair.__qualname__}, or a newer release of it"
    (worker,) = findings(app, "workers")
    assert (worker.level, worker.message) == ("ok", f"1 alive: {LEASE.worker}")


def test_a_queue_with_due_jobs_that_no_live_worker_serves_is_named(app: App) -> None:
    mail = app.task(queue="mial")(repair)
    mail.enqueue()
    mail.options(queue="later", delay="1h").enqueue()
    assert findings(app, "queues") == []
    run(app._connections.store.open_lease(structs.replace(LEASE, queues=("mail", "default"))))
    messages = [each.message for each in findings(app, "queues") if "serves" in each.message]
    assert messages == ["1 due in mial, and no live worker serves this queue"]


def test_paused_queues_are_named(app: App) -> None:
    app.task(queue="mail")(repair).enqueue_many([{}, {}])
    app.queues.pause("mail")
    (found,) = findings(app, "queues")
    assert (found.level, found.remedy) == ("warning", "`holdfast queues resume mail`")
    assert found.message.endswith("waiting jobs: 2")


def test_a_store_that_cannot_be_reached_is_a_finding(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise StoreUnavailable("not reached")

    monkeypatch.setattr(app._connections.store, "workers", fail)
    assert [each.message for each in findings(app, "store")] == ["not reached"]


def test_kinds_of_jobs_that_are_not_recovered_are_named_with_the_number_left(app: App) -> None:
    off = App(app.settings.url, recovery=RecoverySwitches(running=False, expired=False))
    assert [found.message for found in findings(off, "recovery")] == [
        "App(recovery=…) switches the recovery of running jobs off; jobs left by workers that ended: 0",
        "App(recovery=…) switches the recovery of expired jobs off",
    ]
    assert findings(off, "recovery")[0].remedy == "`holdfast recover module:app --only running` recovers them once, by hand"
    off.close()
    assert findings(app, "recovery") == []

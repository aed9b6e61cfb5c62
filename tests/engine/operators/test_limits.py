"""What operators see and set of limits and queues, on every store that needs no server."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from holdfast import App, ConfigurationError, Limit, QueueSettings, Unsupported
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimKind, ClaimRequest
from holdfast._core.schedule import Source
from holdfast._engine import store_defaults
from holdfast.sync import PORTAL
from tests.engine.support import LEASE


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"], ids=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    app = App(request.param.format(tmp_path))
    app.task(name="send", queue="mail")(nothing)
    yield app
    app.close()


def nothing() -> None: ...


def claim(app: App, number: int = 1) -> tuple[UUID, ...]:
    """Have a worker claim jobs within limits."""

    async def take() -> tuple[UUID, ...]:
        store = app._connections.store
        await store.open_lease(LEASE)
        request = ClaimRequest(lease=LEASE.id, claim=UUID(int=9), tasks={"send": Policy()}, limit=number, kind=ClaimKind.LIMITED)
        return tuple(each.job.id for each in (await store.exchange((), request)).claims)

    return PORTAL.run(take())


def test_limits_are_set_listed_and_cleared(app: App) -> None:
    app.limits.set("queue", "mail", Limit(concurrency=10, rate="100/m"))
    app.limits.set("task", "send", Limit(per_key=2))
    status = app.limits.set("cluster", Limit(concurrency=500))
    assert (status.scope, status.name, status.limit.concurrency, status.source) == ("cluster", "", 500, Source.OPERATOR)
    assert [(each.scope, each.name) for each in app.limits.list()] == [("cluster", ""), ("queue", "mail"), ("task", "send")]
    app.limits.clear("cluster")
    app.limits.clear("task", "send")
    assert [each.name for each in app.limits.list()] == ["mail"]


def test_a_limit_is_listed_with_its_holders(app: App) -> None:
    app.enqueue("send")
    app.enqueue("send")
    app.limits.set("queue", "mail", Limit(concurrency=1))
    (job,) = claim(app, 2)
    (status,) = app.limits.list()
    assert status.active == 1
    (holder,) = status.holders
    assert (holder.job, holder.worker, holder.held >= 0) == (job, LEASE.worker, True)
    assert app.limits.set("queue", "mail", Limit(concurrency=2)).active == 1


def test_an_operators_limit_stays_until_it_is_cleared(app: App) -> None:
    app.queue("mail", limit=Limit(concurrency=1), priority=3)
    app.run_due()
    (declared,) = app.limits.list()
    assert (declared.source, declared.limit.concurrency) == (Source.CODE, 1)
    app.limits.set("queue", "mail", Limit(concurrency=7))
    app.queues.set("mail", priority=0)
    app.run_due()
    (status,) = app.limits.list()
    assert (status.source, status.limit.concurrency) == (Source.OPERATOR, 7)
    assert app.queues.list()[0].settings.priority == 0
    app.limits.clear("queue", "mail")
    app.queues.unset("mail")
    app.run_due()
    assert app.limits.list() == [declared]
    assert app.queues.list()[0].settings.priority == 3


def test_settings_of_a_queue_are_set_one_by_one_and_removed(app: App) -> None:
    assert app.queues.list() == []
    app.queues.set("mail", priority=-10, key_weights={"acme": 3, "other": 2})
    settings = app.queues.set("mail", weight=2, key_weights={"other": 1})
    assert (settings.priority, settings.weight, settings.key_weights) == (-10, 2, {"acme": 3})
    (queue,) = app.queues.list()
    assert queue.settings == settings
    app.queues.unset("mail")
    app.queues.unset("mail")
    assert app.queues.list() == []


def test_the_priority_of_a_queue_counts_for_jobs_that_wait_and_for_new_ones(app: App) -> None:
    handle = app.enqueue("send")
    app.queues.set("mail", priority=-5)
    assert (handle.get().priority, app.enqueue("send").get().priority) == (-5, -5)


async def test_twins_do_the_same_inside_an_event_loop(app: App) -> None:
    await app.limits.aset("cluster", None, Limit(rate="1/s"))
    assert [each.limit.rate for each in await app.limits.alist()] == ["1/s"]
    await app.limits.aclear("cluster")
    assert isinstance(await app.queues.aset("mail", weight=2), QueueSettings)
    await app.queues.aunset("mail")
    assert (await app.limits.alist(), await app.queues.alist()) == ([], [])
    await app.aclose()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("queues", "mail", Limit(concurrency=1)), "scope='queues': use 'cluster', 'task' or 'queue'"),
        (("cluster", "mail", Limit(concurrency=1)), "the cluster has no name"),
        (("queue", None, Limit(concurrency=1)), "name=None: use 1 to 200"),
        (("task", "a b", Limit(concurrency=1)), "name='a b': use 1 to 200"),
        (("queue", "mail", None), "limit=None: use Limit"),
        (("queue", "mail", 3), "limit=3: use Limit"),
        (("queue", "mail", Limit()), "limits nothing"),
    ],
)
def test_what_cannot_be_a_limit_is_refused(app: App, words: tuple[object, ...], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        app.limits.set(*words)  # type: ignore[arg-type]


def test_every_problem_of_a_limit_is_named_at_once(app: App) -> None:
    with pytest.raises(ConfigurationError) as raised:
        app.limits.set("task", "a b", 3)  # type: ignore[arg-type]
    assert len(raised.value.problems) == 2
    with pytest.raises(ConfigurationError, match="there is none; see `holdfast limits list`"):
        app.limits.clear("queue", "mail")
    with pytest.raises(ConfigurationError, match="scope='all'"):
        app.limits.clear("all")  # type: ignore[arg-type]


def test_what_cannot_be_a_setting_of_a_queue_is_refused(app: App) -> None:
    with pytest.raises(ConfigurationError) as raised:
        app.queues.set("a b", weight=-1, key_weights={"acme": 0})
    assert len(raised.value.problems) == 3
    with pytest.raises(ConfigurationError, match=r"pass priority=, weight= or key_weights="):
        app.queues.set("mail")
    with pytest.raises(ConfigurationError, match="name='a b'"):
        app.queues.unset("a b")
    assert app.queues.list() == []


def test_a_store_without_limits_refuses_its_verbs(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_defaults, "offers", lambda *_: False)
    with pytest.raises(Unsupported, match="keeps no limits: use one that does"):
        app.limits.list()
    with pytest.raises(Unsupported, match="keeps no limits"):
        app.limits.set("cluster", Limit(concurrency=1))
    with pytest.raises(Unsupported, match="keeps no settings of queues: use one that does"):
        app.queues.set("mail", weight=2)

"""Limits and queues in code: what can be declared, and every problem of what cannot."""

from typing import Any

import pytest

from holdfast import App, ConfigurationError, Limit, TaskGroup
from holdfast._core.declared import Declared, DeclaredLimit
from holdfast._core.limits import Scope, ScopeKind
from holdfast._engine.embedded.parts import without_processes


async def send(to: str) -> None: ...


@pytest.fixture
def app() -> App:
    return App("memory://")


def scopes(app: App) -> dict[str, Limit]:
    return {str(each.scope): each.limit for each in app.registry.declared().limits}


def test_limits_of_tasks_queues_and_the_cluster_are_declared(app: App) -> None:
    app.task(limit=Limit(concurrency=10, per_key=2, rate="100/m", rate_per_key="5/s", burst=20), key="to")(send)
    app.queue("mail", limit=Limit(rate="2/s"))
    app.limit(Limit(concurrency=500))
    found = scopes(app)
    assert set(found) == {"task send", "queue mail", "the cluster"}
    assert (found["task send"].per_key, found["the cluster"].concurrency) == (2, 500)


def test_settings_of_queues_are_declared(app: App) -> None:
    app.queue("mail", priority=-10, weight=3, key_weights={"acme": 3})
    app.queue("plain")
    mail, plain = app.registry.declared().queues
    assert (mail.settings.priority, mail.settings.weight, mail.settings.key_weights) == (-10, 3, {"acme": 3})
    assert (plain.name, plain.settings.weight) == ("plain", 1)
    assert scopes(app) == {}


def test_tasks_of_groups_have_limits_before_and_after_they_are_included(app: App) -> None:
    group = TaskGroup(prefix="email.", queue="mail")
    group.task(name="one", limit=Limit(concurrency=1))(send)
    app.include(group)
    group.task(name="two", limit=Limit(concurrency=2))(send)
    assert scopes(app) == {"task email.one": Limit(concurrency=1), "task email.two": Limit(concurrency=2)}


def test_apps_of_one_process_declare_their_own_limits() -> None:
    one, other = App("memory://"), App("memory://")
    one.limit(Limit(concurrency=1))
    other.limit(Limit(concurrency=2))
    one.task(limit=Limit(concurrency=3))(send)
    assert (len(scopes(one)), scopes(other)) == (2, {"the cluster": Limit(concurrency=2)})


def test_a_registry_without_processes_keeps_all_declarations(app: App) -> None:
    app.task(limit=Limit(concurrency=1), process=True, name="t")(lambda: None)
    app.queue("mail", weight=2, limit=Limit(per_key=1))
    assert without_processes(app.registry).declared() == app.registry.declared()


@pytest.mark.parametrize(
    ("declare", "problems"),
    [
        (lambda app: app.task(limit=10)(send), ["task send: limit=10: use Limit(concurrency=10)"]),
        (lambda app: app.task(limit=Limit())(send), ["limits nothing: use concurrency="]),
        (lambda app: app.task(limit=Limit(per_key=1, burst=2))(send), ["burst=2 belongs to a rate: add rate="]),
        (lambda app: app.task(limit=5, queue="a b")(send), ["queue='a b': use", "limit=5: use"]),
        (lambda app: app.limit(None), ["limit=None: use Limit("]),
        (lambda app: app.limit(Limit()), ["limits nothing"]),
        (lambda app: app.queue("a b", limit="3"), ["name='a b': use", "limit='3': use"]),
        (
            lambda app: app.queue("q", priority=0.5, weight=0, key_weights={"": 1, "acme": -1}),
            ["priority=0.5: use", "weight=0: use", "'' is not a key: use", "'acme' has -1: use"],
        ),
        (lambda app: app.queue("q", weight=True, key_weights=["acme"]), ["weight=True: use", "key_weights=['acme']: use a dict"]),
        (
            lambda app: Limit(concurrency=-1, per_key=0, rate="often", rate_per_key="1/.5s", burst=0),
            ["concurrency=-1", "per_key=0", "burst=0", "rate='often'", "rate_per_key='1/.5s'"],
        ),
    ],
)
def test_every_problem_is_named_with_its_remedy(app: App, declare: Any, problems: list[str]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        declare(app)
    assert len(raised.value.problems) == len(problems)
    for found, problem in zip(raised.value.problems, problems, strict=True):
        assert problem in found
        assert ": use " in found or ": add " in found
    assert app.registry.declared() == Declared(named=app.registry.declared().named)


@pytest.mark.parametrize("rate", ["1/1000000d", "0/s", "5", "/s", "5/y", "1e3/s", "1/.s", ""])
def test_a_rate_that_is_not_possible_is_refused(rate: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a rate"):
        Limit(rate=rate)


def test_a_queue_or_limit_is_declared_once(app: App) -> None:
    app.queue("mail", limit=Limit(concurrency=1))
    app.limit(Limit(concurrency=1))
    with pytest.raises(ConfigurationError, match="queue mail: declared twice"):
        app.queue("mail")
    with pytest.raises(ConfigurationError, match="limit of the cluster: declared twice"):
        app.limit(Limit(concurrency=2))


def test_declarations_name_scope_and_value() -> None:
    one = DeclaredLimit(Scope(ScopeKind.QUEUE, "mail"), Limit(concurrency=1))
    other = DeclaredLimit(Scope(ScopeKind.TASK, "mail"), Limit(concurrency=1))
    assert one.declaration.startswith("limit/queue/mail=")
    assert len({one.declaration, other.declaration}) == 2

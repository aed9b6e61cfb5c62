"""Limits and queues in code reach the store: an operator's value stays, and a rolling deploy does not make them flap."""

import pytest

from holdfast import App, ConfigurationError, Limit
from holdfast._core.book.verbs import BookVerbs
from holdfast._core.declared import Declared, DeclaredLimit, DeclaredQueue
from holdfast._core.limits import Scope, ScopeKind
from holdfast._core.origin import Origin, overruled
from holdfast._core.requests import NewLease, QueueSettings
from holdfast._core.schedule import Source
from holdfast._engine import messages
from holdfast._engine.supervisor.declared_limits import DeclaredLimits, Step
from holdfast._engine.supervisor.scheduler import DECLARING
from holdfast.stores.memory import MemoryStore
from holdfast.sync import PORTAL
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.supervisor.test_supervisor import Fleet
from tests.engine.support import PROCESS, SETTINGS, TIMING

MAIL = Scope(ScopeKind.QUEUE, "mail")
OLD, NEW = Limit(concurrency=1), Limit(concurrency=2)


def limit(value: Limit) -> Declared:
    return Declared((DeclaredLimit(MAIL, value),))


def queue(**settings: int) -> Declared:
    return Declared(queues=(DeclaredQueue("mail", QueueSettings(**settings)),))  # type: ignore[arg-type]


class Deploy:
    """A store, and supervisors that declare one after the other."""

    def __init__(self) -> None:
        self.clock, self.chance = FakeClock(), FakeChance()
        self.store = MemoryStore(self.clock)
        self.steps: list[Step] = []

    async def declare(self, declared: Declared) -> DeclaredLimits:
        supervisor = DeclaredLimits(self.store, self.steps.append)
        await supervisor.declare(declared)
        return supervisor

    async def lease(self, declared: Declared) -> None:
        """Open the lease of a worker with these declarations."""
        new = NewLease(self.chance.uuid4(), "w", PROCESS, TIMING, declares=declared.declarations)
        assert await self.store.open_lease(new)

    async def limit(self) -> Limit | None:
        return next((view.limit for view in await self.store.limits() if view.scope == MAIL), None)

    async def settings(self) -> QueueSettings:
        return next((each.settings for each in await self.store.queues() if each.name == "mail"), QueueSettings())


async def test_what_is_declared_is_stored_and_its_origin_is_code() -> None:
    deploy = Deploy()
    await deploy.declare(Declared(limit(OLD).limits, queue(priority=-10, weight=3).queues))
    (view,) = await deploy.store.limits()
    assert (view.scope, view.limit, view.origin) == (MAIL, OLD, Origin(Source.CODE))
    settings = await deploy.settings()
    assert (settings.priority, settings.weight, settings.origin.source) == (-10, 3, Source.CODE)


async def test_a_new_value_replaces_an_older_one() -> None:
    deploy = Deploy()
    await deploy.declare(Declared(limit(OLD).limits, queue(weight=2).queues))
    await deploy.declare(Declared(limit(NEW).limits, queue().queues))
    assert await deploy.limit() == NEW
    settings = await deploy.settings()
    assert (settings.weight, settings.origin.source) == (1, Source.CODE)


@pytest.mark.parametrize("is_present_alive", [True, False])
@pytest.mark.parametrize(("old", "new"), [(limit(OLD), limit(NEW)), (queue(weight=2), queue(weight=3))])
async def test_an_old_value_comes_back_only_when_no_living_worker_declares_the_present_one(
    is_present_alive: bool, old: Declared, new: Declared
) -> None:
    deploy = Deploy()
    await deploy.declare(old)
    await deploy.declare(new)
    if is_present_alive:
        await deploy.lease(new)
    restarted = await deploy.declare(old)

    async def is_old() -> bool:
        return await deploy.limit() == OLD if old.limits else (await deploy.settings()).weight == 2

    assert await is_old() is not is_present_alive
    deploy.clock.advance(DECLARING)  # the lease has run out by now
    assert await restarted.step() == DECLARING
    assert await is_old()


async def test_what_an_operator_set_stays_until_it_is_cleared() -> None:
    deploy = Deploy()
    operators = overruled(OLD, Origin(Source.CODE))
    await deploy.store.set_limit(MAIL, NEW, operators)
    supervisor = await deploy.declare(limit(OLD))
    assert await deploy.limit() == NEW
    await deploy.store.set_limit(MAIL, None, Origin())
    await supervisor.step()
    assert await deploy.limit() == OLD


async def test_an_operators_defaults_are_settings_and_stay() -> None:
    deploy = Deploy()
    await deploy.store.set_queue("mail", QueueSettings(origin=overruled(QueueSettings(), Origin())))
    supervisor = await deploy.declare(queue(weight=5))
    assert (await deploy.settings()).weight == 1
    await deploy.store.set_queue("mail", None)
    await supervisor.step()
    assert (await deploy.settings()).weight == 5


async def test_code_removes_nothing_and_defaults_make_no_settings() -> None:
    deploy = Deploy()
    await deploy.declare(limit(OLD))
    await deploy.declare(queue())
    assert await deploy.limit() == OLD
    assert await deploy.store.queues() == ()


async def test_only_a_supervisor_whose_workers_declare_something_looks_again() -> None:
    deploy = Deploy()
    await deploy.declare(Declared())
    assert deploy.steps == []
    supervisor = await deploy.declare(limit(OLD))
    await supervisor.declare(limit(NEW))
    assert deploy.steps == [supervisor.step]


@pytest.mark.virtual_time
async def test_a_supervisor_stores_limits_before_its_worker_gets_its_lease() -> None:
    fleet = Fleet()
    gate = fleet.store.hold("set_limit")
    child = await fleet.spawned()
    hello = messages.WorkerHello(SETTINGS, ("t",), (), declared=limit(OLD))
    child.far.say(hello)
    await gate.entered.wait()
    assert await fleet.memory.workers() == ()
    gate.opened.set()
    await child.far.hear(messages.LeaseGranted)
    (lease,) = await fleet.memory.workers()
    assert lease.declares == hello.declares == limit(OLD).declarations
    await fleet.memory.set_limit(MAIL, None, Origin())
    await fleet.clock.sleep(2 * DECLARING)
    assert [view.limit for view in await fleet.memory.limits()] == [OLD]


@pytest.mark.virtual_time
async def test_a_worker_starts_once_its_limits_could_be_stored() -> None:
    fleet = Fleet()
    fleet.store.fail("set_limit", 2)
    child = await fleet.spawned()
    child.far.say(messages.WorkerHello(SETTINGS, ("t",), (), declared=limit(OLD)))
    await child.far.hear(messages.LeaseGranted)
    assert [view.limit for view in await fleet.memory.limits()] == [OLD]
    assert len(await fleet.memory.workers()) == 1


@pytest.fixture
def app() -> App:
    app = App("memory://")
    app.queue("mail", weight=3, limit=OLD)
    app.task(queue="mail")(nothing)
    return app


def nothing() -> None: ...


def stored(app: App) -> list[str]:
    store = app._connections.store
    return [str(view.scope) for view in PORTAL.run(store.limits())]  # type: ignore[attr-defined]


def test_run_due_stores_what_the_app_declares(app: App) -> None:
    assert app.run_due() == 0
    assert stored(app) == ["queue mail"]
    (found,) = app.queues.list()
    assert found.settings.weight == 3


def test_run_due_obeys_limits_and_leaves_jobs_whose_rate_allows_them_later() -> None:
    app = App("memory://")
    app.queue("mail", limit=OLD)
    app.queue("slow", limit=Limit(rate="1/h"))
    task = app.task(queue="mail")(nothing)
    task.enqueue_many([{}] * 5)
    task.options(queue="slow").enqueue_many([{}] * 3)
    assert app.run_due(concurrency=4) == 6
    assert app.run_due() == 0
    assert app.jobs.counts()["available"] == 2


async def test_an_embedded_worker_stores_what_its_app_declares(app: App) -> None:
    async with app.worker():
        (view,) = await app._connections.store.limits()  # type: ignore[attr-defined]
        assert view.limit == OLD
        (lease,) = await app.workers.alist()
        assert [each.split("=")[0] for each in lease.declares] == ["limit/queue/mail", "queue/mail"]


def test_a_store_without_limits_is_refused_with_a_remedy(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("set_limit", "set_queue"):
        monkeypatch.delattr(BookVerbs, verb)
    with pytest.raises(ConfigurationError) as raised:
        app.run_due()
    limits, queues = raised.value.problems
    assert limits.startswith("limits of queue mail: the memory store keeps none: use one that does")
    assert queues.startswith("queues mail: the memory store keeps no settings of queues: use one that does")
    assert {limits, queues} <= {each.message for each in app.check()}

"""Supervisors fire ticks: one job a tick, also with wrong clocks and lost answers."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from holdfast import App, ConfigurationError, cron, every
from holdfast._core.requests import NewLease
from holdfast._core.schedule import UNNUMBERED as NO_ID
from holdfast._core.schedule import DeclaredSchedule, Definition, Overlap, declaration, defined
from holdfast._core.ticks import Cron
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.supervisor.scheduler import DECLARING, MOST, Scheduler
from holdfast._engine.tasks.schedules import declare
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from holdfast.transports.inprocess import InProcessTransport
from tests.engine.support import Flaky, Log

app = App("memory://")


@app.task
def load(city: str) -> None:
    raise AssertionError(city)


LONGEST = 5.0


def scheduled(name: str = "s", **options: Any) -> DeclaredSchedule:
    return declare(every("1m"), load.bind("Kyiv"), name=name, **{"overlap": "queue", **options})


class World:
    """One store with some supervisors, whose own wall clocks are wrong: only the store's counts."""

    def __init__(self, *declared: DeclaredSchedule, supervisors: int = 1) -> None:
        self.clock, self.log = FakeClock(), Log()
        self.memory = MemoryStore(self.clock)
        self.store = Flaky(self.memory)
        self.schedulers = [self._supervisor(number) for number in range(supervisors)]
        self.scheduler = self.schedulers[0]
        for each in self.schedulers:
            each.declare(declared)

    def _supervisor(self, number: int) -> Scheduler:
        clock = FakeClock()
        clock.step_wall(3600.0 * (number - 1))
        environment = Environment(self.store, InProcessTransport([]), clock, FakeChance(number), self.log.events)  # type: ignore[arg-type]
        return Scheduler(environment, longest=LONGEST)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for each in self.schedulers:
            each._environment.clock.advance(seconds)  # type: ignore[attr-defined]

    async def jobs(self) -> int:
        return sum((await self.memory.counts()).values())

    async def lease(self, *declares: str) -> None:
        timing = App("memory://").settings.timing
        assert await self.memory.open_lease(NewLease(FakeChance(9).uuid4(), "w", PROCESS, timing, declares=declares))


def run(story: Any) -> None:
    asyncio.run(story())


def test_l15_it_sleeps_until_the_next_tick_and_at_most_its_longest_pause() -> None:
    async def story() -> None:
        world = World(scheduled(), scheduled("often"))
        assert await world.scheduler.step() == LONGEST
        world.advance(57.0)
        assert 3.0 <= await world.scheduler.step() <= 3.05
        world.advance(3.0)
        assert 0.0 <= await world.scheduler.step() <= 0.05
        assert [each["schedule"] for each in world.log.of("schedule.fired")] == ["often", "s"]
        assert await world.scheduler.step() == LONGEST

    run(story)


def test_s14_of_five_supervisors_with_skewed_clocks_one_fires_each_tick() -> None:
    async def story() -> None:
        world = World(scheduled(), supervisors=5)
        for _ in range(30):
            for each in world.schedulers:
                await each.step()
            world.advance(20.0)
        assert len(world.log.of("schedule.fired")) == await world.jobs() == 9
        assert max(Counter(each["tick"] for each in world.log.of("schedule.fired")).values()) == 1

    run(story)


def test_s14_a_lost_answer_is_settled_by_sending_the_same_move_again() -> None:
    async def story() -> None:
        world = World(scheduled())
        await world.scheduler.step()
        world.advance(61.0)
        world.store.lose_answer("advance")
        with pytest.raises(StoreUnavailable):
            await world.scheduler.step()
        assert await world.jobs() == 1
        await world.scheduler.step()
        assert await world.jobs() == len(world.log.of("schedule.fired")) == 1

    run(story)


def test_s14_a_changed_definition_fires_no_tick_again() -> None:
    async def story() -> None:
        world = World(scheduled())
        await world.scheduler.step()
        world.advance(61.0)
        await world.scheduler.step()
        world.clock.step_wall(-50.0)
        world.scheduler.declare([scheduled(overlap="skip")])
        await world.scheduler.step()
        for _ in range(10):
            world.advance(10.0)
            await world.scheduler.step()
        ticks = [each["tick"] for each in world.log.of("schedule.fired")]
        assert len(set(ticks)) == len(ticks)

    run(story)


async def break_one(world: World, name: str) -> None:
    """Store a schedule whose ticks cannot be computed."""
    job = structs.replace(load.bind("Oslo").new_job(), id=NO_ID)
    now = (await world.memory.schedules()).now
    whole = defined(name, Definition(when=every("1m"), job=job), None, now, FakeChance(5).uuid4())
    broken = structs.replace(whole.definition, when=Cron("0 0 * * *", "Mars/Base"))
    bad = structs.replace(whole, plan=structs.replace(whole.plan, definition=broken))
    assert await world.memory.set_schedule(bad, FakeChance(6).uuid4())


def test_s14_a_lost_answer_loses_no_count_of_missed_ticks() -> None:
    async def story() -> None:
        world = World(scheduled())
        await world.scheduler.step()
        world.advance(600.0)
        world.store.lose_answer("advance")
        with pytest.raises(StoreUnavailable):
            await world.scheduler.step()
        await world.scheduler.step()
        assert [each["ticks"] for each in world.log.of("schedule.missed")] == [7]

    run(story)


def test_l15_two_hundred_schedules_that_cannot_tick_hide_no_other() -> None:
    async def story() -> None:
        world = World(scheduled("z"))
        for number in range(2 * MOST + 1):
            await break_one(world, f"bad{number}")
        await world.scheduler.step()
        world.advance(60.0)
        for _ in range(2):
            world.store.calls.clear()
            await world.scheduler.step()
            assert await world.jobs() == 1
        assert world.store.calls.count("ticks") == 1
        assert len(world.log.of("schedule.failed")) == 2 * MOST + 1
        for name in [f"bad{number}" for number in range(2 * MOST + 1)]:
            await world.memory.remove_schedule(name)
        await world.scheduler.step()
        assert not world.scheduler._broken

    run(story)


def test_a_schedule_that_cannot_tick_delays_no_other_and_is_reported_once() -> None:
    async def story() -> None:
        world = World(scheduled("good"))
        await break_one(world, "bad")
        await world.scheduler.step()
        world.advance(60.0)
        for _ in range(3):
            await world.scheduler.step()
        assert [each["schedule"] for each in world.log.of("schedule.fired")] == ["good"]
        (failed,) = world.log.of("schedule.failed")
        assert failed["schedule"] == "bad"
        assert "Mars/Base" in failed["error"]

    run(story)


def test_missed_and_skipped_ticks_are_events() -> None:
    async def story() -> None:
        world = World(scheduled(overlap="skip"))
        await world.scheduler.step()
        world.advance(600.0)
        await world.scheduler.step()
        assert [each["ticks"] for each in world.log.of("schedule.missed")] == [7]
        await world.scheduler.step()
        assert len(world.log.of("schedule.fired")) == 1
        assert len(world.log.of("schedule.skipped")) == 1

    run(story)


def definition(world: World) -> Definition:
    return world.memory.book._all.schedules["s"].schedule.definition


@pytest.mark.parametrize("is_present_alive", [True, False])
def test_an_old_definition_comes_back_only_when_no_living_worker_has_the_present_one(is_present_alive: bool) -> None:
    async def story() -> None:
        old, new = scheduled(), scheduled(overlap="cancel")
        world = World(old)
        await world.scheduler.step()
        world.scheduler.declare([new])
        await world.scheduler.step()
        assert definition(world).overlap is Overlap.CANCEL
        if is_present_alive:
            await world.lease(declaration("s", new.definition.digest))
        world.scheduler.declare([old])
        await world.scheduler.step()
        assert definition(world).overlap is (Overlap.CANCEL if is_present_alive else Overlap.QUEUE)
        world.advance(DECLARING)  # the lease has run out by now
        await world.scheduler.step()
        assert definition(world).overlap is Overlap.QUEUE

    run(story)


def test_a_store_without_schedules_is_left_alone() -> None:
    class Bare:
        capabilities = MemoryStore(FakeClock()).capabilities

    async def story() -> None:
        environment = Environment(Bare(), InProcessTransport([]), FakeClock(), FakeChance(), Log().events)  # type: ignore[arg-type]
        assert await Scheduler(environment, longest=LONGEST).step() == LONGEST

    run(story)


nightly = App("memory://").task(name="x", unique_by=(), unique_for="20h")(lambda: None)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: declare(every("1m"), load), "not a job"),  # type: ignore[arg-type]
        (lambda: declare(every("1m"), load.bind("x"), name="a b"), "name"),
        (lambda: declare("1m", load.bind("x")), "no time"),  # type: ignore[arg-type]
        (lambda: declare(every("1m"), load.options(unique_key="k").bind("x")), "unique_key"),
        (lambda: declare(every("1m"), nightly.bind()), r"x: the jobs .* not keep the unique_by of x: schedule a task without"),
        (lambda: declare(every("1m"), load.bind("x"), catch_up="some"), "catch_up"),  # type: ignore[arg-type]
        (lambda: declare(every("1m"), load.bind("x"), catch_up=1001), "catch_up"),
        (lambda: declare(every("1m"), load.bind("x"), overlap="both"), "overlap"),  # type: ignore[arg-type]
        (lambda: declare(every("1m"), load.bind("x"), jitter="much"), "jitter"),
    ],
)
def test_what_cannot_be_a_schedule_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


def test_the_name_is_the_tasks_and_two_cannot_share_one() -> None:
    own = App("memory://")
    task = own.task(name="nightly")(lambda: None)
    own.schedule(cron("0 3 * * *"), task.bind())
    assert [each.name for each in own.registry.schedules()] == ["nightly"]
    with pytest.raises(ConfigurationError, match="twice"):
        own.schedule(every("1h"), task.bind())


def names(of: Sequence[Any]) -> list[str]:
    return [each.name for each in of]


def test_operators_see_and_change_schedules() -> None:
    own = App("memory://")
    task = own.task(name="t")(lambda: None)
    own.schedule(every("1h"), task.bind(), name="a")
    assert own.run_due() == 0
    own.schedules.set("b", every("30m"), task.bind(), overlap="queue")
    listed = own.schedules.list(next=3)
    assert names(listed) == ["a", "b"]
    assert [len(each.next) for each in listed] == [3, 3]
    assert [each.source for each in listed] == ["code", "operator"]
    skipped = own.schedules.skip("a", 2)
    assert skipped.next[0] == listed[0].next[2]
    assert own.schedules.pause("a").next == ()
    assert own.schedules.list()[0].paused_at is not None
    assert ("schedules", "warning") in [(each.name, each.level) for each in own.check()]
    assert own.schedules.resume("a").next == skipped.next
    own.schedules.run_now("b")
    assert own.run_due() == 1
    own.schedules.remove("b")
    assert names(own.schedules.list()) == ["a"]
    for verb in (own.schedules.pause, own.schedules.remove, own.schedules.run_now):
        with pytest.raises(ConfigurationError, match="none of this name"):
            verb("b")
    with pytest.raises(ConfigurationError, match="next"):
        own.schedules.list(next=0)


def test_check_reports_what_no_worker_declares_any_more() -> None:
    own = App("memory://")
    own.schedule(every("1h"), own.task(name="t")(lambda: None).bind(), name="a")
    own.run_due()
    assert "schedules" not in [each.name for each in own.check()]
    book = own._connections.store.book  # type: ignore[attr-defined]
    kept = book._all.schedules["a"]
    plan = kept.schedule.plan
    old = structs.replace(plan, declared_at=plan.anchor.replace(year=2020))
    book._all.schedules["a"] = structs.replace(kept, schedule=structs.replace(kept.schedule, plan=old))
    (found,) = [each for each in own.check() if each.name == "schedules"]
    assert "no worker has declared it" in found.message


def test_the_events_of_schedules_are_known() -> None:
    assert [each for each in EventName if each.startswith("schedule.")] == [
        *("schedule.fired", "schedule.skipped", "schedule.missed", "schedule.failed")
    ]

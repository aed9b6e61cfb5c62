"""A year of twelve schedules on five supervisors: clocks change twice in most zones, the store is away ten times, answers get lost."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest

from holdfast import App, cron, every
from holdfast._core.requests import JobFilter
from holdfast._core.schedule import DeclaredSchedule
from holdfast._core.ticks import following, job_of
from holdfast._engine.environment import Environment
from holdfast._engine.service import yield_to_loop
from holdfast._engine.supervisor.scheduler import Scheduler
from holdfast._engine.tasks.schedules import declare
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.transports.inprocess import InProcessTransport
from tests.engine.support import Log

app = App("memory://")
YEAR = timedelta(days=365)
AWAY = [timedelta(days=day) for day in (10, 50, 86.5, 87, 120, 180, 200, 240, 296.5, 340)]
LENGTHS = [timedelta(hours=hours) for hours in (1, 30, 6, 3, 0.02, 80, 9, 200, 12, 1)]


@app.task
def load() -> None: ...


def scheduled(number: int, when: Any, **options: Any) -> DeclaredSchedule:
    return declare(when, load.bind(), name=f"s{number:02}", **{"overlap": "queue", **options})


SCHEDULES = [
    scheduled(0, cron("0 */6 * * *", tz="Europe/Berlin")),
    scheduled(1, cron("30 2 * * *", tz="Europe/Berlin")),
    scheduled(2, cron("30 2 * * *", tz="Europe/Berlin"), catch_up="none"),
    scheduled(3, cron("30 2 * * *", tz="America/New_York"), catch_up="all"),
    scheduled(4, cron("0 0 * * *", tz="America/Santiago"), catch_up="all", overlap="cancel"),
    scheduled(5, cron("15 1 * * 1-5", tz="Australia/Sydney"), grace="3h"),
    scheduled(6, cron("0 3 1 * *"), catch_up="all"),
    scheduled(7, cron("0 12 * * *", tz="Asia/Kolkata"), overlap="skip"),
    scheduled(8, every("6h"), catch_up=5),
    scheduled(9, every("7h"), catch_up="none", jitter="10m"),
    scheduled(10, every("1d"), catch_up="last", grace="1d"),
    scheduled(11, every("50h"), catch_up="all"),
]


class Losing:
    """A store whose calls of many supervisors interleave, and some of whose answers get lost."""

    def __init__(self, store: MemoryStore, random: Random) -> None:
        self._store, self._random = store, random

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any) -> Any:
            await yield_to_loop()
            answer = await getattr(self._store, verb)(*arguments)
            if verb == "advance" and self._random.random() < 0.05:
                raise StoreUnavailable("the answer is lost")
            return answer

        return call


class Year:
    """The store, its supervisors, and when it is away."""

    def __init__(self, seed: int) -> None:
        self.clock, self.log, random = FakeClock(), Log(), Random(seed)
        self.memory = MemoryStore(self.clock)
        self.supervisors = []
        for number in range(5):
            own = FakeClock()
            own.step_wall(random.uniform(-3600.0, 3600.0))
            store: Any = Losing(self.memory, random)
            environment = Environment(store, InProcessTransport([]), own, FakeChance(number), self.log.events)
            self.supervisors.append(Scheduler(environment, longest=5.0))

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall(), UTC)

    async def run(self) -> list[tuple[datetime, datetime]]:
        """Live through the year; return when the store was away."""
        self.supervisors[0].declare(SCHEDULES)
        await self.supervisors[0].step()
        start = self.now
        away = [(start + at, start + at + length) for at, length in zip(AWAY, LENGTHS, strict=True)]
        left = list(away)
        while self.now < start + YEAR:
            await self.fire_all()
            wait = (await self.memory.ticks(0)).wait
            assert wait is not None
            target = self.now + timedelta(seconds=wait)
            if left and target >= left[0][0]:
                target = max(self.now, left.pop(0)[1])
            self.clock.advance((target - self.now).total_seconds() + 1e-5)
        return away

    async def fire_all(self) -> None:
        """Let all supervisors fire at once until nothing is due."""
        while (await self.memory.ticks(1)).found or any(each._unknown for each in self.supervisors):
            found = await asyncio.gather(*(each.fire() for each in self.supervisors), return_exceptions=True)
            assert all(not isinstance(each, Exception) or isinstance(each, StoreUnavailable) for each in found)


def expected(
    declared: DeclaredSchedule, start: datetime, until: datetime, away: list[tuple[datetime, datetime]]
) -> list[datetime]:
    """Return the ticks that fire by the schedule's policy: all in time, and of the missed ones its newest after each outage."""
    definition = declared.definition
    grace = timedelta(seconds=definition.grace)
    ticks = [following(definition.when, start, start)]
    while ticks[-1] < until:
        ticks.append(following(definition.when, start, ticks[-1]))
    for begin, end in away:
        missed = [tick for tick in ticks if begin <= tick < end - grace]
        dropped = set(missed[: len(missed) - definition.catch_up])
        ticks = [tick for tick in ticks if tick not in dropped]
    return ticks[:1] if definition.overlap == "skip" else ticks


@pytest.mark.prove
def test_s14_each_tick_of_a_year_is_as_its_policy_wants() -> None:
    async def story() -> None:
        year = Year(7)
        start = year.now
        away = await year.run()
        schedules = (await year.memory.schedules()).found
        stored = {job.id for job in await year.memory.list(JobFilter(limit=100_000))}
        wanted = set[UUID]()
        for each, schedule in zip(SCHEDULES, schedules, strict=True):
            assert schedule.last_tick is not None
            ticks = expected(each, start, schedule.last_tick, away)
            jobs = {job_of(each.name, tick, schedule.plan.edition) for tick in ticks}
            assert len(jobs) == len(ticks)
            assert jobs <= stored, each.name
            wanted |= jobs
        assert stored == wanted
        assert len(stored) > 5_000
        emitted = [event["job"] for event in year.log.of("schedule.fired")]
        assert len(set(emitted)) == len(emitted) > 0.99 * len(stored)

    asyncio.run(story())

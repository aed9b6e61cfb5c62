"""Gauges of the store are read seldom, in bounded time, and close to what is there."""

from datetime import UTC, datetime

import pytest

from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.requests import JobFilter
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._ports.table import States
from holdfast.metrics.rows_gauges import RowsGauges
from holdfast.metrics.store_gauges import KEPT, StoreGauges
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryTransport
from tests.engine.support import Flaky, enqueue


class Site:
    """A store in memory and its gauges; a test moves the time."""

    def __init__(self) -> None:
        self.clock, self.chance = FakeClock(), FakeChance()
        self.memory = MemoryStore(self.clock)
        self.store = Flaky(self.memory)
        environment = Environment(self.store, MemoryTransport(), self.clock, self.chance, Events())  # type: ignore[arg-type]
        self.gauges = StoreGauges(lambda: Client(environment, give_up=0), self.clock)


@pytest.mark.parametrize("waits", [[0.5], [7.0, 3.0], [86_400.0, 300.0, 1.0], [301.0]])
async def test_the_longest_wait_is_exact_to_a_few_percent(waits: list[float]) -> None:
    site, passed = Site(), 0.0
    for wait in sorted(waits, reverse=True):
        site.clock.advance(max(waits) - wait - passed)
        passed = max(waits) - wait
        await enqueue(site.memory, site.chance, ("t", b"{}"))
    site.clock.advance(max(waits) - passed)
    found = (await site.gauges.read())["queue_oldest_waiting_seconds", "default"]
    assert found == pytest.approx(max(waits), rel=0.06, abs=1.0)
    assert site.store.calls.count("list") <= 20
    assert await site.memory.list(JobFilter(available_before=datetime.fromtimestamp(site.clock.wall(), UTC)))


async def test_many_scrapers_cost_one_read_in_five_seconds() -> None:
    site = Site()
    await enqueue(site.memory, site.chance, ("t", b"{}"))
    await site.gauges.read()
    once = len(site.store.calls)
    for _ in range(10):
        await site.gauges.read()
    assert len(site.store.calls) == once
    site.clock.advance(KEPT)
    await site.gauges.read()
    assert len(site.store.calls) > once


async def test_a_store_that_is_away_shows_as_down_and_shows_nothing_old() -> None:
    site = Site()
    await enqueue(site.memory, site.chance, ("t", b"{}"))
    assert (await site.gauges.read())["store_up",] == 1.0
    site.store.is_out = True
    site.clock.advance(KEPT)
    assert await site.gauges.read() == {("store_up",): 0.0}


async def test_how_the_store_is_kept_is_shown_and_counts_stop_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    site, asked = Site(), list[object]()

    async def counts(*given: object) -> dict[object, int]:
        asked.append(given)
        return {}

    async def queues(*given: object) -> tuple[()]:
        asked.append(given)
        return ()

    monkeypatch.setattr(site.memory, "counts", counts)
    monkeypatch.setattr(site.memory, "queues", queues)
    found = await site.gauges.read()
    assert (found["schema_version",], found["prune_lag_seconds",]) == (1, 0.0)
    assert asked == [(MOST_COUNTED,), ("task", MOST_COUNTED)]


async def test_rows_are_counted_once_a_minute_and_a_table_that_does_not_answer_costs_one_look_in_ten() -> None:
    clock, looks = FakeClock(), list[str]()

    async def look() -> States:
        looks.append("mails")
        return States({"new": 3, "busy": 2}, 3, 1, 7.0, ())

    async def broken() -> States:
        looks.append("gone")
        raise OSError("no such table")

    gauges = RowsGauges(lambda: {"mails": look, "gone": broken}, clock)
    for _ in range(21):
        found = await gauges.read()
        clock.advance(30.0)
    assert found == {("rows", "mails", "new"): 3, ("rows", "mails", "busy"): 2, ("rows_stuck", "mails"): 1}
    assert (looks.count("mails"), looks.count("gone")) == (11, 2)

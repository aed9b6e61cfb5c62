"""Gauges of the store are read seldom, in bounded time, and close to what is there."""

from datetime import UTC, datetime

import pytest

from holdfast._core.requests import JobFilter
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
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

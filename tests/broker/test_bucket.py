"""The calls of the API on a bucket, where each write takes long."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast._system.clock import SystemClock
from holdfast.stores.objects.limits import Limits
from holdfast.stores.objects.store import ObjectStore
from holdfast.testing.clock import FakeChance
from tests.broker.support import running
from tests.broker.test_api import Caller
from tests.engine.support import until
from tests.stores.objects_world import Scripted, World, enqueue, new

JOBS, WRITE = 20, "PUT head.json"


def test_a_claim_of_many_jobs_needs_few_writes_and_no_two_claims_at_once_get_the_same() -> None:
    world, clock = World(), SystemClock()
    bucket = Scripted(world.name, clock)
    store = ObjectStore(world.name, clock=clock, chance=FakeChance(), bucket=bucket)
    with running(store, clock) as broker:
        api = Caller(broker.url)
        jobs = api.post("/jobs", [{"task": "t"} for _ in range(2 * JOBS)]).body
        before, found = bucket.calls[WRITE], list[Any]()

        def claim() -> None:
            found.append(api.post("/jobs/claim", {"worker": "w", "tasks": ["t"], "limit": JOBS}).body)

        threads = [threading.Thread(target=claim) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20.0)
        assert sorted(each["id"] for some in found for each in some) == sorted(each["id"] for each in jobs)
        assert [len(some) for some in found] == [JOBS, JOBS]
        assert bucket.calls[WRITE] - before <= 2 * JOBS  # a write for each lease and each claim would be four times as many


def test_a_broker_reports_what_it_notices_about_its_bucket(caplog: pytest.LogCaptureFixture) -> None:
    world, clock = World(), SystemClock()
    bucket = Scripted(world.name, clock)
    store = ObjectStore(world.name, clock=clock, chance=FakeChance(), bucket=bucket, limits=Limits(jobs=1))
    asyncio.run(enqueue(store, new()))
    with running(store, clock, maintains=True):
        asyncio.run(until(lambda: "store.crowded limit=jobs used=1 most=1" in caplog.text))

"""Two handles on a bucket, in turns, return the same answers as SQLite to any calls in any order at any time.

The memory store cannot be the oracle here: it shares its verbs with the store in a bucket.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec import structs

from holdfast._core.flow_changes import FlowChange
from holdfast._core.lifecycle import LeaseEnd
from holdfast._ports.store import Store
from holdfast.databases.buckets.opening import open_bucket
from holdfast.stores.objects.store import ObjectStore
from holdfast.stores.objects.tidying import Sizes
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance
from holdfast.testing.contracts.scene import PROCESS
from proof.stores.faulty_bucket import FaultyBucket
from tests.contract.test_model import EXAMPLES, Model
from tests.contract.test_objects import SleepingClock, insist_on_creating, look

NAMES = FakeChance(0x30DE1)


class Alternating:
    """Stores that are asked one after the other. None of them returns the time since a beat, because not all know it. Each judges leases
    by what it has seen itself."""

    def __init__(self, stores: Sequence[Any]) -> None:
        self.stores, self._asked = [*stores], 0

    def __getattr__(self, name: str) -> Any:
        self._asked += 1
        turn = self._asked % len(self.stores)
        verb = getattr(self.stores[turn], name)
        if name == "expired":
            return partial(self._expired, turn)
        if name != "beat":
            return verb

        async def beat(*arguments: Any, **keywords: Any) -> Any:
            return structs.replace(await verb(*arguments, **keywords), elapsed=None)

        return beat

    async def _expired(self, turn: int, limit: int) -> Any:
        views = await self.stores[turn].expired(limit)
        return tuple(structs.replace(view, seen=f"{turn} {view.seen}") for view in views)

    async def end_lease(self, lease: UUID, end: LeaseEnd, *, seen: str | None = None) -> Any:
        turn, _, own = (seen or "").rpartition(" ")
        return await self.stores[int(turn or 0)].end_lease(lease, end, seen=own or None)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return tuple(change for store in self.stores for change in store.take_flow_changes())


class ObjectModel(Model):
    """A part of all writes and reads goes wrong, and runs are flushed and merged all the time."""

    def make_store(self) -> tuple[asyncio.Runner, Store]:
        self.name, self.seeds = f"memory-object://{NAMES.uuid4()}", Random(0)
        runner = asyncio.Runner()
        runner.run(insist_on_creating(self.name))
        self.turns = Alternating([self.handle(), self.handle()])
        return runner, self.turns  # type: ignore[return-value]

    def make_oracle(self) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "jobs.db"
        self.sqlite = SqliteStore(path, clock=self.clock, chance=FakeChance(), process=PROCESS)
        return Alternating([self.sqlite])  # type: ignore[return-value]

    def handle(self) -> ObjectStore:
        bucket = FaultyBucket(open_bucket(self.name, self.clock), Random(self.seeds.random()), writes=0.1, reads=0.05)
        chance = FakeChance(self.seeds.getrandbits(64))
        return ObjectStore(self.name, clock=SleepingClock(self.clock), chance=chance, bucket=bucket, sizes=Sizes(3000, archive=2))

    @rule(index=st.integers(0, 1))
    def reload(self, index: int) -> None:
        """Replace a handle by one that has read everything, and goes on with what it has seen of leases."""
        old, new = self.turns.stores[index], self.handle()
        new._committer._sightings = old._committer._sightings
        self.turns.stores[index] = new
        self.runner.run(old.close())

    def advance(self, seconds: float) -> None:
        for store in self.turns.stores:
            self.runner.run(look(store))
        super().advance(seconds)

    advance = rule(seconds=st.sampled_from([0.000001, 1.0, 2.0, 10.0, 10.000001, 29.0, 31.0, 900.0]))(advance)

    @rule()
    def step_wall(self) -> None:
        """Step forward only: the time of a bucket does not go back by a few seconds."""
        self.store_clock.step_wall(3.0)

    def teardown(self) -> None:
        for store in (*self.turns.stores, self.sqlite):
            self.runner.run(store.close())
        self.runner.close()
        self.folder.cleanup()


ObjectModel.TestCase.settings = settings(max_examples=max(EXAMPLES // 4, 1), stateful_step_count=50, deadline=None)


@pytest.mark.timeout(3600 if EXAMPLES > 40 else 120)
class TestModel(ObjectModel.TestCase):
    """Hypothesis' own test case."""


@pytest.mark.prove
@pytest.mark.timeout(3600)
class TestLong(TestModel):
    """The same with many more examples."""

    settings = settings(TestModel.settings, max_examples=5 * EXAMPLES, stateful_step_count=50)

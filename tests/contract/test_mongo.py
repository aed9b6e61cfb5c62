"""The MongoDB store keeps the contract."""

from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast._ports.store import Store
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract
from tests.stores.mongo_homes import MongoHome


class TestMongo(StoreContract):
    """A replica set of one member. The set's clock follows the test's."""

    @pytest.fixture(autouse=True)
    def empty_home(self, mongo_home: MongoHome) -> None:
        self.home = mongo_home

    def make_store(self, clock: FakeClock) -> Store:
        return self.home.store(clock)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.home.run(story)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        self.home.clock.advance(seconds)

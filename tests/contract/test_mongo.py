"""The MongoDB store keeps the contract."""

from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast._ports.store import Store
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.claiming import ClaimContract
from holdfast.testing.contracts.enqueuing import EnqueueContract
from holdfast.testing.contracts.fencing import FenceContract
from holdfast.testing.contracts.key_periods import KeyPeriodContract
from holdfast.testing.contracts.owning import LeaseContract
from holdfast.testing.contracts.racing import RaceContract
from holdfast.testing.contracts.rescuing import RescueContract
from holdfast.testing.contracts.scene import Part
from holdfast.testing.contracts.settling import SettleContract
from holdfast.testing.contracts.voiding import VoidContract
from holdfast.testing.contracts.workflows import WorkflowContract
from tests.stores.mongo_homes import MongoHome


class AtHome(Part):
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


class TestMongo(
    AtHome,
    ClaimContract,
    EnqueueContract,
    FenceContract,
    KeyPeriodContract,
    LeaseContract,
    RaceContract,
    RescueContract,
    SettleContract,
    VoidContract,
    WorkflowContract,
):
    """Ownership, and the moves of workflows."""


@pytest.mark.prove
class TestWhole(AtHome, StoreContract):
    """The whole contract."""

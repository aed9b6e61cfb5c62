"""The PostgreSQL store keeps the contract, whatever is between it and its server and whatever that server is used to."""

from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast._ports.store import Store
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract
from tests.stores.postgres_homes import KINDS, Homes


class OnPostgres(StoreContract):
    """The server's clock follows the test's. All stores share connections, because making those takes longer than a test."""

    kind = "18"

    @pytest.fixture(autouse=True)
    def empty_home(self, homes: Homes) -> None:
        self.home = homes.empty(self.kind)

    def make_store(self, clock: FakeClock) -> Store:
        return self.home.store(clock)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.home.run(story)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        self.home.clock.advance(seconds)


class TestPostgres(OnPostgres):
    """The newest release."""


class TestSerializable(OnPostgres):
    """The user's own transactions are SERIALIZABLE if nothing else is said."""

    kind = "serializable"


class TestRoles(OnPostgres):
    """Who enqueues, works, reads and migrates is somebody else each time, and may do no more than that."""

    kind = "roles"


if KINDS["15"]:

    class TestPostgres15(OnPostgres):
        """An old release, where texts have an order of their own."""

        kind = "15"


if KINDS["pooled"]:

    class TestPooled(OnPostgres):
        """Each transaction may be on another connection."""

        kind = "pooled"

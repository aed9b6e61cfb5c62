"""The PostgreSQL store keeps the contract on all supported servers, poolers, roles and isolation levels."""

from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast._ports.store import Store
from holdfast.stores.postgres import claim_cursor
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.capacity import CapacityContract
from holdfast.testing.contracts.claiming import ClaimContract
from holdfast.testing.contracts.delivering import DeliverContract
from holdfast.testing.contracts.expiring import ExpiryContract
from holdfast.testing.contracts.isolating import LastTryContract
from holdfast.testing.contracts.queues import QueueContract
from holdfast.testing.contracts.rates import RateContract
from holdfast.testing.contracts.scene import Part
from holdfast.testing.contracts.settling import SettleContract
from holdfast.testing.contracts.turns import TurnContract
from tests.stores.postgres_databases import KINDS, Homes


class AtHome(Part):
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


class OnPostgres(AtHome, StoreContract):
    """The PostgreSQL store keeps the whole contract."""


class TestPostgres(OnPostgres):
    """The newest supported release of PostgreSQL."""


@pytest.mark.prove
class TestSerializable(OnPostgres):
    """A server whose transactions are SERIALIZABLE by default."""

    kind = "serializable"


class TestOneRange(
    AtHome,
    ClaimContract,
    LastTryContract,
    ExpiryContract,
    QueueContract,
    DeliverContract,
    SettleContract,
    TurnContract,
    CapacityContract,
    RateContract,
):
    """A worker with a large backlog in one range claims from it without looking at others."""

    @pytest.fixture(autouse=True)
    def large_backlog(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(claim_cursor, "FAST", 0)


@pytest.mark.prove
class TestRoles(OnPostgres):
    """The roles that enqueue, work, read and migrate are different, and have no other rights."""

    kind = "roles"


if KINDS["15"]:

    @pytest.mark.prove
    class TestPostgres15(OnPostgres):
        """An old release, with another collation."""

        kind = "15"


if KINDS["pooled"]:

    @pytest.mark.prove
    class TestPooled(OnPostgres):
        """A pooler, behind which each transaction may use another connection."""

        kind = "pooled"

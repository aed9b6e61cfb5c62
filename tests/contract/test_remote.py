"""The remote store keeps the contract: a broker serves another store, and each handle is a client of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.remote.store import RemoteStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.claiming import ClaimContract
from holdfast.testing.contracts.enqueuing import EnqueueContract
from holdfast.testing.contracts.fencing import FenceContract
from holdfast.testing.contracts.owning import LeaseContract
from holdfast.testing.contracts.racing import RaceContract
from holdfast.testing.contracts.scene import PROCESS, Part
from holdfast.testing.contracts.settling import SettleContract
from holdfast.testing.contracts.stepping import StepContract
from holdfast.testing.contracts.workflows import WorkflowContract
from tests.broker.support import RunningBroker, running
from tests.stores.postgres_databases import Homes


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """One server for all tests: each has it serve another store."""
    clock = FakeClock()
    with running(MemoryStore(clock), clock) as broker:
        yield broker


class Served(Part):
    """Every handle has separate connections to one broker."""

    served: Store | None = None

    @pytest.fixture(autouse=True)
    def serve(self, broker: RunningBroker) -> Iterator[None]:
        self.broker = broker
        yield
        if self.served is not None:
            self.broker.close_store()

    def make_store(self, clock: FakeClock) -> Store:
        if self.served is None:
            self.served = self.make_served(clock)
            self.broker.replace(self.served)
        return cast(Store, RemoteStore([self.broker.url], token=None, chance=FakeChance()))

    def make_served(self, clock: FakeClock) -> Store:
        """Make the store that the broker serves."""
        raise NotImplementedError


class Remote(Served, StoreContract):
    """The whole contract."""


@pytest.mark.prove
class TestRemoteMemory(Remote):
    """The broker's own memory."""

    def make_served(self, clock: FakeClock) -> Store:
        return MemoryStore(clock)


class TestRemote(
    Served,
    RaceContract,
    EnqueueContract,
    ClaimContract,
    SettleContract,
    FenceContract,
    LeaseContract,
    StepContract,
    WorkflowContract,
):
    """What each call needs on its way; the long tests run the whole contract."""

    def make_served(self, clock: FakeClock) -> Store:
        return MemoryStore(clock)


@pytest.mark.prove
class TestRemoteSqlite(Remote):
    """A file that only the broker opens."""

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "jobs.db"

    def make_served(self, clock: FakeClock) -> Store:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=PROCESS)


@pytest.mark.prove
class TestRemotePostgres(Remote):
    """A database whose clock follows the test's, and whose connections the broker has."""

    @pytest.fixture(autouse=True)
    def empty_home(self, homes: Homes) -> None:
        self.home = homes.empty("18")

    def make_served(self, clock: FakeClock) -> Store:
        self.home.follow(clock)
        return PostgresStore(self.home.dsn, clock=clock, chance=FakeChance(), process=PROCESS)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        self.home.clock.advance(seconds)

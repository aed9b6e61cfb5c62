"""PostgreSQL and the memory store answer alike, whatever is asked in whatever order, at whatever time."""

import pytest
from hypothesis import settings

from holdfast._ports.store import Store
from holdfast.testing.clock import FakeClock
from tests.contract.test_model import EXAMPLES, Model
from tests.stores.postgres_homes import Home, Homes


class PostgresModel(Model):
    """The server's clock is that of memory; the wall clock of the machine that asks it may be set, and nobody cares."""

    home: Home

    def make_store(self) -> Store:
        self.store_clock = FakeClock()
        return self.home.empty().store(self.store_clock)


PostgresModel.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None)


@pytest.mark.timeout(3600 if EXAMPLES > 40 else 60)
class TestModel(PostgresModel.TestCase):
    """Hypothesis' own test case."""

    @pytest.fixture(autouse=True)
    def a_home(self, homes: Homes) -> None:
        PostgresModel.home = homes.empty()

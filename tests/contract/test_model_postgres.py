"""PostgreSQL and the memory store return the same answers to any calls in any order at any time."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import settings

from holdfast._ports.store import Store
from holdfast.testing.clock import FakeClock
from tests.contract.test_model import EXAMPLES, Model
from tests.stores.postgres_databases import Home, Homes


class PostgresModel(Model):
    """The server's clock is that of the memory store; a change of the client's wall clock has no effect.

    One store for all examples: making connections would take longer than using them.
    """

    home: Home
    tenant: tuple[asyncio.Runner, Store]

    def make_store(self) -> tuple[asyncio.Runner, Store]:
        self.store_clock = FakeClock()
        self.home.empty().follow(self.store_clock)
        return self.tenant


PostgresModel.TestCase.settings = settings(max_examples=max(EXAMPLES // 3, 1), stateful_step_count=50, deadline=None)


@pytest.mark.timeout(3600 if EXAMPLES > 40 else 120)
class TestModel(PostgresModel.TestCase):
    """Hypothesis' own test case."""

    @pytest.fixture(autouse=True)
    def tenant(self, homes: Homes) -> Iterator[None]:
        PostgresModel.home = homes.empty()
        with asyncio.Runner() as runner:
            store = PostgresModel.home.store(FakeClock())
            PostgresModel.tenant = runner, store
            yield
            runner.run(store.close())


@pytest.mark.prove
@pytest.mark.timeout(3600)
class TestLong(TestModel):
    """The same with many more examples."""

    settings = settings(TestModel.settings, max_examples=5 * EXAMPLES, stateful_step_count=50)

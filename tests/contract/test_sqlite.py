"""The SQLite store keeps the contract."""

from pathlib import Path

import pytest

from holdfast._ports.store import Store
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.scene import PROCESS


class TestSqlite(StoreContract):
    """Every handle has a separate connection to one file, through the SQLite of Python."""

    use_apsw = False

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "jobs.db"

    def make_store(self, clock: FakeClock) -> Store:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=PROCESS, use_apsw=self.use_apsw)


@pytest.mark.prove
class TestSqliteOfApsw(TestSqlite):
    """The same through the SQLite that apsw brings; `tests/stores` shows with every push where the two libraries differ."""

    use_apsw = True

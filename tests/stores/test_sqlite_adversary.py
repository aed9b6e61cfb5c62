"""What an enemy of the file tried, and what has to hold nevertheless."""

from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.stores.sqlite import driver
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part, Scene, play
from holdfast.testing.clock import FakeChance


class OnFile(Part):
    """Scenes on an application's own file."""

    def __init__(self, path: Path, *, use_apsw: bool) -> None:
        self.path, self.use_apsw = path, use_apsw

    def make_store(self, clock: FakeClock) -> SqliteStore:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=PROCESS, use_apsw=self.use_apsw)


@pytest.fixture(params=["sqlite3", "apsw"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> OnFile:
    return OnFile(tmp_path / "app.db", use_apsw=request.param == "apsw")


@pytest.mark.parametrize("goes_on", [True, False])
def test_nothing_lands_without_the_check_after_sqlite_itself_rolled_back(file: OnFile, *, goes_on: bool) -> None:
    with closing(driver.connect(file.path, use_apsw=file.use_apsw)) as connection:
        connection.execute("CREATE TABLE notes (place INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO notes VALUES (1)")

    async def act(at: Scene) -> None:
        hold = await at.running()
        with pytest.raises(HoldfastError, match="rolled back by SQLite itself"):
            async with at.store.transaction(hold.job, hold.token, idle=60.0) as mine:
                mine.execute("INSERT INTO notes VALUES (2)")
                with suppress(Exception):
                    mine.execute("INSERT OR ROLLBACK INTO notes VALUES (1)")
                if goes_on:
                    mine.execute("INSERT INTO notes VALUES (2)")  # known already: a compiled copy of it would be used
        with closing(driver.connect(file.path, use_apsw=file.use_apsw)) as connection:
            assert connection.execute("SELECT place FROM notes").fetchall() == [(1,)]

    play(file, act)

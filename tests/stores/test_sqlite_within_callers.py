"""Jobs inside a caller's own transaction, by every library that can have one on a file of SQLite's."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import App
from tests.stores import callers
from tests.stores.callers import Caller
from tests.stores.within_stories import WithinStories

KINDS: dict[str, Callable[[Path], Caller]] = {
    "sqlite3": lambda file: callers.Sqlite3(str(file)),
    "aiosqlite": lambda file: callers.Aiosqlite(str(file)),
    "SQLAlchemy Session": lambda file: callers.AlchemySession(f"sqlite:///{file}"),
    "SQLAlchemy scoped_session": lambda file: callers.AlchemyScopedSession(f"sqlite:///{file}"),
    "SQLAlchemy Connection": lambda file: callers.AlchemyConnection(f"sqlite:///{file}"),
    "SQLAlchemy AsyncSession": lambda file: callers.AwaitedAlchemySession(f"sqlite+aiosqlite:///{file}"),
    "SQLAlchemy async_scoped_session": lambda file: callers.AwaitedAlchemyScopedSession(f"sqlite+aiosqlite:///{file}"),
    "SQLAlchemy AsyncConnection": lambda file: callers.AwaitedAlchemyConnection(f"sqlite+aiosqlite:///{file}"),
    "Django": lambda file: callers.Django(str(file)),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[Path], Caller]:
    return KINDS[request.param]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    return file


@pytest.fixture
def app(file: Path) -> Iterator[App]:
    app = App(f"sqlite:///{file}")
    app.migrate()
    yield app
    app.close()


@pytest.fixture
def caller(kind: Callable[[Path], Caller], file: Path, app: App) -> Iterator[Caller]:
    caller = kind(file)
    yield caller
    caller.close()


@pytest.fixture
def elsewhere(kind: Callable[[Path], Caller], tmp_path: Path) -> Iterator[Caller]:
    caller = kind(tmp_path / "elsewhere.db")
    yield caller
    caller.close()


@pytest.fixture
def orders(file: Path) -> Callable[[], int]:
    """How many anybody else sees."""

    def count() -> int:
        with closing(sqlite3.connect(file)) as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])

    return count


class TestWithinOnSqlite(WithinStories):
    """Every story, on every kind."""

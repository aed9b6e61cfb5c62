"""Jobs inside a caller's own transaction, by every library that can have one on a file of SQLite's."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.db.transaction import TransactionManagementError

from holdfast import App
from tests.stores import callers
from tests.stores.callers import Caller
from tests.stores.within_cases import WithinStories, shrink

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


def test_a_session_that_is_closed_tells_nobody_of_what_it_did_not_commit(app: App, file: Path) -> None:
    told: list[object] = []
    app.on("job.enqueued")(lambda event: told.append(event.fields["job"]))
    caller, task = callers.AlchemySession(f"sqlite:///{file}"), app.task(shrink)
    caller.enqueue(task.options(within=caller.within), "a")
    caller.within.close()
    kept = caller.enqueue(task.options(within=caller.within), "b")
    caller.commit()
    caller.close()
    assert told == [kept.id]
    assert [job.id for job in app.jobs.list()] == [kept.id]


def test_a_session_tells_of_a_savepoint_inside_another_only_if_both_stay(app: App, file: Path) -> None:
    told: list[object] = []
    app.on("job.enqueued")(lambda event: told.append(event.fields["job"]))
    caller, task = callers.AlchemySession(f"sqlite:///{file}"), app.task(shrink)
    with caller.within.begin_nested() as outer:
        with caller.within.begin_nested():
            caller.enqueue(task.options(within=caller.within), "a")
        outer.rollback()
    caller.commit()
    caller.close()
    assert (told, app.jobs.list()) == ([], [])


def test_django_without_autocommit_commits_jobs_and_tells_nobody(app: App, file: Path) -> None:
    told: list[object] = []
    app.on("job.enqueued")(lambda event: told.append(event.fields["job"]))
    caller = callers.Django(str(file))
    caller.rollback()
    caller.within.set_autocommit(False)
    handle = caller.enqueue(app.task(shrink).options(within=caller.within), "a")
    assert app.jobs.list() == []
    caller.within.commit()
    caller.within.set_autocommit(True)
    caller.close()
    assert ([job.id for job in app.jobs.list()], told) == ([handle.id], [])


def test_a_block_of_djangos_that_is_broken_is_refused(app: App, file: Path) -> None:
    caller = callers.Django(str(file))
    caller.within.set_rollback(True)
    with pytest.raises(TransactionManagementError, match="until the end of the 'atomic' block"):
        caller.enqueue(app.task(shrink).options(within=caller.within), "a")
    caller.rollback()
    caller.close()
    assert app.jobs.list() == []

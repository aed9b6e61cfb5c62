"""Jobs inside a caller's own transaction, by every library for SQLite."""

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
    """Return a function that counts the orders which other connections see."""

    def count() -> int:
        with closing(sqlite3.connect(file)) as connection:
            return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])

    return count


class TestWithinOnSqlite(WithinStories):
    """Run every test on every kind of connection."""


def test_a_session_that_is_closed_announces_no_job_that_it_did_not_commit(app: App, file: Path) -> None:
    announced: list[object] = []
    app.on("job.enqueued")(lambda event: announced.append(event.fields["job"]))
    caller, task = callers.AlchemySession(f"sqlite:///{file}"), app.task(shrink)
    caller.enqueue(task.options(within=caller.within), "a")
    caller.within.close()
    kept = caller.enqueue(task.options(within=caller.within), "b")
    caller.commit()
    caller.close()
    assert announced == [kept.id]
    assert [job.id for job in app.jobs.list()] == [kept.id]


def test_a_session_announces_jobs_of_a_nested_savepoint_only_if_both_stay(app: App, file: Path) -> None:
    announced: list[object] = []
    app.on("job.enqueued")(lambda event: announced.append(event.fields["job"]))
    caller, task = callers.AlchemySession(f"sqlite:///{file}"), app.task(shrink)
    with caller.within.begin_nested() as outer:
        with caller.within.begin_nested():
            caller.enqueue(task.options(within=caller.within), "a")
        outer.rollback()
    caller.commit()
    caller.close()
    assert (announced, app.jobs.list()) == ([], [])


def test_django_without_autocommit_commits_jobs_and_announces_none(app: App, file: Path) -> None:
    announced: list[object] = []
    app.on("job.enqueued")(lambda event: announced.append(event.fields["job"]))
    caller = callers.Django(str(file))
    caller.rollback()
    caller.within.set_autocommit(False)
    handle = caller.enqueue(app.task(shrink).options(within=caller.within), "a")
    assert app.jobs.list() == []
    caller.within.commit()
    caller.within.set_autocommit(True)
    caller.close()
    assert ([job.id for job in app.jobs.list()], announced) == ([handle.id], [])


def test_a_broken_atomic_block_of_django_is_refused(app: App, file: Path) -> None:
    caller = callers.Django(str(file))
    caller.within.set_rollback(True)
    with pytest.raises(TransactionManagementError, match="until the end of the 'atomic' block"):
        caller.enqueue(app.task(shrink).options(within=caller.within), "a")
    caller.rollback()
    caller.close()
    assert app.jobs.list() == []

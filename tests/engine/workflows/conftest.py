"""Every test of this folder that uses a store runs in memory, on a file and, in `make prove`, on PostgreSQL.

The contract shows with every push that the three stores are alike.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast import App
from holdfast.testing.servers import PostgresServer
from tests.engine.workflows import stores

TABLES = """
SELECT string_agg(format('DELETE FROM holdfast.%I', relname), ';') FROM pg_class
WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
AND relname NOT IN ('versions', 'partition_days')
"""


@pytest.fixture(scope="session")
def emptied(postgres_server: PostgresServer) -> Iterator[Callable[[], str]]:
    """Return a function that empties one database and returns its address: a new one for each test would take longer than the tests."""
    dsn = postgres_server.create_database()
    app = App(dsn)
    app.migrate()
    app.close()
    with psycopg.connect(dsn, autocommit=True) as session:
        ((delete_all,),) = session.execute(TABLES).fetchall()

        def empty() -> str:
            session.execute(delete_all)
            return dsn

        yield empty


@pytest.fixture(autouse=True, params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Let ``stores.new_app`` make Apps on an empty store of this kind, and close them after the test."""
    match request.param:
        case "memory":
            url = "memory://"
        case "sqlite":
            url = f"sqlite:///{tmp_path}/jobs.db"
        case _:
            url = request.getfixturevalue("emptied")()
    with stores.at(url):
        yield

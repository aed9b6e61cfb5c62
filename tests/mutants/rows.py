"""Mutants of rows: their tests run on two kinds of databases, and their statements are read at every use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.databases.postgres import session_settings as sessions
from tests.mutants.databases import LANE_SERVER


def runs_on(item: Any, store: str) -> bool:
    """Return whether a test runs on that kind of database."""
    chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return ("postgres" in chosen or "postgres_dsn" in item.fixturenames) == (store == "rows-postgres")


@contextmanager
def postgres() -> Iterator[None]:
    """Run one server for all children of a lane, in which each test has a separate database and a short lock timeout."""
    sessions._SESSION["lock_timeout"] = "1s"
    with LANE_SERVER.server:
        yield

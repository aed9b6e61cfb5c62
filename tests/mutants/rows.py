"""The rows room: its stories are played on two kinds of databases, and its statements are read whenever they are asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.databases.postgres import session_settings as sessions
from tests.mutants.databases import PLACE


def is_played_on(item: Any, store: str) -> bool:
    """Whether a test is one of that kind of database."""
    chosen = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return ("postgres" in chosen or "postgres_dsn" in item.fixturenames) == (store == "rows-postgres")


@contextmanager
def postgres() -> Iterator[None]:
    """One server for all children of a lane, in which each test has a database of its own; nobody waits for a lock for long."""
    sessions._SESSION["lock_timeout"] = "1s"
    with PLACE.server:
        yield

"""The store on which a test of workflows runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

import psycopg

from holdfast import App
from holdfast._core.member_record import with_member
from holdfast.stores.memory import MemoryStore

_urls = ["memory://"]
_apps = list[App]()


@contextmanager
def at(url: str) -> Iterator[None]:
    """Make Apps of this URL, and close them at the end."""
    _urls.append(url)
    try:
        yield
    finally:
        _urls.pop()
        while _apps:
            _apps.pop().close()


def new_app(**options: Any) -> App:
    """Return an App on the empty store of the test; Apps of one test share a store that is not in memory."""
    _apps.append(App(_urls[-1], **options))
    return _apps[-1]


def set_needs(app: App, job: UUID, needs: int) -> None:
    """Damage a counter of a node, as hand-made SQL does."""
    url, store = _urls[-1], app._connections.store
    if isinstance(store, MemoryStore):
        store.book._put(with_member(store.book._all.jobs[job], needs=needs))
    elif url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            file.execute("UPDATE holdfast_members SET needs = ? WHERE job = ?", (needs, job.bytes))
    else:
        with psycopg.connect(url) as session:
            session.execute("UPDATE holdfast.members SET needs = %s WHERE job = %s", (needs, job))

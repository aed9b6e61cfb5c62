"""One server for all children of a lane, and one database, which each of them finds as new."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.databases.postgres.database import Pools
from holdfast.testing.servers import PostgresServer
from tests.stores.postgres_databases import Home, Homes, Tenant

_PATIENCE = {"statement_timeout": "5s", "lock_timeout": "2s"}


class Place:
    """Where homes of this lane are."""

    def __init__(self) -> None:
        self.server = PostgresServer()
        self._home: Home | None = None

    def furnish(self) -> None:
        """From now on homes are here, and whoever moves in finds the lines that were laid before."""
        make = Homes._make
        self._build()
        Homes._make = lambda homes, kind: self._home if kind == "18" else make(homes, kind)  # type: ignore[method-assign, return-value]
        Home.run = _run  # type: ignore[method-assign]
        Tenant._here = _in_short(Tenant._here)  # type: ignore[method-assign]

    def tidy(self, where: str) -> None:
        """After a child that died there: statements of one that hung may go on."""
        if where not in ("", "call"):
            self.close()
            self._build()

    def close(self) -> None:
        """Let go of it."""
        home, self._home = self._home, None
        if home is not None:
            home.close()
            self.server.drop_database(home.dsn)

    def _build(self) -> None:
        self._home = Home(self.server.create_database())
        self._home.leave()  # an event loop is no thing to share with a fork
        for connection in (self._home._owner, self._home.clock._connection):
            connection.prepare_threshold = None  # what one child has prepared the next one knows nothing of


PLACE = Place()


class Ground:
    """A plugin: its fixture comes before the one that starts a server in each process."""

    @pytest.fixture(scope="session")
    @staticmethod
    def postgres_server() -> PostgresServer:
        """The lane's."""
        return PLACE.server


GROUND = Ground()


def _run(home: Home, story: Coroutine[Any, Any, None]) -> None:
    """Connections are dear: they stay, if nobody can be in the middle of anything."""
    try:
        home._runner.run(story)
    except BaseException:
        pools = [each.shared for each in home._furniture.values()]
        if asyncio.all_tasks(home._runner.get_loop()) or any(pool._lent or not pool._left for pool in pools):
            home.leave()
        raise


def _in_short(here: Callable[[Tenant], Pools]) -> Callable[[Tenant], Pools]:
    """Beats have no connection of their own, and a mutant that goes on for ever is cut off soon."""

    def found(tenant: Tenant) -> Pools:
        if not tenant._location.is_pooled:  # a pooler lets no settings pass
            tenant._server_settings = {**_PATIENCE, **tenant._server_settings}
        pools = here(tenant)
        pools.beats = pools.shared
        return pools

    return found


@contextmanager
def postgres(session: pytest.Session) -> Iterator[Callable[[str], None]]:
    """A server while it lasts; what to do after each child."""
    with PLACE.server:
        PLACE.furnish()
        yield PLACE.tidy
        PLACE.close()

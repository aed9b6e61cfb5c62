"""One server and one database for all children of a lane; each child finds the database as if it were new."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.databases.postgres.database import Pools
from holdfast.testing.servers import PostgresServer
from tests.stores.postgres_databases import Home, Homes, Tenant

_TIMEOUTS = {"statement_timeout": "5s", "lock_timeout": "2s"}


class LaneServer:
    """The server of this lane and its database."""

    def __init__(self) -> None:
        self.server = PostgresServer()
        self._home: Home | None = None

    def install(self) -> None:
        """Make all tests use this database, whose connections stay open from one test to the next."""
        make = Homes._make
        self._build()
        Homes._make = lambda homes, kind: self._home if kind == "18" else make(homes, kind)  # type: ignore[method-assign, return-value]
        Home.run = _run  # type: ignore[method-assign]
        Tenant._here = _with_timeouts(Tenant._here)  # type: ignore[method-assign]

    def clean_up(self, where: str) -> None:
        """Replace the database after a child that died in it: the statements of a hung child may go on."""
        if where not in ("", "call"):
            self.close()
            self._build()

    def close(self) -> None:
        """Close and drop the database, if there is one."""
        home, self._home = self._home, None
        if home is not None:
            home.close()
            self.server.drop_database(home.dsn)

    def _build(self) -> None:
        self._home = Home(self.server.create_database())
        self._home.leave()  # an event loop must not be shared with a fork
        for connection in (self._home._owner, self._home.clock._connection):
            connection.prepare_threshold = None  # the next child does not know the statements that this one prepared


LANE_SERVER = LaneServer()


class ServerPlugin:
    """A plugin whose fixture replaces the one that starts a server in each process."""

    @pytest.fixture(scope="session")
    @staticmethod
    def postgres_server() -> PostgresServer:
        """Return the server of the lane."""
        return LANE_SERVER.server


SERVER_PLUGIN = ServerPlugin()


def _run(home: Home, story: Coroutine[Any, Any, None]) -> None:
    """Run the story; keep its connections, which are slow to open, unless a call may still use one."""
    try:
        home._runner.run(story)
    except BaseException:
        pools = [each.shared for each in home._furniture.values()]
        if asyncio.all_tasks(home._runner.get_loop()) or any(pool._lent or not pool._left for pool in pools):
            home.leave()
        raise


def _with_timeouts(pools_of: Callable[[Tenant], Pools]) -> Callable[[Tenant], Pools]:
    """Let beats share the connections of other calls, and end a statement of a mutant that loops after 5 s."""

    def found(tenant: Tenant) -> Pools:
        if not tenant._location.is_pooled:  # a pooler passes no settings on
            tenant._server_settings = {**_TIMEOUTS, **tenant._server_settings}
        pools = pools_of(tenant)
        pools.beats = pools.shared
        return pools

    return found


@contextmanager
def postgres(session: pytest.Session) -> Iterator[Callable[[str], None]]:
    """Run the server of the lane; yield the clean-up after each child."""
    with LANE_SERVER.server:
        LANE_SERVER.install()
        yield LANE_SERVER.clean_up
        LANE_SERVER.close()

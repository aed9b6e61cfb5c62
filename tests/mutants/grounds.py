"""One server for all children of a lane, and one database, which each of them finds as new."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdfast.testing.servers import PostgresServer
from tests.stores.postgres_homes import Home, Homes


class Ground:
    """A plugin: its fixture comes before the one that starts a server in each process."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._build()

    @pytest.fixture(scope="session")
    def postgres_server(self) -> PostgresServer:
        """The lane's."""
        return self._server

    def furnish(self) -> None:
        """From now on homes are here."""
        make = Homes._make

        def move_in(homes: Homes, kind: str) -> Home:
            if kind != "18":
                return make(homes, kind)
            home = Home(self._dsn)
            home._days = self._days  # whatever a mutant has done to the partitions is noticed when the home is emptied
            return home

        Homes._make = move_in  # type: ignore[method-assign]

    def tidy(self, where: str) -> None:
        """After a child that died there: statements of one that hung may go on."""
        if where not in ("", "call"):
            self._server.drop_database(self._dsn)
            self._build()

    def _build(self) -> None:
        self._dsn = self._server.create_database()
        home = Home(self._dsn)
        self._days = home._days
        home.close()


@contextmanager
def postgres(session: pytest.Session) -> Iterator[Callable[[str], None]]:
    """A server while it lasts; what to do after each child."""
    with PostgresServer() as server:
        ground = Ground(server)
        session.config.pluginmanager.register(ground)
        ground.furnish()
        yield ground.tidy

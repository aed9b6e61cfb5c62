"""Machines around one PostgreSQL server and, if wished, one NATS server, each behind separate proxies that can fail."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from holdfast.testing.servers import NatsServer, PostgresServer
from tests.e2e.machines import Machine
from tests.servers.proxy import TcpProxy

TRANSPORTS = ("", "nats")
"""Transports for tests of whole machines: the default of the store, and JetStream."""
ONE_TRANSPORT = ("nats",)
"""The only transport of tests that would show nothing new with another one."""
ON_BOTH = pytest.mark.parametrize("store_url", ["sqlite", "postgres"], indirect=True)
"""For a test that shows with every push what it shows on a file and on a server."""
PARTITIONS = ("cut", "both", "up", "down", "half_open")
"""How a machine can lose its servers: refused, silent, no request arrives, no answer, or ended on the server's side only."""


def cut(proxy: TcpProxy, how: str) -> None:
    """Cut the way through a proxy; ``how`` is one of ``PARTITIONS``."""
    match how:
        case "cut":
            proxy.cut()
        case "half_open":
            proxy.half_open()
        case "up" | "down" | "both" as way:
            proxy.blackhole(way)


class Site:
    """Servers and the ways to them. ``settings``: those of PostgreSQL. ``user``: the user of the machines, once it exists."""

    def __init__(self, stack: ExitStack, transport: str, settings: Mapping[str, str] | None = None) -> None:
        self._stack = stack
        self.postgres = stack.enter_context(PostgresServer(settings=settings))
        self.nats = stack.enter_context(NatsServer()) if transport == "nats" else None
        self.url = self.postgres.create_database()
        self.transport = "" if self.nats is None else self.nats.url
        self.user = "postgres"
        self._proxies: dict[str, list[TcpProxy]] = {}

    def machine(self, name: str) -> Machine:
        """Return a machine whose ways to the servers can be cut."""
        servers = [self.postgres] if self.nats is None else [self.postgres, self.nats]
        proxies = [self._stack.enter_context(TcpProxy(server.port)) for server in servers]
        self._proxies[name] = proxies
        url, transport = (
            proxies[0].through(self.url.replace("postgres@", f"{self.user}@")),
            "" if self.nats is None else proxies[1].through(self.transport),
        )
        return Machine(name, url, transport)

    def cut_off(self, machine: Machine, how: str) -> None:
        """Cut the ways between that machine and the servers; ``how`` is one of ``PARTITIONS``."""
        for proxy in self._proxies[machine.name]:
            cut(proxy, how)

    def reconnect(self, machine: Machine) -> None:
        """Restore the ways between that machine and the servers."""
        for proxy in self._proxies[machine.name]:
            proxy.restore()


@contextmanager
def site(transport: str = "", settings: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Start the servers for one of ``TRANSPORTS``."""
    with ExitStack() as stack:
        yield Site(stack, transport, settings)

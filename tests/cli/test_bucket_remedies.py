"""What commands print about a store in a bucket can be pasted, and ends the trouble."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from msgspec import structs

from holdfast.testing.servers import BucketServer
from tests.cli.support import run

COMMAND = re.compile(r"`holdfast ([^`]+)`")
HEAD = "jobs/head.json"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketServer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with BucketServer() as server:
        yield server


def pasted(printed: Result, start: str, place: Path | None = None) -> Result:
    """Run the command of what was printed that begins so, as a shell would. ``place``: that of the backup, which no message can know."""
    commands = {found for found in COMMAND.findall(printed.output) if found.startswith(start)}
    (command,) = commands
    return run(*shlex.split(command.replace("PLACE", str(place)) if place else command))


def url_of(server: BucketServer) -> str:
    return f"{server.bucket_url}&interval=1ms"


@pytest.mark.parametrize("words", [["jobs", "list"], ["store", "verify"], ["check"]])
def test_a_missing_store_is_there_after_the_command_of_the_error(server: BucketServer, words: list[str]) -> None:
    given = [*words, "--url", url_of(server)]
    assert pasted(run(*given), "migrate").exit_code == 0
    assert run(*given).exit_code == 0


def overwritten(server: BucketServer, key: str) -> None:
    server.objects[key] = structs.replace(server.objects[key], body=b"{")


def broken_head(server: BucketServer) -> None:
    overwritten(server, HEAD)


def broken_run(server: BucketServer) -> None:
    assert run("store", "compact", "--url", url_of(server)).exit_code == 0
    overwritten(server, next(key for key in server.objects if key.startswith("jobs/runs/")))


def lost_head(server: BucketServer) -> None:
    del server.objects[HEAD]


@pytest.mark.parametrize("words", [["store", "verify"], ["store", "inspect"], ["check"]])
@pytest.mark.parametrize("harm", [broken_head, broken_run, lost_head])
def test_a_damaged_store_is_whole_after_the_restore_that_the_message_names(
    server: BucketServer, folder: Path, harm: Callable[[BucketServer], None], words: list[str]
) -> None:
    given = ["--url", url_of(server)]
    assert run("migrate", *given).exit_code == 0
    assert run("store", "backup", str(folder / "copy"), *given).exit_code == 0
    for number in range(2):
        assert run("queues", "pause", f"queue-{number}", *given).exit_code == 0
    harm(server)
    printed = run(*words, *given)
    assert printed.exit_code != 0
    assert "running and reachable" not in printed.output
    assert pasted(printed, "store restore", folder / "copy").exit_code == 0
    assert run("store", "verify", *given).exit_code == 0


@pytest.mark.prove  # the store is asked again for half a minute
def test_a_head_that_a_store_cannot_read_is_named_by_the_command_of_the_error(server: BucketServer) -> None:
    given = ["--url", url_of(server)]
    assert run("migrate", *given).exit_code == 0
    overwritten(server, HEAD)
    assert "head.json" in pasted(run("jobs", "list", *given), "store verify").stdout


def test_a_newer_format_is_not_reported_as_an_outage(server: BucketServer) -> None:
    given = ["--url", url_of(server)]
    assert run("migrate", *given).exit_code == 0
    head = json.loads(server.objects[HEAD].body)
    server.objects[HEAD] = structs.replace(server.objects[HEAD], body=json.dumps(head | {"needs": 99}).encode())
    for words in (["check"], ["migrate"], ["store", "verify"]):
        printed = run(*words, *given)
        assert printed.exit_code == 1
        assert printed.output.count("upgrade holdfast to the release that migrated the store") == 1
        assert "running and reachable" not in printed.output

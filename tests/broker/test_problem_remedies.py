"""The remedy of a problem, done as it is written, ends the problem."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.http.tokens import Tokens, new_token
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.broker.support import RunningBroker, running
from tests.broker.test_api import Caller, Reply
from tests.cli.support import run

ADMIN, WATCHER = new_token("root", "admin", FakeChance(1)), new_token("eve", "viewer", FakeChance(2))


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    clock = FakeClock()
    known = Tokens.parse("\n".join(line for _, line in (ADMIN, WATCHER, *_of_roles())))
    with running(MemoryStore(clock), clock, authenticate=known) as broker:
        yield broker


def _of_roles() -> list[tuple[str, str]]:
    return [new_token(role, role, FakeChance(number)) for number, role in enumerate(("operator", "producer", "worker"), 10)]


@pytest.fixture
def api(broker: RunningBroker) -> Caller:
    return Caller(broker.url, ADMIN[0])


def remedy(reply: Reply, status: int) -> str:
    """Return what a problem of this status names."""
    assert reply.status == status, reply.body
    found: str = reply.body["remedy"]
    return found


@pytest.mark.parametrize("path", ["/queues/none", "/workers/none", "/schedules/none", "/nothing", "/rows/none/stop"])
def test_the_path_that_a_remedy_names_can_be_read(api: Caller, path: str) -> None:
    reply = api.post(path, {}) if path.count("/") == 3 else api.get(path)
    named = remedy(reply, 404)
    address = re.fullmatch(r"see /api/v1(/\S+)", named)
    assert address is not None, named
    assert api.get(address[1]).status == 200


def test_the_method_that_exists_is_in_the_document_of_the_remedy(api: Caller) -> None:
    address = remedy(api.send("PUT", "/jobs", b"{}"), 405).removeprefix("see /api/v1")
    assert "get" in api.get(address).body["paths"]["/api/v1/jobs"]


def test_the_header_that_a_remedy_names_is_enough(api: Caller, broker: RunningBroker) -> None:
    body = json.dumps({"task": "t"}).encode()
    name, _, value = remedy(api.send("POST", "/jobs", body), 415).removeprefix("send ").partition(": ")
    assert api.send("POST", "/jobs", body, **{name.replace("-", "_"): value}).status == 201
    anonymous = Caller(broker.url)
    name, _, value = remedy(anonymous.get("/jobs"), 401).removeprefix("send the header ").partition(": ")
    assert anonymous.send("GET", "/jobs", None, **{name: value.replace("TOKEN", ADMIN[0])}).status == 200


@pytest.mark.parametrize(("path", "body"), [("/queues/q/pause", {"reason": "r"}), ("/jobs", {"task": "t"})])
def test_a_token_of_a_role_that_a_remedy_names_may(broker: RunningBroker, path: str, body: Any) -> None:
    named = remedy(Caller(broker.url, WATCHER[0]).post(path, body), 403)
    roles = named.removeprefix("that needs one of the roles ").split(", ")
    tokens = {line.split()[1]: token for token, line in _of_roles()}
    for role in roles:
        assert Caller(broker.url, tokens[role]).post(path, body).status < 300


@pytest.mark.parametrize(
    ("body", "mended"),
    [
        ({"task": "t", "tusk": 1}, {"task": "t"}),
        ({"task": "t", "options": {"max_attempts": "x"}}, {"task": "t", "options": {}}),
        ({"task": "t", "options": {"delay": "soon"}}, {"task": "t", "options": {}}),
        ({}, {"task": "t"}),
    ],
)
def test_a_problem_points_at_the_field_that_the_remedy_means(api: Caller, body: Any, mended: Any) -> None:
    reply = api.post("/jobs", body)
    assert remedy(reply, 422).startswith("correct the field")
    (fault,) = reply.body["problems"]
    *_, field = fault["pointer"].split("/")
    assert (field in str(body)) or field in mended
    assert api.post("/jobs", mended).status == 201


def test_the_commands_for_the_brokers_machine_can_be_pasted(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    url = broker.url
    for token, role in (("unknown", "worker"), (WATCHER[0], "admin")):
        monkeypatch.setenv("HOLDFAST_TOKEN", token)
        printed = run("migrate", "--url", url)
        assert printed.exit_code == 1
        assert "holdfast check" not in printed.output
        found = re.search(r"`holdfast (broker --new-token NAME=(\w+))`", printed.output)
        assert found is not None
        assert found[2] == role
        assert f"w {role} " in run(*found[1].replace("NAME", "w").split()).output

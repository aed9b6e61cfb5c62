"""What a broker refuses, and how; over real HTTP."""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request

from holdfast._core.answers import Answer, ExchangeAnswer
from holdfast._core.job import NewJob, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import Policy
from holdfast._core.requests import JobFilter
from holdfast._engine.service import yield_to_loop
from holdfast._ports import wire
from holdfast._ports.store import Store
from holdfast._ports.wire_errors import decode_error
from holdfast._ports.wire_hints import decode_answer
from holdfast.broker.group_commit import GroupCommit
from holdfast.broker.serving import Listening
from holdfast.errors import ConfigurationError, HoldfastError, StoreBusy, StoreRefused, StoreUnavailable, Unsupported
from holdfast.http import limits
from holdfast.http.identity import local
from holdfast.http.tokens import Tokens, new_token
from holdfast.stores.memory import MemoryStore
from holdfast.stores.remote.store import RemoteStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.broker.support import RunningBroker, running
from tests.contract.test_required_verbs import RequiredVerbs
from tests.e2e.waiting import eventually

CHANCE = FakeChance()
TOKENS = {role: new_token(f"the-{role}", role, CHANCE) for role in ("producer", "worker", "viewer", "operator", "admin")}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_broker(clock: FakeClock) -> Iterator[RunningBroker]:
    with running(MemoryStore(clock), clock) as broker:
        yield broker


@pytest.fixture
def guarded(clock: FakeClock) -> Iterator[RunningBroker]:
    with running(MemoryStore(clock), clock, authenticate=Tokens.parse("\n".join(line for _, line in TOKENS.values()))) as broker:
        yield broker


def client(url: str, token: str | None = None) -> RemoteStore:
    return RemoteStore([url], token=token, chance=FakeChance())


def ask(url: str, verb: str, *arguments: Any, token: str | None = None) -> Any:
    """Call a verb once, on a separate connection."""

    async def call() -> Any:
        store = client(url, token)
        try:
            return await getattr(store, verb)(*arguments)
        finally:
            await store.close()

    return asyncio.run(call())


def post(url: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url + path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def new() -> NewJob:
    return NewJob(id=CHANCE.uuid4(), task="t", payload=b"{}", policy=Policy())


def test_a_missing_or_unknown_token_is_refused_with_the_remedy(guarded: RunningBroker) -> None:
    for token in (None, "guess", "x" * 10_000):
        with pytest.raises(StoreRefused, match="HOLDFAST_TOKEN"):
            ask(guarded.url, "counts", token=token)


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("producer", "enqueue", "counts"),
        ("worker", "expired", "migrate"),
        ("viewer", "counts", "expire"),
        ("operator", "list", "beat"),
    ],
)
def test_a_token_may_do_what_its_role_allows(guarded: RunningBroker, role: str, may: str, may_not: str) -> None:

    arguments = {
        "enqueue": (CHANCE.uuid4(), [new()]),
        "expired": (1,),
        "list": (JobFilter(),),
        "expire": (1,),
        "beat": ([CHANCE.uuid4()],),
    }
    ask(guarded.url, may, *arguments.get(may, ()), token=TOKENS[role][0])
    with pytest.raises(StoreRefused, match=f"the-{role} may not {may_not}"):
        ask(guarded.url, may_not, *arguments.get(may_not, ()), token=TOKENS[role][0])


def test_an_admin_may_do_everything(guarded: RunningBroker) -> None:
    assert ask(guarded.url, "migrate", token=TOKENS["admin"][0]) == (1, 1)


def test_hints_need_a_token_too(guarded: RunningBroker) -> None:
    assert post(guarded.url, "/hints/v1", b"\x90")[0] == 401
    assert post(guarded.url, "/hints/v1", b"\x90", Authorization=f"Bearer {TOKENS['viewer'][0]}")[0] == 403
    assert post(guarded.url, "/hints/v1", b"\x90", Authorization=f"Bearer {TOKENS['producer'][0]}")[0] == 204


def test_a_call_in_another_version_of_the_wire_is_a_clear_error(open_broker: RunningBroker) -> None:
    status, body = post(open_broker.url, "/port/v2/counts")
    assert (status, type(decode_error(body))) == (404, Unsupported)
    assert "upgrade brokers first" in str(decode_error(body))


def test_a_verb_of_a_newer_release_is_a_clear_error(open_broker: RunningBroker) -> None:
    status, body = post(open_broker.url, "/port/v1/levitate")
    assert (status, type(decode_error(body))) == (404, Unsupported)


@pytest.mark.parametrize("body", [b"", b"\xff\xff", b"\x81\xa3job\x01", b"[]", b"\xc1" * 100])
def test_rubbish_is_refused_and_changes_nothing(open_broker: RunningBroker, body: bytes) -> None:
    status, answer = post(open_broker.url, "/port/v1/get", body)
    assert (status, type(decode_error(answer))) == (400, StoreRefused)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    open_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_BYTES", 100)
    with pytest.raises(StoreRefused, match="send fewer jobs at once"):
        ask(open_broker.url, "enqueue", CHANCE.uuid4(), [new() for _ in range(10)])
    assert ask(open_broker.url, "counts") == {}


def test_requests_beyond_the_limit_are_refused_and_sent_again(
    open_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.broker.broker.MOST_REQUESTS", 0)
    with pytest.raises(StoreUnavailable, match="too many requests"):
        ask(open_broker.url, "counts")
    assert post(open_broker.url, "/api/v1/jobs", b"{}")[0] == 503


@pytest.mark.parametrize("headers", [{"Host": "jobs.example"}, {"Origin": "https://evil.example"}])
def test_without_tokens_pages_of_a_browser_are_refused(open_broker: RunningBroker, headers: dict[str, str]) -> None:
    assert post(open_broker.url, "/port/v1/counts", b"\x80", **headers)[0] == 401
    assert post(open_broker.url, "/api/v1/jobs", b'{"task":"t"}', Content_Type="application/json", **headers)[0] == 401


@pytest.mark.parametrize(
    ("host", "client", "more", "is_local"),
    [
        ("127.0.0.1:7700", "127.0.0.1", {}, True),
        ("localhost", "127.0.0.1", {}, True),
        ("[::1]:7700", "::1", {}, True),
        ("[::1]", "::1", {}, True),
        ("127.0.0.1:7700", "10.0.0.9", {}, False),
        ("127.0.0.1:7700", None, {}, False),
        ("jobs.example:7700", "127.0.0.1", {}, False),
        ("localhost.evil.example", "127.0.0.1", {}, False),
        ("", "127.0.0.1", {}, False),
        ("127.0.0.1:7700", "127.0.0.1", {"x-forwarded-for": "10.0.0.9"}, False),
        ("127.0.0.1:7700", "127.0.0.1", {"origin": "null"}, False),
    ],
)
def test_without_tokens_only_programs_of_this_machine_are_recognised(
    host: str, client: str | None, more: dict[str, str], is_local: bool
) -> None:
    headers = [(name.encode(), value.encode()) for name, value in ({"host": host} | more).items()]
    scope = {"type": "http", "headers": headers, "client": None if client is None else (client, 5000)}
    assert (local(Request(scope)) is not None) is is_local


def test_an_answer_of_a_store_keeps_its_fields(clock: FakeClock) -> None:
    job = CHANCE.uuid4()

    class Locked(MemoryStore):
        async def report(self, updates: object) -> frozenset[Any]:
            raise StoreBusy("locked", frozenset((job,)))

        async def counts(self, by: object = None, most: int | None = None) -> Any:
            raise OSError("disk on fire")

    with running(Locked(clock), clock) as broker:
        with pytest.raises(StoreBusy) as found:
            ask(broker.url, "report", [])
        assert found.value.jobs == {job}
        with pytest.raises(StoreUnavailable, match="OSError") as failed:
            ask(broker.url, "counts")
        assert "fire" not in str(failed.value)


def test_a_store_without_optional_verbs_gets_their_defaults_or_refuses(clock: FakeClock) -> None:

    with running(cast(Store, RequiredVerbs(MemoryStore(clock))), clock) as broker:
        ask(broker.url, "enqueue", CHANCE.uuid4(), [new()])
        assert ask(broker.url, "waiting_tasks") == ("t",)
        assert ask(broker.url, "purge", "default", 10).jobs == 1
        with pytest.raises(Unsupported, match="memory store behind the broker has no schedules"):
            ask(broker.url, "schedules")


def test_settles_that_wait_share_a_write_and_a_refused_one_fails_alone(clock: FakeClock) -> None:

    writes: list[int] = []

    class Counting(MemoryStore):
        async def exchange(self, transitions: Any, request: Any = None) -> ExchangeAnswer:
            writes.append(len(transitions))
            await yield_to_loop()
            if any(move.result == b"refused" for move in transitions):
                raise StoreRefused("by a trigger")
            return ExchangeAnswer(tuple(Answer.LOST for _ in transitions))

    async def act() -> list[Any]:
        group = GroupCommit(Counting(clock))
        moves = [_move(b"refused" if place == 3 else b"1") for place in range(6)]
        return await asyncio.gather(*(group.exchange([move]) for move in moves), return_exceptions=True)

    found = asyncio.run(act())
    assert [isinstance(each, HoldfastError) for each in found] == [False, False, False, True, False, False]
    assert writes[:2] == [6, 1] or writes[:2] == [1, 5]


def test_one_job_with_two_tokens_is_judged_in_two_writes(clock: FakeClock) -> None:

    job, right, wrong = CHANCE.uuid4(), Token(CHANCE.uuid4(), 2), Token(CHANCE.uuid4(), 1)

    class One(MemoryStore):
        async def start(self, tokens: Any) -> frozenset[Any]:
            await yield_to_loop()
            return frozenset(each for each, token in tokens if token != right)

    async def act() -> list[Any]:
        group = GroupCommit(One(clock))
        return list(await asyncio.gather(group.start([(job, wrong)]), group.start([(job, right)])))

    assert asyncio.run(act()) == [{job}, frozenset()]


def _move(result: bytes) -> Any:

    return Transition(
        job=CHANCE.uuid4(),
        token=Token(CHANCE.uuid4(), 1),
        to=State.COMPLETED,
        failures=0,
        crashes=0,
        retention=1.0,
        result=result,
    )


def test_a_slow_body_does_not_occupy_a_connection_for_long(open_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_TIMEOUT", 0.2)

    async def act() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(open_broker.url.rpartition(":")[2]))
        writer.write(b"POST /port/v1/get HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n\x80")
        answer = await asyncio.wait_for(reader.readline(), 20)
        writer.close()
        return answer

    assert b"408" in asyncio.run(act())


def test_a_stopping_broker_answers_all_requests_that_wait_for_hints(clock: FakeClock) -> None:
    broker = RunningBroker(MemoryStore(clock), clock)

    async def act() -> list[int]:
        store = client(broker.url)
        first = await store._client.get("/hints/v1?position=", 20)

        position = decode_answer(first.body).position
        waiting = [asyncio.create_task(store._client.get(f"/hints/v1?position={position}", 20)) for _ in range(5)]
        await eventually(lambda: broker._broker.hub.waiting == 5, within=20.0)
        await asyncio.to_thread(broker.stop)
        found = [answer.status for answer in await asyncio.gather(*waiting)]
        await store.close()
        return found

    assert asyncio.run(act()) == [200] * 5


def test_tokens_are_read_from_a_file_that_no_other_user_can_read(tmp_path: Path) -> None:

    file, (token, line) = tmp_path / "tokens", TOKENS["worker"]
    file.write_text(f"# ours\n\n{line}\n")
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        Tokens.read(str(file))
    file.chmod(0o600)
    found = Tokens.read(str(file)).identity(token)
    assert found is not None
    assert found.name == "the-worker"
    assert token not in file.read_text()


@pytest.mark.parametrize("line", ["a worker", "a boss " + "0" * 64, "a worker zz", "a worker " + "g" * 64, ""])
def test_a_wrong_line_of_tokens_is_named(line: str) -> None:

    with pytest.raises(ConfigurationError, match="--tokens"):
        Tokens.parse(line)


def test_answers_do_not_wait_for_the_acknowledgement_of_the_one_before() -> None:
    with Listening(port=0).socket() as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

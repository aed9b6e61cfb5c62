"""The values that ``transport=`` accepts, and the errors for all others."""

import pytest

from holdfast._core.timing import LeaseTiming
from holdfast._core.transport_url import TransportUrl, problems_of_address, server_of_hints
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings

TIMING = LeaseTiming.of("30s")
PG = "postgresql://db/shop"
MONGO = "mongodb://db/shop"


def problems(text: object, store: str = PG, pooler: str | None = None) -> list[str]:
    return problems_of_address(text, TIMING, 5.0, store=store, pooler=pooler)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("poll", TransportUrl(kind="poll")),
        ("postgres", TransportUrl(kind="postgres")),
        ("nats://a", TransportUrl(kind="nats", servers=("nats://a:4222",))),
        ("tls://a:1,b:2,[::1]", TransportUrl(kind="nats", servers=("tls://a:1", "tls://b:2", "tls://[::1]:4222"))),
        (
            "nats://ann:p%40%2C@a,b",
            TransportUrl(kind="nats", servers=("nats://a:4222", "nats://b:4222"), user="ann", password="p@,"),
        ),
        (
            "nats://ann:p@a,ann:p@b/",
            TransportUrl(kind="nats", servers=("nats://a:4222", "nats://b:4222"), user="ann", password="p"),
        ),
        ("nats://t%2Fken@a", TransportUrl(kind="nats", servers=("nats://a:4222",), token="t/ken")),
        (
            "nats://a?ack=finish&ack_wait=90s&replicas=3&stream=my-Shop_1",
            TransportUrl(kind="nats", servers=("nats://a:4222",), ack="finish", ack_wait=90.0, replicas=3, stream="my-Shop_1"),
        ),
    ],
)
def test_every_form_of_a_transport_is_read(text: str, expected: TransportUrl) -> None:
    assert problems(text) == []
    assert TransportUrl.of(text) == expected
    assert Settings.of(PG, transport=text).transport == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kafka://a", ["transport='kafka://a': no such transport", "'nats://host:4222'"]),
        ("nats:a", ["no such transport"]),
        ("", ["no such transport"]),
        (7, ["transport=7: no such transport"]),
        ("nats://[a", ["cannot be read"]),
        ("nats://", ["is no server", "host:port"]),
        ("nats://a,,b", ["is no server"]),
        ("nats://a:b", ["'a:b' is no server"]),
        ("nats://a:0", ["is no server"]),
        ("nats://a:65536", ["is no server"]),
        ("nats://a/path", ["after a ?"]),
        ("nats://a#x", ["after a ?"]),
        ("nats://u:p@a,v:q@b", ["one user for all servers"]),
        ("nats://a?ack=never", ["ack='never': use claim", "finish"]),
        ("nats://a?ack_wait=soon", ["ack_wait: 'soon' is not a duration"]),
        ("nats://a?replicas=0", ["replicas='0': use a whole number from 1 to 5"]),
        ("nats://a?replicas=x", ["replicas='x'"]),
        ("nats://a?stream=a.b", ["stream='a.b': use 1 to 100"]),
        ("nats://a?color=red", ["no option 'color'; use ack, ack_wait, replicas, stream"]),
        ("nats://a?ack", ["name=value"]),
        ("nats://a?ack=claim&ack=finish", ["given twice"]),
        ("nats://a?ack_wait=35s", ["ack_wait > ttl + recovery_interval is broken", "ack_wait=35s", "=35s", "raise ack_wait"]),
    ],
)
def test_a_transport_that_cannot_work_is_refused_with_a_remedy(text: object, words: list[str]) -> None:
    (problem,) = problems(text)
    for word in words:
        assert word in problem


def test_the_shortest_ack_wait_works() -> None:
    assert problems("nats://a?ack_wait=35.001s") == []


@pytest.mark.parametrize(
    "text",
    [
        "nats://ann:s3cret@@a",
        "nats://ann:s3/cret@a",
        "nats://ann:s3#cret@a",
        "nats://ann:s3?x=cret@a",
        "nats://ann:s3,cret@a",
        "nats://s3cret@a/path",
        "natss://s3cret@a",
        "s3cret@a",
        "nats://ann:s3cret@a:b",
        "nats://ann:s3cret@a?ack=s",
    ],
)
def test_no_problem_shows_a_secret(text: str) -> None:
    found = problems(text)
    assert found
    assert "s3" not in "".join(found)
    assert "cret" not in "".join(found)


def test_an_address_is_shown_without_user_password_token_and_options() -> None:
    assert TransportUrl.of("nats://ann:s3cret@a,b?stream=x").public == "nats://a:4222,nats://b:4222"
    assert TransportUrl.of("nats://t0ken@a").public == "nats://a:4222"
    assert TransportUrl.of("poll").public == "poll"


@pytest.mark.parametrize(
    ("store", "pooler", "words"),
    [
        ("sqlite:///a.db", None, "needs a postgresql:// store"),
        ("memory://", None, "needs a postgresql:// store"),
        (PG, "transaction", "a pooler in transaction mode cannot LISTEN"),
        (f"{PG}?pooler=transaction", None, "a pooler in transaction mode cannot LISTEN"),
    ],
)
def test_listening_needs_a_database_that_supports_it(store: str, pooler: str | None, words: str) -> None:
    (problem,) = problems("postgres", store, pooler)
    assert words in problem
    assert problems("postgres", "postgres://db/shop") == []


@pytest.mark.parametrize("store", [PG, "memory://", "sqlite:///a.db", "https://broker:7700"])
def test_changes_are_those_of_a_store_on_mongodb(store: str) -> None:
    (problem,) = problems("mongodb+changes", store)
    assert "transport='mongodb+changes' needs a mongodb:// store" in problem
    assert problems("mongodb+changes", MONGO) == problems("mongodb+changes", "mongodb+srv://db/shop") == []
    assert TransportUrl.of("mongodb+changes") == TransportUrl(kind="mongodb+changes")


@pytest.mark.parametrize(
    ("transport", "expected"),
    [
        (None, "MongoDB at mongodb://ann@db/shop"),
        ("mongodb+changes", "MongoDB at mongodb://ann@db/shop"),
        ("nats://a", "NATS at nats://a:4222"),
        ("poll", ""),
    ],
)
def test_the_server_of_hints_of_a_store_on_mongodb(transport: str | None, expected: str) -> None:
    assert server_of_hints("mongodb://ann:s3cret@db/shop", transport, None) == expected


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as error:
        Settings.of("memory://", ttl="30s", beat="20s", transport="nats://a?ack=x&stream=.", schema="9")
    found = [problem.partition(" ")[0] for problem in error.value.problems]
    assert found.count("transport:") == 2
    assert {"ttl", "schema='9':"} <= set(found)

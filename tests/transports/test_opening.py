"""Which transport an App opens: what fits its store, or what its settings name."""

import sys
from pathlib import Path

import pytest

from holdfast import App
from holdfast.errors import ConfigurationError, MissingExtra
from holdfast.opening import open_transport
from holdfast.settings import Settings, stream_of

MONGO = "mongodb://jobs:s3cret@127.0.0.1:9/shop?replicaSet=rs0"
PG = "postgresql://jobs:s3cret@127.0.0.1:9/shop"


def kind_of(url: str, transport: str | None = None, pooler: str | None = None) -> str:
    return type(open_transport(Settings.of(url, transport=transport, pooler=pooler))).__name__


@pytest.mark.parametrize(
    ("url", "transport", "expected"),
    [
        ("memory://", None, "PollingTransport"),
        ("sqlite:///jobs.db", None, "LocalTransport"),
        ("sqlite:///jobs.db", "poll", "PollingTransport"),
        ("sqlite:///jobs.db", "nats://127.0.0.1:9", "NatsTransport"),
        (PG, None, "PostgresTransport"),
        (PG, "postgres", "PostgresTransport"),
        (PG, "poll", "PollingTransport"),
        (PG, "nats://127.0.0.1:9", "NatsTransport"),
        (f"{PG}?pooler=transaction", None, "PollingTransport"),
        (MONGO, None, "MongoTransport"),
        (MONGO, "mongodb+changes", "MongoTransport"),
        (MONGO, "poll", "PollingTransport"),
        (MONGO, "nats://127.0.0.1:9", "NatsTransport"),
        ("http://127.0.0.1:9", None, "BrokerTransport"),
        ("memory-object://jobs", None, "LeaderTransport"),
        ("memory-object://jobs", "poll", "PollingTransport"),
        ("memory-object://jobs?broker=never", None, "PollingTransport"),
    ],
)
def test_what_is_opened(url: str, transport: str | None, expected: str) -> None:
    assert kind_of(url, transport) == expected


def test_behind_a_pooler_that_is_declared_separately() -> None:
    assert kind_of(PG, pooler="transaction") == "PollingTransport"


@pytest.mark.parametrize(
    ("module", "ours", "url", "transport", "remedy"),
    [
        ("nats", "holdfast.transports.nats", "memory://", "nats://a", "pip install nats-py"),
        ("asyncpg", "holdfast.stores.postgres", PG, None, "pip install asyncpg 'psycopg[binary]'"),
        ("pymongo", "holdfast.databases.mongo", MONGO, None, "pip install pymongo"),
    ],
)
def test_a_driver_that_is_not_installed_is_named_with_its_extra(
    module: str, ours: str, url: str, transport: str | None, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each == module or each.startswith((f"{module}.", ours))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as error:
        kind_of(url, transport)
    assert remedy in str(error.value)
    assert module in str(error.value)


def test_each_store_has_a_separate_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").symlink_to(tmp_path)
    same = {stream_of(url, "jobs") for url in ("sqlite:///a.db", f"sqlite:///{tmp_path}/a.db", "sqlite:///here/a.db")}
    assert len(same) == 1
    assert stream_of("sqlite:///b.db", "jobs") not in same
    assert stream_of(PG, "jobs") == stream_of("postgresql://other-name/shop", "jobs") == "jobs"
    assert all(name.replace("-", "").isalnum() for name in same)


def test_an_app_reports_problems_of_its_transport_beside_all_others() -> None:
    with pytest.raises(ConfigurationError) as error:
        App("sqlite:///jobs.db", ttl="x", transport="postgres", schema="-")
    assert len(error.value.problems) == 3

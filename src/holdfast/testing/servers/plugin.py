"""The fixtures: servers that live as long as the test session, a database for each test."""

import os
from collections.abc import Generator, Iterator
from typing import TypeVar

import pytest

from holdfast.testing.servers.databases import Databases
from holdfast.testing.servers.mongo import drop_database, fresh_database
from holdfast.testing.servers.mongo_set import MongoSet
from holdfast.testing.servers.nats import NatsServer
from holdfast.testing.servers.postgres import PostgresServer, find_psql
from holdfast.testing.servers.process import Server

S = TypeVar("S", bound=Server | MongoSet)
_RUNNING = pytest.StashKey[list[Server | MongoSet]]()


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[PostgresServer]:
    """Start a PostgreSQL server of this test process, also where ``TEST_PG_DSN`` names another: for tests that restart it."""
    yield from _running(PostgresServer(), pytestconfig)


@pytest.fixture
def postgres_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make a fresh database, dropped after the test; on the server of ``TEST_PG_DSN`` if that is set. Yields its address."""
    if given := os.environ.get("TEST_PG_DSN"):
        databases = Databases(given, find_psql())
        yield (dsn := databases.create())
        databases.drop(dsn)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        yield (dsn := server.create_database())
        server.drop_database(dsn)


@pytest.fixture(scope="session")
def nats_server(pytestconfig: pytest.Config) -> Iterator[NatsServer]:
    """Start a NATS server of this test process, also where ``TEST_NATS_URL`` names another."""
    yield from _running(NatsServer(), pytestconfig)


@pytest.fixture
def nats_url(request: pytest.FixtureRequest) -> str:
    """Return the address of a NATS server with JetStream, which keeps what other tests left; ``TEST_NATS_URL`` if that is set."""
    given = os.environ.get("TEST_NATS_URL")
    return given or str(request.getfixturevalue("nats_server").url)


@pytest.fixture(scope="session")
def mongo_set(pytestconfig: pytest.Config) -> Iterator[MongoSet]:
    """Start a replica set of one MongoDB server of this test process, also where ``TEST_MONGO_URI`` names another."""
    yield from _running(MongoSet(), pytestconfig)


@pytest.fixture(scope="session")
def mongo_trio(pytestconfig: pytest.Config) -> Iterator[MongoSet]:
    """Start a replica set of three; a test that ended members starts them again, by ``mongo_trio.start()``."""
    yield from _running(MongoSet(3), pytestconfig)


@pytest.fixture
def mongo_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the address of a fresh database, dropped after the test; on the servers of ``TEST_MONGO_URI`` if that is set."""
    given = os.environ.get("TEST_MONGO_URI")
    url = fresh_database(given or request.getfixturevalue("mongo_set").url)
    yield url
    drop_database(url)


def _running(server: S, config: pytest.Config) -> Iterator[S]:
    with server:
        config.stash.setdefault(_RUNNING, []).append(server)
        yield server
        config.stash[_RUNNING].remove(server)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the servers' logs to the report of a test that fails."""
    report = yield
    if report.failed:
        report.sections += [(f"end of the log of {server.name}", server.tail()) for server in item.config.stash.get(_RUNNING, [])]
    return report

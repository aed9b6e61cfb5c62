"""What the settings name, opened: store, transport, the users' tables. Drivers are loaded only here, when they are needed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from holdfast._core.schemes import BROKERS, BUCKETS, MONGO
from holdfast._engine.client.connections import Connections
from holdfast._engine.events import Events
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.wrapped import after_commit
from holdfast.errors import MissingExtra
from holdfast.settings import Settings, stream_of

if TYPE_CHECKING:
    from holdfast._core.table_spec import TableSpec
    from holdfast._core.transport_url import TransportUrl
    from holdfast._ports.clock import Clock
    from holdfast._ports.store import Store
    from holdfast._ports.table import Table
    from holdfast._ports.transport import Transport
    from holdfast.stores.postgres.store import PostgresStore


def connections_of(
    settings: Settings, events: Events | None = None, transport: Callable[[Settings], Transport] | None = None
) -> Connections:
    """Return connections to the store and the transport that these settings name; nothing is opened yet."""
    return Connections(
        settings,
        events or Events(),
        clock=SystemClock(),
        chance=SystemRandomness(),
        open_store=open_store,
        open_transport=transport or open_transport,
        after_commit=after_commit,
    )


def open_store(settings: Settings, clock: Clock | None = None) -> Store:
    """Open the store a URL names; drivers are loaded only now. ``clock``: another one for a store that reads this machine's."""
    clock, scheme = clock or SystemClock(), scheme_of(settings.url)
    if scheme == "memory":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore(clock)
    if scheme == "sqlite":
        from holdfast._system.host import SystemHost
        from holdfast.stores.sqlite.store import SqliteStore

        return SqliteStore(_path(settings.url), clock=clock, chance=SystemRandomness(), process=SystemHost().process())
    if scheme in BROKERS:
        return _open_remote(settings.url)
    if scheme in BUCKETS:
        return _open_bucket(settings)
    if scheme in MONGO:
        return _open_mongo(settings)
    return _open_postgres(settings)


def _open_bucket(settings: Settings) -> Store:
    clock, chance = SystemClock(), SystemRandomness()
    if not _has_broker(settings.url):
        from holdfast.stores.objects.store import ObjectStore

        return ObjectStore(settings.url, clock=clock, chance=chance)
    from holdfast.stores.objects.routed_store import RoutedStore

    return RoutedStore(settings.url, connect=_open_remote, clock=clock, chance=chance)


def _open_remote(url: str) -> Store:
    try:
        from holdfast.stores.remote.store import RemoteStore
    except ModuleNotFoundError as error:
        raise _missing(error, "remote") from error
    servers, token, certificate = _broker_of(url)
    return cast("Store", RemoteStore(servers, token=token, chance=SystemRandomness(), certificate=certificate))


def _broker_of(url: str) -> tuple[Sequence[str], str | None, str | None]:
    """Return the brokers' URLs, and the token and the certificate for them."""
    from holdfast._core.broker_url import BrokerUrl

    return BrokerUrl.of(url).servers, os.environ.get("HOLDFAST_TOKEN"), os.environ.get("HOLDFAST_CLIENT_CERT")


def _open_postgres(settings: Settings) -> PostgresStore:
    from holdfast._system.host import SystemHost

    try:
        from holdfast.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        raise _missing(error, "postgres") from error
    clock, chance, process = SystemClock(), SystemRandomness(), SystemHost().process()
    return PostgresStore(
        settings.url, schema=settings.schema, pooler=settings.pooler, clock=clock, chance=chance, process=process
    )


def _open_mongo(settings: Settings) -> Store:
    from holdfast._system.host import SystemHost

    try:
        from holdfast.stores.mongo.store import MongoStore
    except ModuleNotFoundError as error:
        raise _missing(error, "mongo") from error
    clock, chance, process = SystemClock(), SystemRandomness(), SystemHost().process()
    return MongoStore(settings.url, schema=settings.schema, clock=clock, chance=chance, process=process)


def connect(settings: Settings) -> tuple[Store, Transport]:
    """Open the store and the transport that the settings name."""
    return open_store(settings), open_transport(settings)


def open_table(url: str, watch: TableSpec) -> Table:
    """Open the table a watch names, in the database of that URL; drivers are loaded only now."""
    from holdfast._system.host import SystemHost

    try:
        from holdfast.rows import open_table
    except ModuleNotFoundError as error:
        raise _missing(error, "postgres") from error
    return open_table(url, watch, clock=SystemClock(), chance=SystemRandomness(), process=SystemHost().process())


def open_transport(settings: Settings) -> Transport:
    """Open the transport by which workers that share the URL's store learn of work; drivers are loaded only now."""
    if settings.transport is None and scheme_of(settings.url) == "sqlite" and hasattr(socket, "AF_UNIX"):
        return _open_local(settings)  # Windows has none: workers poll
    from holdfast._core.transport_url import CHANGES, TransportUrl, listens, tails

    address = None if settings.transport is None else TransportUrl.of(settings.transport)
    if address is not None and address.kind == "nats":
        return _open_nats(address, settings)
    if listens(settings.url, address, settings.pooler):
        return _open_listening(settings)
    if tails(settings.url, address):
        return _open_tailing(settings, follows_changes=address is not None and address.kind == CHANGES)
    if address is None and scheme_of(settings.url) in BROKERS:
        return _open_broker_hints(settings.url)
    if address is None and scheme_of(settings.url) in BUCKETS and _has_broker(settings.url):
        return _open_leader_hints(settings.url)
    from holdfast.transports.polling import PollingTransport

    return PollingTransport()


def _has_broker(url: str) -> bool:
    from holdfast._core.bucket_url import BucketUrl

    return BucketUrl.of(url).broker != "never"


def _open_local(settings: Settings) -> Transport:
    from holdfast._system.host import SystemHost
    from holdfast.transports.local import LocalTransport

    return LocalTransport(_path(settings.url), SystemHost().process())


def _open_nats(address: TransportUrl, settings: Settings) -> Transport:
    try:
        from holdfast.transports.nats.transport import NatsTransport
    except ModuleNotFoundError as error:
        raise _missing(error, "nats") from error
    stream = address.stream or stream_of(settings.url, settings.schema)
    return NatsTransport(address, stream, clock=SystemClock(), chance=SystemRandomness())


def _open_leader_hints(url: str) -> Transport:
    from holdfast._core.bucket_url import BucketUrl
    from holdfast.databases.buckets.opening import open_bucket
    from holdfast.stores.objects.leader_look import LeaderLook
    from holdfast.transports.leader import LeaderTransport

    clock, chance = SystemClock(), SystemRandomness()
    name = BucketUrl.of(url).public
    return LeaderTransport(name, lambda: LeaderLook(open_bucket(url, clock)), _open_broker_hints, clock=clock, chance=chance)


def _open_broker_hints(url: str) -> Transport:
    try:
        from holdfast.transports.broker import BrokerTransport
    except ModuleNotFoundError as error:
        raise _missing(error, "remote") from error
    servers, token, certificate = _broker_of(url)
    clock, chance = SystemClock(), SystemRandomness()
    return BrokerTransport(servers, token=token, clock=clock, chance=chance, certificate=certificate)


def _open_listening(settings: Settings) -> Transport:
    from holdfast._core.postgres_url import public_url

    connect, name = _open_postgres(settings).connect, public_url(settings.url)  # which names a driver that is not installed
    from holdfast.transports.postgres import PostgresTransport

    return PostgresTransport(connect, settings.schema, name=name, clock=SystemClock(), chance=SystemRandomness())


def _open_tailing(settings: Settings, *, follows_changes: bool) -> Transport:
    from holdfast._system.host import SystemHost

    try:
        from holdfast.databases.mongo.database import MongoDatabase
    except ModuleNotFoundError as error:
        raise _missing(error, "mongo") from error
    from holdfast.stores.mongo.documents import queue_in
    from holdfast.stores.mongo.names import Names
    from holdfast.transports.mongo import Jobs, MongoTransport

    names, clock, chance = Names(settings.schema), SystemClock(), SystemRandomness()
    database = MongoDatabase(settings.url, clock=clock, chance=chance, process=SystemHost().process())
    jobs = Jobs(names.jobs, queue_in) if follows_changes else None
    return MongoTransport(database, names.hints, jobs, clock=clock, chance=chance)


def _missing(error: ModuleNotFoundError, extra: str) -> Exception:
    is_ours = error.name is None or error.name.startswith("holdfast")
    return error if is_ours else MissingExtra(error.name or "", extra)


def scheme_of(url: str) -> str:
    return url.partition("://")[0]


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")

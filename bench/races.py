"""The races: which peers run on which store, and what Holdfast promises there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, Self

from msgspec import Struct

from bench.figures import Sizes
from bench.peers import Peer, Place, Queue
from bench.peers.holdfast_postgres import HoldfastOnPostgres
from bench.peers.holdfast_sqlite import HoldfastOnSqlite
from bench.peers.huey import Huey
from bench.peers.pgqueuer import PgQueuer
from bench.peers.procrastinate import Procrastinate
from bench.peers.raw_postgres import RawPostgres
from bench.peers.raw_sqlite import Raw, RawInThread
from holdfast._core.job import State
from holdfast.testing.servers import PostgresServer

OURS = "holdfast"
SERVER = {"max_wal_size": "4GB", "min_wal_size": "4GB"}


class Ours(Queue, Protocol):
    """Holdfast on one store."""

    @classmethod
    async def on(cls, place: Place) -> Self:
        """Ready to be timed."""
        ...

    def seed(self, state: State, count: int) -> None:
        """Write ``count`` jobs that no worker will run now."""
        ...


class Ground(Protocol):
    """What all peers of a race stand on."""

    def about(self) -> str:
        """Return version and settings."""
        ...

    def place(self, name: str) -> Place:
        """Make a fresh database."""
        ...

    def clear(self, place: Place) -> None:
        """Remove all of it."""
        ...


class Target(Struct, frozen=True):
    """A ratio that Holdfast promises."""

    text: str
    above: tuple[str, str]
    below: tuple[str, str]
    least: float


class Limit(Struct, frozen=True):
    """A figure of Holdfast's that it promises to keep below."""

    figure: str
    most: float


class Race(Struct, frozen=True, kw_only=True):
    """``peers`` only enqueue; ``queues`` run jobs, too, ``ours`` among them."""

    name: str
    title: str
    ground: Callable[[Path], AbstractContextManager[Ground]]
    peers: tuple[type[Peer], ...]
    queues: tuple[type[Queue], ...]
    ours: type[Ours]
    sizes: Sizes
    targets: tuple[Target, ...]
    limits: tuple[Limit, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Of the table, from left to right."""
        others = [queue.name for queue in self.queues if queue is not self.ours]
        return [OURS, *others, *(peer.name for peer in self.peers), f"{OURS} beside waiting", f"{OURS} beside finished"]


class Files:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def about(self) -> str:
        return "one file each"

    def place(self, name: str) -> Place:
        return Place(self._folder, name)

    def clear(self, place: Place) -> None:
        place.clear()


class Databases:
    """One server."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self._folder = folder
        self._server = server

    def about(self) -> str:
        asked = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")
        return "PostgreSQL; " + ", ".join(f"{name}={self._server.sql(f'SHOW {name}')}" for name in asked)

    def place(self, name: str) -> Place:
        return Place(self._folder, name, self._server.create_database())

    def clear(self, place: Place) -> None:
        place.clear()
        self._server.drop_database(place.url)
        self._server.sql("CHECKPOINT")  # it belongs to what was, not to who comes next


@contextmanager
def _files(folder: Path) -> Iterator[Files]:
    yield Files(folder)


@contextmanager
def _databases(folder: Path) -> Iterator[Databases]:
    with PostgresServer(is_durable=True, settings=SERVER, data=folder / "data") as server:
        yield Databases(folder, server)


def _beside(*figures: str) -> tuple[Target, ...]:
    return tuple(
        Target(
            f"{figure} beside {crowd}, as a part of that on an empty store",
            (figure, f"{OURS} beside {crowd}"),
            (figure, OURS),
            0.9,
        )
        for crowd in ("waiting", "finished")
        for figure in figures
    )


SQLITE = Race(
    name="sqlite",
    title="SQLite",
    ground=_files,
    peers=(Raw, RawInThread),
    queues=(Huey, HoldfastOnSqlite),
    ours=HoldfastOnSqlite,
    sizes=Sizes(),
    targets=(
        Target("drain, as a multiple of huey's", ("drain", OURS), ("drain", Huey.name), 4.0),
        Target("one by one, as a part of the raw driver's", ("one by one", OURS), ("one by one", Raw.name), 0.7),
        Target(
            "  the same if the raw driver may not block its caller either",
            ("one by one", OURS),
            ("one by one", RawInThread.name),
            0.7,
        ),
        Target("100 callers, as a multiple of one by one", ("together", OURS), ("one by one", OURS), 5.0),
        *_beside("drain", "one by one"),
    ),
)

POSTGRES = Race(
    name="postgres",
    title="PostgreSQL",
    ground=_databases,
    peers=(RawPostgres,),
    queues=(PgQueuer, Procrastinate, HoldfastOnPostgres),
    ours=HoldfastOnPostgres,
    sizes=Sizes(one_by_one=4_000, together=5_000, bulk=150_000, pings=250),
    targets=(
        Target("drain, as a multiple of pgqueuer's", ("drain", OURS), ("drain", PgQueuer.name), 2.0),
        Target("one by one, as a part of the raw driver's", ("one by one", OURS), ("one by one", RawPostgres.name), 0.8),
        *(
            Target(f"one by one, as a multiple of {peer.name}'s", ("one by one", OURS), ("one by one", peer.name), 1.0)
            for peer in (PgQueuer, Procrastinate)
        ),
        *_beside("drain"),
    ),
    limits=(Limit("p50", 3.0), Limit("p99", 8.0)),
)

RACES = {race.name: race for race in (SQLITE, POSTGRES)}

"""A real SQLite file under simulation: each process has its own connection, and a statement takes no virtual time.

No power is lost here, so nothing waits for a disk. A statement that meets the lock of another connection fails with BUSY at
once, and is sent again in virtual time, as the store itself does in real time.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import structs

from holdfast._core.encoding import inputs_of
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Reason
from holdfast._core.member import Member, OnFailure
from holdfast._core.schedule import Plan, Schedule
from holdfast._core.workflow import Edge
from holdfast._ports.clock import Clock
from holdfast._ports.host import Exit
from holdfast._ports.store import Store
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import is_busy
from holdfast.databases.sqlite.values import micros
from holdfast.errors import StoreUnavailable
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from proof.checker import history_sqlite
from proof.checker.flow_rows import FlowRow
from proof.checker.history import JobRow
from proof.simulator.hosts import SimClock
from proof.simulator.loop import Process
from proof.stores.mirrored_flows import FlowsSeen, Signalled
from proof.stores.own_connections import TABLE, OwnConnections
from proof.stores.statement_recorder import Change, Mirror, announced

AGAIN = 0.05  # seconds after which a statement that failed with BUSY is sent again
_NEW = "SELECT place, what, id, before, after FROM history WHERE place > ? ORDER BY place"
_SCHEDULES = "SELECT name, plan, next_at, last_tick, last_job, paused_at, version FROM holdfast_schedules"
_MEMBERS = (
    "SELECT job, flow, node, required, on_failure, is_gate, inputs, needs, waits, is_paused, is_suspended FROM holdfast_members"
)
_FLOWS = "SELECT id, paused_at, ended_for, deadline_at FROM holdfast_flows"
_EDGES = """
SELECT m.flow, e.parent, e.child, e.tolerates, e.is_child, e.parent_flow FROM holdfast_edges e JOIN holdfast_members m ON m.job = e.child
"""
_STEPS = "SELECT job, name, nth, result FROM holdfast_steps ORDER BY job, place"
_SIGNALS = "SELECT place, job, name, value FROM holdfast_signals ORDER BY place"
_NUMBERS = count()
_TEMPLATE: list[bytes] = []

Result = TypeVar("Result")


class SqliteFile(Mirror):
    """The file of one world. ``clock``: of the machine that runs all its processes. ``busy_limit``: the seconds of a BUSY call."""

    def __init__(self, clock: SimClock, busy_limit: float, *mirrored: Any, has_flows: bool = False) -> None:
        super().__init__(*mirrored)
        self.has_flows, self._version = has_flows, 0
        self._clock, self._busy_limit, self._place = clock, busy_limit, 0
        self.path = _folder() / f"holdfast-world-{os.getpid()}-{next(_NUMBERS)}.db"
        self.path.write_bytes(_template())
        self._databases: list[StoreDatabase] = []
        self.own = OwnConnections(self.path)
        self._observer, self._stranger = (driver.connect(self.path, use_apsw=driver.is_apsw()) for _ in range(2))

    def reached_by(self, process: Process) -> Store:
        clock = self.clock_of(process.name)
        database = _database(self.path, clock, process.identity)
        self._databases.append(database)
        process.on_exit.append(lambda how: _close_database(database, how))
        return announced(_Simulated(self, database, clock, process.identity, self._busy_limit), process.name)

    def changes(self) -> Iterator[Change]:
        wall, monotonic = micros(self._clock.wall()), micros(self._clock.monotonic())
        for place, what, key, before, after in self._observer.execute(_NEW, (self._place,)).fetchall():
            self._place = place
            match what:
                case "job":
                    yield Change(what, UUID(bytes=key), self._job(before, wall), self._job(after, wall))
                case "lease":
                    old, new = history_sqlite.lease_row(before, monotonic), history_sqlite.lease_row(after, monotonic)
                    yield Change(what, UUID(bytes=key), old, new)
                case "own_row":
                    yield Change(what, UUID(bytes=key), note=after)
                case _:
                    yield Change("queue", note=after)

    def schedules(self) -> tuple[datetime, list[Schedule]]:
        return _moment(micros(self._clock.wall())), [_schedule(row) for row in self._observer.execute(_SCHEDULES).fetchall()]

    def flows(self) -> FlowsSeen | None:
        if not self.has_flows:
            return None
        read = self._observer.execute
        ((version,),) = read("PRAGMA data_version").fetchall()
        if version == self._version and self._flows.seen is not None:
            return self._flows.seen  # no other connection has committed since
        self._version = version
        edges: dict[bytes, list[Edge]] = {}
        for flow, *edge in read(_EDGES).fetchall():
            edges.setdefault(flow, []).append(_edge(*edge))
        return FlowsSeen(
            at=_moment(micros(self._clock.wall())),
            members={UUID(bytes=row[0]): _member(*row[1:]) for row in read(_MEMBERS).fetchall()},
            flows={UUID(bytes=row[0]): _flow(row[1:], edges.get(row[0], [])) for row in read(_FLOWS).fetchall()},
            steps={(UUID(bytes=job), name, nth): _decoded(result) for job, name, nth, result in read(_STEPS).fetchall()},
            signals={
                place: Signalled(UUID(bytes=job), name, bytes(value).decode())
                for place, job, name, value in read(_SIGNALS).fetchall()
            },
        )

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock the whole file against other writers, because SQLite has no smaller lock; the returned function unlocks it."""
        del jobs, is_exclusive
        try:
            self._stranger.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return lambda: None  # a handler's own block has the lock
        return self._leave

    def _leave(self) -> None:
        self._stranger.execute("ROLLBACK")

    def close_world(self) -> None:
        for database in self._databases:
            database.close()
        self.own.close()
        self._observer.close()
        self._stranger.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _job(self, text: str | None, wall: int) -> JobRow | None:
        row = history_sqlite.job_row(text, wall)
        return None if row is None else structs.replace(row, is_known=self.is_known(row.task))


class _Inline:
    """A replacement of the store's thread: it runs each action here and at once, and no time passes."""

    def __init__(self, mirror: Mirror, database: StoreDatabase, clock: Clock, busy_limit: float) -> None:
        self._mirror, self._database, self._clock, self._busy_limit = mirror, database, clock, busy_limit

    async def run(self, action: Callable[[StoreDatabase], Result]) -> Result:
        until = self._clock.monotonic() + self._busy_limit
        while True:
            try:
                return action(self._database)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, sqlite3.Error) or not is_busy(error.__cause__):
                    raise
                if self._clock.monotonic() >= until:
                    raise
            finally:
                self._mirror.look()
            await self._clock.sleep(AGAIN)

    async def close(self) -> None:
        self._database.close()


class _Simulated(SqliteStore):
    """The real store, without its thread."""

    def __init__(
        self, mirror: SqliteFile, database: StoreDatabase, clock: Clock, process: ProcessIdentity, busy_limit: float
    ) -> None:
        super().__init__(mirror.path, clock=clock, chance=FakeChance(), process=process)
        self._thread = _Inline(mirror, database, clock, busy_limit)  # type: ignore[assignment]


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def _member(flow: bytes, node: str, join: int | None, on_failure: str, is_gate: int, inputs: str | None, *rest: int) -> Member:
    needs, waits, is_paused, is_suspended = rest
    return Member(
        flow=UUID(bytes=flow),
        node=node,
        join=join,
        on_failure=OnFailure(on_failure),
        is_gate=bool(is_gate),
        inputs=inputs_of(inputs),
        needs=needs,
        waits=waits,
        is_paused=bool(is_paused),
        is_suspended=bool(is_suspended),
    )


def _edge(parent: bytes, child: bytes, tolerates: int, is_child: int, parent_flow: bytes | None) -> Edge:
    flow = None if parent_flow is None else UUID(bytes=parent_flow)
    return Edge(UUID(bytes=parent), UUID(bytes=child), bool(tolerates), bool(is_child), flow)


def _flow(values: Sequence[Any], edges: Sequence[Edge]) -> FlowRow:
    paused_at, ended_for, deadline_at = values
    return FlowRow(
        is_paused=paused_at is not None and ended_for is None,
        ended_for=None if ended_for is None else Reason(ended_for),
        deadline_at=None if deadline_at is None else _moment(deadline_at),
        edges=tuple(edges),
    )


def _decoded(result: bytes | None) -> str | None:
    return None if result is None else bytes(result).decode()


def _schedule(row: Sequence[Any]) -> Schedule:
    name, plan, next_at, last_tick, last_job, paused_at, version = row
    return Schedule(
        name=name,
        plan=msgspec.json.decode(plan, type=Plan),
        next_at=_moment(next_at),
        last_tick=None if last_tick is None else _moment(last_tick),
        last_job=None if last_job is None else UUID(bytes=last_job),
        paused_at=None if paused_at is None else _moment(paused_at),
        version=version,
    )


def _database(path: Path, clock: Clock, process: ProcessIdentity) -> StoreDatabase:
    """Return a database that never waits: a BUSY statement is sent again in virtual time."""
    return StoreDatabase(path, clock, FakeChance(), process, busy_limit=0.0, use_apsw=driver.is_apsw())


def _close_database(database: StoreDatabase, how: Exit) -> None:
    del how
    database.close()


def _folder() -> Path:
    """Return a folder whose files are in memory, if there is one."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and "TMPDIR" not in os.environ else Path(tempfile.gettempdir())


def _template() -> bytes:
    """Return an empty file with the schema and the log, made once in each process."""
    if not _TEMPLATE:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "jobs.db"
            database = _database(path, FakeClock(), ProcessIdentity("template", 1))
            database.migrate()
            history_sqlite.watch(path)
            with history_sqlite.opened(path) as connection:
                for statement in TABLE:
                    connection.execute(statement)
            database.close()
            _TEMPLATE.append(path.read_bytes())
    return _TEMPLATE[0]

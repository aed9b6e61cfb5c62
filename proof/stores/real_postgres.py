"""A real PostgreSQL server under simulation: one database, emptied for each world, with the clock of that world.

The event loop of a world knows no sockets. Each statement runs in the event loop of another thread, and the world stands still
until the statement is answered. So a statement takes no virtual time; other processes run between the statements of a verb.
"""

import asyncio
import atexit
import copy
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache, partial
from itertools import groupby
from operator import itemgetter
from threading import Thread
from typing import Any, Final, TypeVar
from uuid import UUID

import asyncpg
import msgspec
from msgspec import structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.schedule import Plan, Schedule
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast._ports.wire import READS
from holdfast.databases.postgres.database import Pools
from holdfast.databases.postgres.pool import Connection
from holdfast.errors import HoldfastError
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.servers.postgres import PostgresServer
from proof.checker import history_postgres
from proof.checker.history import JobRow
from proof.simulator.hosts import EPOCH, SimClock
from proof.simulator.loop import Process
from proof.stores.mirrored_flows import FlowsSeen
from proof.stores.postgres_flows import BESIDE_JOBS, FlowReader
from proof.stores.statement_recorder import CALL, SCHEDULING, Change, Mirror, announced

AGAIN: Final = 0.25  # seconds after which a statement that met a lock is sent again
LOCK_LIMIT: Final = 5.0  # seconds for which it waits for a lock, as the store's own sessions do
LOCK_TIMEOUT: Final = "2ms"  # for which the server waits: no virtual time passes there

_SETTINGS: Final = {"autovacuum": "off", "max_connections": "20", "synchronous_commit": "on"}
_CLOCK: Final = """
CREATE SCHEMA fake;
CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE
    AS $$ BEGIN RETURN current_setting('holdfast.now')::timestamptz; END $$;
"""
_EMPTY: Final = """
SELECT string_agg(format('DELETE FROM %I.%I', relnamespace::regnamespace, relname), '; ') FROM pg_class
WHERE relnamespace IN ('holdfast'::regnamespace, 'history'::regnamespace) AND relkind IN ('r', 'p') AND NOT relispartition
    AND relname NOT IN ('versions', 'partition_days')
"""
VACUUM: Final = 25  # worlds after which the dead rows of earlier worlds are removed
_NEW: Final = """
SELECT place, move, asked_at, what, id, before::text, after::text FROM history.rows WHERE place > $1 ORDER BY place
"""
_SCHEDULES: Final = "SELECT name, plan, next_at, last_tick, last_job, paused_at, version FROM holdfast.schedules"
_LOCK_TIMEOUT: Final = re.compile(r"lock_timeout = '\w+'")
_PAUSED: Final = "SELECT queue FROM holdfast.queues WHERE paused_at IS NOT NULL"

Answer = TypeVar("Answer")


class Portal:
    """An event loop in a separate thread, for callers that cannot wait in their own loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        Thread(target=self.loop.run_forever, name="real statements", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the result of the coroutine; the caller's whole thread waits for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class Site:
    """A server and one database with the schema, the log and a clock that can be set; one for each operating-system process."""

    def __init__(self) -> None:
        self._server = PostgresServer(settings=_SETTINGS)
        self._server.start()
        atexit.register(self._server.close)
        self.dsn, self.portal = self._server.create_database(), Portal()
        self.portal.run(self._furnish())

    async def _furnish(self) -> None:
        database = self.dsn.rpartition("/")[2]
        owner = await asyncpg.connect(self.dsn)
        await owner.execute(_CLOCK)
        await owner.execute(f'ALTER DATABASE "{database}" SET search_path = fake, pg_catalog')
        await owner.execute(f"ALTER DATABASE \"{database}\" SET holdfast.now = '{datetime.fromtimestamp(EPOCH, UTC)}'")
        await owner.close()
        founder = PostgresStore(
            self.dsn,
            clock=FakeClock(),
            chance=FakeChance(),
            process=ProcessIdentity("simulation", 1),
            server_settings={"lock_timeout": LOCK_TIMEOUT},
        )
        await founder.migrate()
        await history_postgres.install(self.dsn)
        self.pools = Pools(founder._connect, 1)
        self.pools.beats = self.pools.shared
        self.observer = await founder.connect()
        self._empty = await self.observer.fetchval(_EMPTY)
        self._worlds = 0

    def empty(self) -> None:
        """Empty the database, as if nothing had happened in it."""
        self._worlds += 1
        restart = "ALTER SEQUENCE holdfast.claim_numbers RESTART; ALTER SEQUENCE history.rows_place_seq RESTART"
        self.portal.run(self.observer.execute(f"{self._empty}; {restart}"))
        if self._worlds % VACUUM == 0:
            self.portal.run(self.observer.execute("VACUUM"))

    async def set_clock(self, now: datetime) -> None:
        """Set the server's clock, as the stores of a world read it."""
        async with self.pools.shared.lend() as link:
            await link.execute(f"SET holdfast.now = '{now}'")


site = cache(Site)


def _schedule(row: asyncpg.Record) -> Schedule:
    last_job = None if row["last_job"] is None else UUID(int=row["last_job"].int)
    return Schedule(**{**row, "plan": msgspec.json.decode(row["plan"], type=Plan), "last_job": last_job})


class PostgresDatabase(Mirror):
    """The site's database, for one world. ``clock``: the server's."""

    def __init__(self, clock: SimClock, *mirrored: Any, has_flows: bool = False) -> None:
        super().__init__(*mirrored)
        self.site, self._clock, self._place = site(), clock, 0
        self._reader = FlowReader(self.site.observer.fetchval) if has_flows else None
        self._flows_seen = FlowsSeen(at=self.wall()) if has_flows else None
        self._set: datetime | None = None
        self._rows: list[asyncpg.Record] = []
        self._strangers: list[asyncpg.Connection] = []
        self._queues: list[asyncpg.Record] | None = None
        self._found: list[asyncpg.Record] = []
        self.site.empty()

    def reached_by(self, process: Process) -> Store:
        clock = self.clock_of(process.name)
        return announced(_Simulated(self, clock, process.identity), process.name)

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock the rows of jobs in a separate session, in any of the three tables; the returned function ends the session."""
        strength = "UPDATE" if is_exclusive else "KEY SHARE"
        session = self.site.portal.run(asyncpg.connect(self.site.dsn))
        self._strangers.append(session)
        self.site.portal.run(session.execute("BEGIN"))
        for place in ("pending", "active", "finished"):
            statement = f"SELECT FROM holdfast.{place} WHERE id = ANY($1) FOR {strength} SKIP LOCKED"
            self.site.portal.run(session.execute(statement, list(jobs)))
        return partial(self._leave, session)

    def _leave(self, session: asyncpg.Connection) -> None:
        self._strangers.remove(session)
        self.site.portal.run(session.close())

    def close_world(self) -> None:
        """End the foreign sessions; the next world empties the database."""
        for session in list(self._strangers):
            self._leave(session)

    def run(self, statement: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Send a statement now, and return its answer."""
        try:
            return self.site.portal.run(self._at(self.wall(), statement))
        finally:
            self.look()

    def wall(self) -> datetime:
        """Return the time of the server's clock."""
        return datetime.fromtimestamp(self._clock.wall(), UTC)

    async def _at(self, now: datetime, statement: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        if self._set != now:
            await self.site.set_clock(now)
            self._set = now
        try:
            return await statement()
        except BaseException:
            self._set = None  # the store may have closed the connection, and a new one has the first clock
            raise
        finally:
            if (verb := CALL.get().verb) not in READS:
                self._rows = await self.site.observer.fetch(_NEW, self._place)
                self._queues = await self.site.observer.fetch(_PAUSED) if verb == "pause" else None
                self._found = await self.site.observer.fetch(_SCHEDULES) if verb in SCHEDULING else []
                if self._reader is not None and (self._rows or verb in BESIDE_JOBS):
                    self._flows_seen = await self._reader.read(now)

    def schedules(self) -> tuple[datetime, list[Schedule]]:
        return self.wall(), [_schedule(row) for row in self._found]

    def flows(self) -> FlowsSeen | None:
        return self._flows_seen

    def changes(self) -> Iterator[Change]:
        now, rows, queues = self.wall(), self._rows, self._queues
        self._rows, self._queues = [], None
        if rows:
            self._place = rows[-1]["place"]
        yield from self._moves(rows, now)
        if queues is not None:
            yield from self._pauses({queue for (queue,) in queues})

    def _moves(self, rows: Sequence[asyncpg.Record], now: datetime) -> Iterator[Change]:
        """Yield the changes of each transaction. A row that one table loses and another one gets in one transaction has moved.

        The rows of one statement change at once, in an order that depends on where earlier worlds left free space in a page.
        Here they are in the order of their claim numbers, so that the same seed gives the same history.
        """
        for _, transaction in groupby(rows, itemgetter("move")):
            found = self._moves_at_once(transaction, now)
            ranks = {change.id: _rank(change) for _, change in reversed(found)}
            for _, change in sorted(found, key=lambda each: (each[0], ranks[each[1].id])):
                yield change

    def _moves_at_once(self, rows: Iterable[asyncpg.Record], now: datetime) -> list[tuple[int, Change]]:
        """Return the changes of a transaction, each with the number of its statement."""
        half_moves: dict[UUID, int] = {}
        found, statements = list[tuple[int, Change]](), dict[datetime, int]()
        for row in rows:
            place = statements.setdefault(row["asked_at"], len(statements))
            if row["what"] == "lease":
                old, new = history_postgres.lease_row(row["before"], now), history_postgres.lease_row(row["after"], now)
                found.append((place, Change("lease", row["id"], old, new)))
                continue
            change = Change("job", row["id"], self._job(row["before"], now), self._job(row["after"], now))
            half = half_moves.pop(row["id"], None)
            if half is not None and (change.before is None) != (change.after is None):
                first, other = found[half]
                found[half] = first, Change("job", row["id"], other.before or change.before, other.after or change.after)
                continue
            if (change.before is None) != (change.after is None):
                half_moves[row["id"]] = len(found)
            found.append((place, change))
        return found

    def _pauses(self, paused: set[str]) -> Iterator[Change]:
        for queue in sorted(paused ^ self._paused):
            yield Change("queue", note=f"{'paused' if queue in paused else 'resumed'} {queue}")

    def _job(self, text: str | None, now: datetime) -> JobRow | None:
        row = history_postgres.job_row(text, now)
        return None if row is None else structs.replace(row, is_known=self.is_known(row.task))


class _Simulated(PostgresStore):
    """The real store, whose statements reach the server through the mirror."""

    def __init__(self, mirror: PostgresDatabase, clock: Clock, process: ProcessIdentity) -> None:
        super().__init__(mirror.site.dsn, clock=clock, chance=FakeChance(), process=process)
        self._mirror = mirror
        self._pools_here = copy.copy(mirror.site.pools)
        self._pools_here.keyed = asyncio.Semaphore()  # one of each process, in the event loop of its world

    def _here(self) -> Pools:
        return self._pools_here

    async def close(self) -> None:
        """Keep the connections open, for the next world."""

    async def _retrying(self, action: Callable[[], Awaitable[Answer]], name: str = "store") -> Answer:
        """Send a statement, or a whole transaction: all of them pass through here."""
        return await self._send(partial(super()._retrying, action, name))

    @asynccontextmanager
    async def _transaction(self, limit: float | None = None, settings: str = "") -> AsyncIterator[Connection]:
        short = _LOCK_TIMEOUT.sub(f"lock_timeout = '{LOCK_TIMEOUT}'", settings)
        async with super()._transaction(limit, short) as connection:
            yield connection

    async def _send(self, statement: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        until = self._clock.monotonic() + LOCK_LIMIT
        while True:
            try:
                return self._mirror.run(statement)
            except (HoldfastError, asyncpg.LockNotAvailableError) as error:
                if not _is_locked(error) or self._clock.monotonic() >= until:
                    raise
            await self._clock.sleep(AGAIN)


def _rank(change: Change) -> tuple[int, int]:
    """Return the place of a change among those of its statement. A root, which is older than its members, is deleted after them."""
    row = change.after or change.before
    assert change.id is not None
    if change.after is None:
        return 0, -change.id.int
    return (row.token.number if isinstance(row, JobRow) else 0), change.id.int


def _is_locked(error: BaseException) -> bool:
    return any(isinstance(each, asyncpg.LockNotAvailableError) for each in (error, error.__cause__))

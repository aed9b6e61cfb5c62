"""Holdfast's own statements, sent by the raw driver on one connection: no App, no client, no worker; parameters are made beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self
from uuid import UUID

import asyncpg

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.postgres import session_settings
from holdfast.stores.postgres import parameters as postgres
from holdfast.stores.postgres.claim_cursor import ClaimCursor
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.sqlite import parameters as sqlite
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.exchange import Exchange
from holdfast.stores.sqlite.lanes import Rounds
from holdfast.stores.sqlite.store import SqliteStore

RETENTION = 7 * 86400.0
PROCESS = ProcessIdentity("bench", 1)
CHANCE = SystemRandomness()


class Statements(Protocol):
    """One store without the engine. ``prepare…`` is not timed; what it returns is sent as it is."""

    @classmethod
    async def on(cls, url: str, task: str, policy: Policy) -> Self:
        """Connect to a store with Holdfast's schema."""
        ...

    def jobs(self, count: int) -> list[NewJob]:
        """Make jobs that do nothing."""
        ...

    def prepared(self, jobs: Sequence[NewJob]) -> Any:
        """Return the parameters of one enqueue."""
        ...

    async def enqueue(self, parameters: Any) -> None:
        """Send them, in one commit."""
        ...

    async def drain(self, count: int, size: int) -> None:
        """Claim and settle that many jobs, ``size`` in one exchange, each of which also settles what the last one claimed."""
        ...

    async def close(self) -> None: ...


class _Raw:
    def __init__(self, task: str, policy: Policy) -> None:
        self._task, self._policy = task, policy
        self._lease = NewLease(CHANCE.uuid4(), "bench", PROCESS, LeaseTiming.of("10m"), tasks=(task,), slots=100)

    def jobs(self, count: int) -> list[NewJob]:
        ids = CHANCE.uuid7s(count)
        return [NewJob(id=each, task=self._task, payload=b'{"n":%d}' % n, policy=self._policy) for n, each in enumerate(ids)]

    def _claims(self, count: int, size: int) -> Iterator[ClaimRequest]:
        for start in range(0, count, size):
            claim, limit = CHANCE.uuid4(), min(size, count - start)
            yield ClaimRequest(lease=self._lease.id, claim=claim, tasks={self._task: self._policy}, limit=limit)


class PostgresStatements(_Raw):
    """``enqueue_plain.sql``, ``enqueue_one.sql`` and ``exchange.sql`` through asyncpg, prepared once."""

    def __init__(self, task: str, policy: Policy, store: PostgresStore, connection: asyncpg.Connection) -> None:
        super().__init__(task, policy)
        self._store, self._connection = store, connection
        self._ready: dict[str, Any] = {}

    @classmethod
    async def on(cls, url: str, task: str, policy: Policy) -> Self:
        store = PostgresStore(url, clock=SystemClock(), chance=CHANCE, process=PROCESS)
        settings = session_settings.settings("bench", {}, {}, is_pooled=False)
        return cls(task, policy, store, await asyncpg.connect(url, server_settings=settings))

    def prepared(self, jobs: Sequence[NewJob]) -> Any:
        call = CHANCE.uuid4()
        if postgres.is_single(jobs):
            return "enqueue_one", postgres.enqueue_one(call, jobs[0])
        name, parameter = postgres.enqueue(call, jobs)
        return name, (parameter,)

    async def enqueue(self, parameters: Any) -> None:
        name, values = parameters
        await self._fetch(name, values)

    async def drain(self, count: int, size: int) -> None:
        await self._store.open_lease(self._lease)
        where: tuple[Any, ...] = ClaimCursor(sole=(self._task, 0, "default", "")).due_range
        settles: tuple[Any, ...] = postgres.settling(())
        for request in self._claims(count, size):
            name = "exchange due_range" if settles[0] else "claim due_range"
            rows = await self._fetch(name, (*settles, *postgres.claiming(request), *where))
            assert len(rows) == request.limit
            rows.sort(key=lambda row: row["claim_number"])
            numbers = [row["claim_number"] for row in rows]
            settles = [row["id"] for row in rows], [request.claim], numbers, [b"null"], [RETENTION]
            end = max(rows, key=lambda row: (row["available_at"], row["id"]))
            where = self._task, 0, "default", "", end["available_at"], end["id"]
        last = [_completed(job, Token(settles[1][0], number)) for job, number in zip(settles[0], settles[2], strict=True)]
        await self._store.exchange(last)

    async def close(self) -> None:
        await self._connection.close()
        await self._store.close()

    async def _fetch(self, name: str, values: Sequence[Any]) -> list[asyncpg.Record]:
        statement = self._ready.get(name)
        if statement is None:
            statement = self._ready[name] = await self._connection.prepare(self._store._sql(name))
        found: list[asyncpg.Record] = await statement.fetch(*values)
        return found


class SqliteStatements(_Raw):
    """``enqueue.sql``, ``enqueue_one.sql`` and ``exchange.sql`` through ``sqlite3``, in the caller's thread."""

    def __init__(self, task: str, policy: Policy, path: Path) -> None:
        super().__init__(task, policy)
        self._path = path
        self._database = StoreDatabase(path, SystemClock(), CHANCE, PROCESS, busy_limit=10.0, use_apsw=False)

    @classmethod
    async def on(cls, url: str, task: str, policy: Policy) -> Self:
        return cls(task, policy, Path(url.removeprefix("sqlite:///")))

    def prepared(self, jobs: Sequence[NewJob]) -> Any:
        is_single = len(jobs) == 1
        packed = sqlite.single(jobs[0]) if is_single else sqlite.jobs(jobs)
        values = {**packed, "call": CHANCE.uuid4().bytes, "inline": sqlite.INLINE}
        return "enqueue_one" if is_single else "enqueue", values

    async def enqueue(self, parameters: Any) -> None:
        name, values = parameters
        self._database.write_changed(name, **values)

    async def drain(self, count: int, size: int) -> None:
        store = SqliteStore(self._path, clock=SystemClock(), chance=CHANCE, process=PROCESS)
        await store.open_lease(self._lease)
        await store.close()
        rounds, settles = Rounds(), list[Transition]()
        for request in self._claims(count, size):
            answer = Exchange(self._database, settles, sqlite.transitions(settles), rounds).run(request)
            assert len(answer.claims) == request.limit
            settles = [_completed(claim.job.id, claim.job.token) for claim in answer.claims]
        Exchange(self._database, settles, sqlite.transitions(settles), rounds).run(None)

    async def close(self) -> None:
        self._database.close()


def _completed(job: UUID, token: Token) -> Transition:
    return Transition(job=job, token=token, to=State.COMPLETED, failures=0, crashes=0, retention=RETENTION, result=b"null")

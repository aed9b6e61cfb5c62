"""The SQLite store: each verb packs its values, runs its file of ``queries`` and maps the answer.

All work on the file happens in one thread of the store's own, so that the event loop never waits for a disk.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID

import msgspec

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Hold, JobRecord, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.settling import is_repeated
from holdfast._core.timing import LeaseTiming
from holdfast._ports.clock import Chance, Clock
from holdfast._ports.store import (
    Answer,
    BeatAnswer,
    Capabilities,
    Check,
    ClaimRequest,
    ExchangeAnswer,
    JobFilter,
    LeaseView,
    NewLease,
    Note,
    Update,
)
from holdfast.stores.sqlite import checks, packing, rows
from holdfast.stores.sqlite.database import BUSY_LIMIT, Database
from holdfast.stores.sqlite.leases import Watch

# Payloads up to this long stay in the job's row.
INLINE = 512

_NOTHING = packing.transitions(())
_NO_CLAIM = {"lease": None, "claim": None, "tasks": "{}", "queues": None, "running": 0, "room": 0}

# A forked child may neither use nor close its parent's connections: closing one would let go of the parent's locks.
_INHERITED: list["_Room"] = []

Result = TypeVar("Result")


class _Room:
    """One process's thread, and the connection that only it touches."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.process = os.getpid()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-sqlite")


class SqliteStore:
    """Jobs in one file; opens it at the first verb, and creates or upgrades its schema then."""

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        chance: Chance,
        process: ProcessIdentity,
        busy_limit: float = BUSY_LIMIT,
    ) -> None:
        self._path = Path(path).absolute()
        self._parts = (clock, chance, process, busy_limit)
        self._process = process
        self._watch = Watch(process)
        self._room: _Room | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("sqlite", "kernel")

    # moving

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob]) -> None:
        values = packing.jobs(jobs)
        await self._do(lambda database: database.write("enqueue", call=call.bytes, inline=INLINE, **values))

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        # Of two transitions under one token the first is sent; the other is judged by what became of that.
        firsts = _firsts(transitions)
        values = packing.transitions(firsts) if firsts else _NOTHING
        claim = _NO_CLAIM if request is None else _claim_values(request)

        def settle_and_claim(database: Database) -> ExchangeAnswer:
            changes = database.write("exchange", **values, **claim)
            taken = () if request is None else tuple(map(lambda row: rows.claim_of(row, request), database.read("exchange_claims", **claim)))
            # Nothing else is counted: so many changes mean that every settle landed.
            expected = len(transitions) + sum(map(packing.is_kept, firsts)) + len(taken) + bool(taken)
            if changes == expected:
                return ExchangeAnswer((Answer.APPLIED,) * len(transitions), taken)
            return ExchangeAnswer(_answers(database, transitions), taken)

        return await self._do(settle_and_claim)

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        values = {**packing.records((job, token, None) for job, token in tokens), "places": packing.places(len(tokens))}

        def start(database: Database) -> frozenset[UUID]:
            database.write("start", **values)
            return frozenset(tokens[place][0] for (place,) in database.read("start_lost", **values))

        return await self._do(start)

    async def report(self, updates: Sequence[Update]) -> frozenset[UUID]:
        values = packing.updates(updates)

        def report(database: Database) -> frozenset[UUID]:
            database.write("report", **values)
            return frozenset(UUID(bytes=job) for (job,) in database.read("report_lost", **values))

        return await self._do(report)

    async def annotate(self, notes: Sequence[Note]) -> None:
        values = packing.notes(notes)
        await self._do(lambda database: database.write("annotate", **values))

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        return await self._operate("request_cancel", ids)

    async def reopen(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        return await self._operate("reopen", ids)

    # owning

    async def open_lease(self, lease: NewLease) -> bool:
        values = _lease_values(lease)
        return bool(await self._do(lambda database: database.write("open_lease", **values)))

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        values = packing.ids(leases)

        def beat(database: Database) -> BeatAnswer:
            database.write("beat", is_draining=draining, **values)
            return _beat_answer(leases, database.read("beat_answer", **values))

        return await self._do(beat)

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> bool:
        nobody = packing.json_text(ProcessIdentity("", 0)), packing.json_text(LeaseTiming(0.0, 0.0, 0.0))
        values = {"lease": lease.bytes, "why": packing.json_text(why), "seen": seen, "process": nobody[0], "timing": nobody[1]}

        def end(database: Database) -> bool:
            is_overdue = seen is not None and self._watch.is_overdue(lease, seen, database.monotonic())
            if database.write("end_lease", is_overdue=is_overdue, **values):
                return True
            ((is_ended,),) = database.read("is_ended", lease=lease.bytes)
            return bool(is_ended)

        return await self._do(end)

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[Hold, ...]:
        found = await self._read("held", lease=lease.bytes, limit=-1 if limit is None else limit)
        return tuple(map(rows.hold_of, found))

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        views = await self._do(self._leases)
        found = [view for view in views if (view.holds if view.end is not None else view.overdue > 0)]
        return tuple(sorted(found, key=lambda view: (view.end is None, -view.overdue, view.id))[:limit])

    # reading

    async def get(self, job: UUID) -> JobRecord | None:
        found = await self._read("get", job=job.bytes)
        if not found:
            return None
        state, *columns = found[0]
        attempts = [row[-11:] for row in found if row[-11] is not None]
        return rows.record_of(state, tuple(columns[:-11]), tuple(rows.attempt_of(columns[0], attempt) for attempt in attempts))

    async def list(self, which: JobFilter) -> tuple[JobRecord, ...]:
        values = {**msgspec.structs.asdict(which), "before": None if which.before is None else which.before.bytes}
        return tuple(rows.record_of(row[0], row[1:]) for row in await self._read("list", **values))

    async def counts(self, by: Literal["queue", "task"] | None = None) -> dict[tuple[str, State], int]:
        return {(name, State(state)): count for name, state, count in await self._read("counts", by=by)}

    async def workers(self) -> tuple[LeaseView, ...]:
        return tuple(view for view in await self._do(self._leases) if view.end is None)

    async def next_due(self, tasks: Sequence[str], queues: Sequence[str] | None = None) -> float | None:
        names = {"tasks": packing.json_text(tasks), "queues": None if queues is None else packing.json_text(queues)}
        ((wait,),) = await self._read("next_due", **names)
        return None if wait is None else wait / 1e6

    # keeping

    async def migrate(self) -> tuple[int, int]:
        def open_file(database: Database) -> tuple[int, int]:
            database.open()
            return database.versions

        return await self._do(open_file)

    async def check(self) -> tuple[Check, ...]:
        return await self._do(checks.check)

    async def close(self) -> None:
        room, self._room = self._room, None
        if room is not None and room.process == os.getpid():
            await asyncio.get_running_loop().run_in_executor(room.thread, room.database.close)
            room.thread.shutdown()

    # inside

"""The SQLite store: each verb packs its values, runs its file of ``queries`` and maps the answer.

All work on the file happens in one separate thread, and every write is one statement: see ``database.py``.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from copy import copy
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import (
    MOST_ATTEMPTS,
    BeatAnswer,
    BeatView,
    Capabilities,
    Check,
    DueJob,
    EnqueueAnswer,
    ExchangeAnswer,
    ExpiredJob,
    LeaseView,
    OverdueJob,
    Pruned,
    ReopenAnswer,
    due_in,
)
from holdfast._core.encoding import end_of
from holdfast._core.flow_changes import FlowChanges
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, NewJob, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.reading import first_readable
from holdfast._core.record import JobRecord
from holdfast._core.requests import (
    AttemptNote,
    BeatNote,
    ClaimRequest,
    IsolatedJobs,
    NewLease,
    ProgressUpdate,
)
from holdfast._core.text import json_text
from holdfast._core.timing import LeaseTiming
from holdfast._ports.backup import Backup
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.trial import try_out
from holdfast.databases.readable import readable
from holdfast.databases.sqlite import driver, transactions
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.database import BUSY_LIMIT
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.transactions import TransactionTurns
from holdfast.databases.sqlite.values import Values, micros
from holdfast.stores.sqlite import backup, checks, limits, workflows
from holdfast.stores.sqlite import caller_transactions as within
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite import records as rows
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite.audits import AuditVerbs
from holdfast.stores.sqlite.caller_blocks import Checks
from holdfast.stores.sqlite.caller_flows import CallerFlows
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.errors import ErrorVerbs
from holdfast.stores.sqlite.exchange import Exchange
from holdfast.stores.sqlite.history import HistoryVerbs
from holdfast.stores.sqlite.job_transaction import Transaction, owned
from holdfast.stores.sqlite.lanes import Rounds
from holdfast.stores.sqlite.leases import LeaseSightings
from holdfast.stores.sqlite.library_notice import LibraryNotice
from holdfast.stores.sqlite.limits import LimitVerbs
from holdfast.stores.sqlite.lists import ListVerbs
from holdfast.stores.sqlite.prefetching import Prefetching
from holdfast.stores.sqlite.rehearsal import SameThread, run_at_once
from holdfast.stores.sqlite.schedules import ScheduleVerbs
from holdfast.stores.sqlite.steps import StepVerbs
from holdfast.stores.sqlite.workflows import WorkflowVerbs

_UNKNOWN_LEASE = NewLease(UUID(int=0), "", ProcessIdentity("", 0), LeaseTiming(0.0, 0.0, 0.0))

Rows = list[rows.Row]


class SqliteStore(
    AuditVerbs, HistoryVerbs, ScheduleVerbs, LimitVerbs, Prefetching, StepVerbs, WorkflowVerbs, CallerFlows, ErrorVerbs, ListVerbs
):
    """Jobs in one file, opened by the first verb, which creates or upgrades its schema.

    ``process``: the identity of this process. Its boot and clock decide which leases it can judge by its monotonic clock.
    ``busy_limit``: the seconds to wait for other writers. ``use_apsw``: apsw's SQLite instead of Python's own; ``None``: as
    ``HOLDFAST_SQLITE`` sets.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        chance: Randomness,
        process: ProcessIdentity,
        busy_limit: float = BUSY_LIMIT,
        use_apsw: bool | None = None,
    ) -> None:
        file, is_apsw = Path(path).absolute(), driver.is_apsw(use_apsw)
        self._notice = LibraryNotice(driver.version(use_apsw=is_apsw))
        self._flow_changes = changes = FlowChanges()
        self._thread = ConnectionThread(
            lambda: StoreDatabase(file, clock, chance, process, busy_limit=busy_limit, use_apsw=is_apsw, flow_changes=changes)
        )
        self._watch, self._who, self._rounds = LeaseSightings(process), (chance, process), Rounds()
        self._path, self._clock, self._use_apsw = file, clock, is_apsw
        self._spares, turns = SpareConnection(file, use_apsw=is_apsw), TransactionTurns()
        self._begin = partial(Transaction, file, chance=chance, turns=turns, spares=self._spares, busy_limit=busy_limit)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("sqlite", "kernel", notices=self._notice.lines, caller_transaction=True)

    # moves of jobs

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        is_single = len(jobs) == 1 and under is None and jobs[0].unique_key is None
        packed = packing.single(jobs[0]) if is_single else packing.jobs(jobs, under)
        values = {**packed, "call": call.bytes, "inline": packing.INLINE}

        def enqueue(database: StoreDatabase) -> EnqueueAnswer:
            is_new = database.write_changed("enqueue_one" if is_single else "enqueue", **values)
            if is_new and (is_single or values["is_plain"]):
                return EnqueueAnswer()
            return answers.enqueued(database.read("receipt", call=call.bytes))

        return await self._thread.run(enqueue)

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        wall = micros(self._clock.wall())
        values = {**packing.jobs(jobs), "call": call.bytes, "inline": packing.INLINE, "wall": wall}
        return within.enqueue(connection, self._path, partial(within.enqueue_jobs, values), use_apsw=self._use_apsw)

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        return transactions.in_thread(self._begin(job=job, token=token, idle=idle, hook_due_at=hook_due_at))

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractContextManager[Any]:
        return transactions.blocking(self._begin(job=job, token=token, idle=idle, hook_due_at=hook_due_at))

    def transaction_within(
        self, connection: Any, job: UUID, token: Token, *, idle: float
    ) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        more: dict[str, Any] = {"idle": idle, "use_apsw": self._use_apsw, "now": self._clock.monotonic}
        return Checks(self._path, job, token, values=owned(job, token), **more).run(connection)

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        later = packing.duplicate_positions(transitions)
        if later:
            return await self._exchange_in_turn(transitions, later, request)
        packed = packing.transitions(transitions)
        return await self._thread.run(lambda database: Exchange(database, transitions, packed, self._rounds).run(request))

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        return await self._lost("start", packing.tokens(tokens))

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        return await self._lost("report", packing.updates(updates))

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        await self._write("annotate", packing.notes(notes))

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        return await self._thread.run(lambda database: workflows.cancelled(database, ids))

    async def reopen(self, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        return await self._thread.run(lambda database: workflows.reopened(database, ids, is_fresh=is_fresh))

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        return await self._states("reschedule", ids, packing.due(delay, run_at))

    async def delete(self, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        def delete(database: StoreDatabase) -> dict[UUID, State]:
            database.atomically("delete", lambda: workflows.delete(database, ids, only_waiting=only_waiting))
            return answers.states(database.read("states", **packing.ids(ids)))

        return await self._thread.run(delete)

    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        return answers.expired(await self._thread.run(lambda database: workflows.expire(database, limit)))

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        values = packing.offer(tasks, limit, pause)

        def offer(database: StoreDatabase) -> Rows:
            if not database.read("owed_hooks_due", **values):
                return []
            database.write("owed_hooks", **values)
            return database.read("owed_hooks_jobs")

        return readable(lambda row: rows.record_of(row[0], row[1:]), await self._thread.run(offer))

    # leases

    async def open_lease(self, lease: NewLease) -> bool:
        return await self._thread.run(partial(self._notice.open_lease, packing.lease(lease)))

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        values = {**packing.ids(leases), "is_draining": draining, "notes": packing.beat_notes(leases, notes)}

        def beat(database: StoreDatabase) -> BeatAnswer:
            database.write("beat_noted" if notes else "beat", **values)
            return answers.beaten(leases, database.read("beat_answer", **values))

        return await self._thread.run(beat)

    async def end_lease(self, lease: UUID, why: LeaseEnd, *, seen: str | None = None) -> LeaseEnd | None:
        values = {**packing.lease(structs.replace(_UNKNOWN_LEASE, id=lease)), "end_reason": json_text(why), "seen": seen}

        def end(database: StoreDatabase) -> LeaseEnd | None:
            is_overdue = seen is not None and self._watch.is_overdue(lease, seen, database.monotonic())
            database.write("end_lease", is_overdue=is_overdue, **values)
            (is_ended, end_reason, is_draining) = database.read("end_reason", **values)[0]
            return end_of(end_reason, is_draining=bool(is_draining)) if is_ended else None

        return await self._thread.run(end)

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        def fetch(most: int | None) -> Coroutine[Any, Any, Rows]:
            return self._read("held", {"lease": lease.bytes, "limit": -1 if most is None else most})

        return await first_readable(fetch, partial(readable, rows.active_job_of), limit)

    async def expired(self, limit: int) -> tuple[LeaseView, ...]:
        found = [view for view in await self._leases() if (view.holds if view.end is not None else view.overdue > 0)]
        return tuple(sorted(found, key=lambda view: (view.end is None, -view.overdue, view.id))[:limit])

    async def overdue(self, limit: int) -> tuple[OverdueJob, ...]:
        def fetch(most: int | None) -> Coroutine[Any, Any, Rows]:
            return self._read("overdue", {"limit": most})

        return await first_readable(fetch, partial(readable, rows.overdue_of), limit)

    # reading

    async def get(self, job: UUID) -> JobRecord | None:
        return answers.one(await self._read("get", {"job": job.bytes, "most": MOST_ATTEMPTS}))

    async def workers(self) -> tuple[LeaseView, ...]:
        return tuple(view for view in await self._leases() if view.end is None)

    async def worker_history(self, worker: str, limit: int) -> tuple[BeatView, ...]:
        return readable(rows.beat_of, await self._read("worker_history", {"worker": worker, "limit": limit}))

    async def next_due(
        self, tasks: Sequence[str], queues: Sequence[str] | None = None, isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ) -> float | None:
        values = packing.claimable(tasks, queues, isolated)

        def read(database: StoreDatabase) -> float | None:
            ((wait, is_cut),) = database.read("next_due", **values)
            if uses := limits.uses_of(database):
                wait = limits.wait_of(database.read("next_due_ranges", **values), uses)
            return due_in(wait, is_cut=bool(is_cut))

        return await self._thread.run(read)

    async def due(
        self,
        tasks: Sequence[str],
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        age: float = 0.0,
    ) -> tuple[DueJob, ...]:
        if limit <= 0:
            return ()
        values = {**packing.claimable(tasks, queues, isolated), "limit": limit, "age": micros(age)}
        return readable(rows.due_of, await self._read("due", values))

    # maintenance

    async def prune(self, limit: int) -> Pruned:
        return answers.pruned(await self._touched("prune", {"limit": limit, "floor": micros(RETENTION_FLOOR)}))

    async def migrate(self) -> tuple[int, int]:
        return await self._thread.run(StoreDatabase.migrate)

    async def check(self) -> tuple[Check, ...]:
        return await self._thread.run(lambda database: checks.check(database, partial(self._rehearse, database)))

    async def backup(self, target: str) -> Backup:
        return await asyncio.to_thread(backup.copy, self._path, Path(target), use_apsw=self._use_apsw)

    async def close(self) -> None:
        self._spares.close()  # first: the last close removes the log, which must happen in the thread
        await self._thread.close()
        self._spares.close()  # spares opened since then

    # internals

    def _rehearse(self, database: StoreDatabase) -> Check:
        here = copy(self)
        here._thread = SameThread(database)  # type: ignore[assignment] # has all that verbs use of a thread
        return database.rehearse(lambda: run_at_once(try_out(here, *self._who)))

    async def _exchange_in_turn(
        self, transitions: Sequence[Transition], later: Sequence[int], request: ClaimRequest | None
    ) -> ExchangeAnswer:
        first = [place for place in range(len(transitions)) if place not in later]
        before = await self.exchange([transitions[place] for place in first])
        after = await self.exchange([transitions[place] for place in later], request)
        by_position = dict(zip([*first, *later], [*before.answers, *after.answers], strict=True))
        return ExchangeAnswer(
            tuple(by_position[place] for place in range(len(transitions))),
            after.claims,
            after.cursor,
            after.is_whole,
            after.has_limited,
        )

    async def _read(self, name: str, values: Values) -> Rows:
        return await self._thread.run(lambda database: database.read(name, **values))

    async def _write(self, name: str, values: Values) -> int:
        return await self._thread.run(lambda database: database.write(name, **values))

    async def _lost(self, name: str, values: Values) -> frozenset[UUID]:
        def write(database: StoreDatabase) -> frozenset[UUID]:
            database.write(name, **values)
            return frozenset(UUID(bytes=job) for (job,) in database.read(f"{name}_lost", **values))

        return await self._thread.run(write)

    async def _touched(self, name: str, values: Values) -> Rows:
        def write(database: StoreDatabase) -> Rows:
            database.write(name, **values)
            return database.read("touched")

        return await self._thread.run(write)

    async def _states(self, name: str, jobs: Sequence[UUID], more: Values | None = None) -> dict[UUID, State]:
        values = {**packing.ids(jobs), **(more or {})}

        def write(database: StoreDatabase) -> dict[UUID, State]:
            database.write(name, **values)
            return answers.states(database.read("states", **values))

        return await self._thread.run(write)

    async def _leases(self) -> tuple[LeaseView, ...]:
        def read(database: StoreDatabase) -> tuple[LeaseView, ...]:
            found = database.read("leases")
            return self._watch.views(found, wall=database.now(), monotonic=database.monotonic())

        return await self._thread.run(read)

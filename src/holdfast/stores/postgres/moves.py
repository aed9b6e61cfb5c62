"""The verbs that move jobs: each packs its values, runs its file of ``queries`` and maps the answer."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer, ExchangeAnswer, ExpiredJob, Purged, ReopenAnswer, SteerAnswer
from holdfast._core.job import Claim, NewJob, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import LONGEST_HOOK_DELAY
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ClaimRequest, IsolatedJobs, JobFilter, ProgressUpdate, Steer, SteerVerb
from holdfast.databases.postgres import errors as failures
from holdfast.databases.readable import readable
from holdfast.errors import HoldfastError, StoreBusy
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import records as rows
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.claim_cursor import ClaimCursor, kind_of
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.reading import conditions_of

_KINDS = 64  # of claims whose cursors are kept
_NEW = ClaimCursor()
_UNKNOWN = -(10**9)

HURRIED = "SET LOCAL lock_timeout = '100ms'"
HURRIED_LIMIT = 5.0
"""Seconds for finding out which jobs of one call are locked; after that, those not done yet count as locked."""

SPARE_RANGES = 32
"""The ranges that a claim reads beyond the jobs it asks for. Other claims may have the first jobs of these ranges locked. Without spare
ranges, the later jobs of the same ranges would be taken before the first ones of ranges that were left out."""

Rows = list[asyncpg.Record]


class Moves(StoreDatabase):
    """The part of the store that moves jobs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: dict[tuple[object, ...], ClaimCursor] = {}

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        is_known = self._may_be_known(jobs)
        if under is None and not is_known and packing.is_single(jobs):
            if await self._enqueue_one(call, jobs[0]):
                return answers.ALL
            is_known = True
        name, parameter = packing.enqueue(call, jobs, under, is_known=is_known)
        async with self._here().keyed if any(job.unique_key is not None for job in jobs) else nullcontext():
            return answers.enqueued(await self._fetch(name, parameter), jobs)

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        if later := packing.duplicate_positions(transitions):
            return await self._exchange_in_turn(transitions, later, request)
        plain, rare = ([], transitions) if request is None else packing.split(transitions)
        (settled, refused), claims = await self._settle(rare), tuple[Claim, ...]()
        if any(settle.to is State.AVAILABLE and settle.delay is None for settle in rare):
            self._cursors.clear()  # a job is due again before the position of a cursor
        if request is not None:
            more, claims = await self._claim(request, plain)
            settled += more
        if settled == len(transitions):
            return ExchangeAnswer((Answer.APPLIED,) * len(transitions), claims)
        named = packing.tokens((settle.job, settle.token) for settle in transitions)
        found = await self._fetch("exchange_answers", *named)
        return ExchangeAnswer(answers.settled(transitions, found, refused), claims)

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        rows = [row for columns in packing.starts(tokens) for row in await self._fetch("start", *columns)]
        ours = {(row["id"], Token(row["claim_id"], row["claim_number"])) for row in rows}
        return frozenset(job for job, token in tokens if (job, token) not in ours)

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        rows = [row for columns in packing.reports(updates) for row in await self._fetch("report", *columns)]
        ours = {(row["id"], Token(row["claim_id"], row["claim_number"])) for row in rows}
        lost = frozenset(update.job for update in updates if (update.job, update.token) not in ours)
        self._require_free("report", (row["id"] for row in rows if not row["is_written"]), lost)
        return lost

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        rows = [row for columns in packing.notes(notes) for row in await self._fetch("annotate", *columns)]
        self._require_free("annotate", (row["id"] for row in rows))

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        return await self._states("request_cancel", ids)

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        taken: dict[UUID, UUID] = {}
        states = await self._states("reopen", ids, taken=taken)
        return ReopenAnswer(states, taken)

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        return await self._states("reschedule", ids, delay, run_at)

    async def delete(self, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        return await self._states("delete", ids, only_waiting, column="left_as" if only_waiting else "state")

    async def steer(self, how: Steer, ids: Sequence[UUID], which: JobFilter) -> SteerAnswer:
        more = {SteerVerb.RESCHEDULE: (how.delay, how.run_at), SteerVerb.DELETE: (False,)}.get(how.verb, ())

        async def steer() -> SteerAnswer:
            async with self._transaction() as connection:
                locked = [row["id"] for row in await connection.fetch(self._sql("lock"), list(ids))]
                found = await connection.fetch(self._sql("matching"), locked, *conditions_of(which))
                chosen = [row["id"] for row in found]
                await connection.fetch(self._sql(how.verb), chosen, *more)
                states = await connection.fetch(self._sql("states"), list(ids))
            return SteerAnswer({row["id"]: rows.state_of(row) for row in states}, frozenset(ids) - frozenset(chosen))

        return await self._retrying(steer, how.verb)

    async def purge(self, queue: str, limit: int, until: datetime | None = None) -> Purged:
        return Purged(*(await self._fetch("purge", queue, limit, until))[0])

    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        return tuple(ExpiredJob(row["id"], row["task"]) for row in await self._fetch("expire", limit))

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        found = await self._fetch("owed_hooks", tasks, limit, pause, LONGEST_HOOK_DELAY)
        return readable(lambda row: structs.replace(rows.record_of(row), hook_due_at=row["offered_until"]), found)

    # internals

    async def _enqueue_one(self, call: UUID, job: NewJob) -> bool:
        """Enqueue a job and return True; change nothing and return False if the call is a copy or the id exists."""
        try:
            await self._fetch("enqueue_one", *packing.enqueue_one(call, job))
        except HoldfastError as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                return False
            raise
        return True

    async def _exchange_in_turn(
        self, transitions: Sequence[Transition], later: Sequence[int], request: ClaimRequest | None
    ) -> ExchangeAnswer:
        first = [place for place in range(len(transitions)) if place not in later]
        before = await self.exchange([transitions[place] for place in first])
        after = await self.exchange([transitions[place] for place in later], request)
        by_position = dict(zip([*first, *later], [*before.answers, *after.answers], strict=True))
        return ExchangeAnswer(tuple(by_position[place] for place in range(len(transitions))), after.claims)

    def _text(self, name: str) -> str:
        """Return the text of a query; ``exchange due_range`` is ``exchange.sql`` with ``due_range.sql`` inserted, and ``claim
        due_range`` is the same without settling."""
        whole, _, part = name.partition(" ")
        if not part:
            return super()._text(name)
        settling = super()._text("settling" if whole == "exchange" else "nothing_settled")
        return super()._text("exchange").replace("-- settling\n", settling).replace("-- due", super()._text(part))

    async def _settle(self, transitions: Sequence[Transition]) -> tuple[int, Collection[int]]:
        """Settle transitions; return how many were applied, and the claim numbers of those whose precondition failed."""
        if not transitions:
            return 0, ()
        columns = (*packing.settling(transitions), packing.rare_kinds(transitions))
        ((settled, refused),) = await self._fetch("settle", *columns)
        return settled, refused

    async def _claim(self, request: ClaimRequest, plain: Sequence[Transition] = ()) -> tuple[int, tuple[Claim, ...]]:
        """Settle these first-try successes and claim; return how many were applied (negative if unknown), and the claims."""
        if request.limit > 0 and request.prefetch > 0:
            running, waiting = packing.parts(request)
            settled, claims = await self._claim(running, plain)
            return settled, claims + (await self._claim(waiting))[1]
        room = request.limit or request.prefetch
        if room > 0 and not plain and self._is_slow(request) and (walked := await self._walk(request, room)):
            return 0, walked
        cursor, is_isolated = await self._look(request, room)
        if cursor is None:
            return (await self._settle(plain))[0], ()
        name, where = cursor.due if request.ids is None else ("due_ids", (request.ids, request.queues))
        rows: Rows = []
        if is_isolated:
            settled, _ = await self._settle(plain)
        else:
            verb = "exchange" if plain else "claim"
            rows = await self._fetch(f"{verb} {name}", *packing.settling(plain), *packing.claiming(request), *where)
            settled = rows[0]["settled"] if rows else _UNKNOWN if plain else 0
        if is_isolated or (not rows and request.ids is not None):
            rows = await self._retrying(partial(self._claim_for_isolated_lease, request, name, where), name)
        claims = answers.claims_of(rows, request)
        if request.ids is None and not is_isolated:
            self._remember(kind_of(request), cursor.after(rows, room))
            if cursor.may_miss(rows, room):
                claims += (await self._claim(packing.rest(request, len(rows))))[1]
        return settled, claims

    def _is_slow(self, request: ClaimRequest) -> bool:
        """Return whether claims are so slow that an additional statement would only delay the next job."""
        is_usual = request.ids is None and request.isolated is not IsolatedJobs.ONLY
        return is_usual and bool(request.tasks) and self._cursors.get(kind_of(request), _NEW).is_slow

    async def _walk(self, request: ClaimRequest, room: int) -> tuple[Claim, ...]:
        """Search all ranges and claim, in one statement. If it claims nothing, search again: other claims may have locked all it found."""
        values = (*packing.settling(()), *packing.claiming(request), *packing.walking(request, room + SPARE_RANGES))
        rows = await self._fetch("claim due_all_ranges", *values)
        if rows:
            self._remember(kind_of(request), _NEW.after_walk(len(rows), room))
        return answers.claims_of(rows, request)

    async def _look(self, request: ClaimRequest, room: int) -> tuple[ClaimCursor | None, bool]:
        """Return the position to claim from, ``None`` if no job is due, and whether the lease is an isolated one."""
        if room <= 0 or not request.tasks:
            return None, False
        if request.ids is not None:
            return (_NEW if request.ids else None), False
        kind, now = kind_of(request), self._clock.monotonic()
        cursor = self._cursors.get(kind, _NEW)
        if cursor.leads_on(now):
            return cursor, False
        most = room + SPARE_RANGES + cursor.slack
        found = await self._fetch("ranges", *packing.ranges(request, most))
        cursor = cursor.after_search(found, most, now)
        if not found:
            self._remember(kind, cursor)
            return None, False
        return cursor, bool(found[0]["is_isolated"])

    def _remember(self, kind: tuple[object, ...], cursor: ClaimCursor) -> None:
        if len(self._cursors) >= _KINDS:
            self._cursors.clear()
        self._cursors[kind] = cursor

    async def _claim_for_isolated_lease(self, request: ClaimRequest, name: str, where: tuple[Any, ...]) -> Rows:
        """Claim for an isolated lease: a second claim of it waits here, and then sees the job that the first one took."""
        async with self._transaction() as connection:
            is_isolated = await connection.fetch(self._sql("isolated_lease"), request.lease)
            if not is_isolated or await connection.fetch(self._sql("lease_has_jobs"), request.lease):
                return []
            values = (*packing.settling(()), *packing.claiming(request, is_isolated=True), *where)
            return await connection.fetch(self._sql(f"claim {name}"), *values)

    def _require_free(
        self,
        name: str,
        locked: Iterable[UUID],
        lost: frozenset[UUID] = frozenset(),
        states: Mapping[UUID, State] | None = None,
    ) -> None:
        """Raise ``StoreBusy`` if the verb skipped jobs that another session has locked."""
        if jobs := frozenset(locked):
            raise StoreBusy(
                f"{name}: {self._location.public}: {len(jobs)} jobs are locked: {failures.UNLOCK}", jobs, lost, states
            )

    async def _states(
        self, name: str, jobs: Sequence[UUID], *more: Any, taken: dict[UUID, UUID] | None = None, column: str = "state"
    ) -> dict[UUID, State]:
        """Run the verb and return the state of each job after it. A job that another session moved in the meantime is sent again.

        ``StoreBusy`` names the jobs that another session keeps locked; the verb has been applied to all others.
        """
        states: dict[UUID, State] = {}
        locked: set[UUID] = set()
        parts, until = [list(dict.fromkeys(jobs))], float("inf")
        while parts:
            some = parts.pop()
            try:
                rows = await (self._fetch if until == float("inf") else self._hurry)(name, some, *more)
            except StoreBusy:
                until = min(until, self._clock.monotonic() + HURRIED_LIMIT)
                if len(some) == 1 or self._clock.monotonic() >= until:
                    locked.update(some)
                else:  # the first half of the ids goes first
                    parts += [some[len(some) // 2 :], some[: len(some) // 2]]
                continue
            states |= {row["id"]: State(row[column]) for row in rows if row[column] is not None}
            if taken is not None:
                taken |= {row["id"]: row["holder"] for row in rows if row["state"] is not None and row["holder"] is not None}
            if moving := [row["id"] for row in rows if row[column] is None]:
                parts.append(moving)
        self._require_free(name, locked, states=states)
        return states

    async def _hurry(self, name: str, *arguments: Any) -> Rows:
        """Run a verb that waits for another session's lock only briefly, and return its rows."""

        async def ask() -> Rows:
            async with self._transaction() as connection:
                await connection.execute(HURRIED)
                return await connection.fetch(self._sql(name), *arguments)

        return await self._retrying(ask, name)

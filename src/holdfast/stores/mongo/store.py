"""Jobs in MongoDB. What is rare is a verb of a book on a part of it, in one transaction; what is frequent is written by hand."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, BeatAnswer, Capabilities, Check, EnqueueAnswer, ExchangeAnswer, Vitals
from holdfast._core.audit import AuditNote
from holdfast._core.book.verbs import BookVerbs
from holdfast._core.flow_changes import FlowChange, FlowChanges
from holdfast._core.history import Minute, MinuteNote
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, NewJob, Token
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.requests import BeatNote, ClaimKind, ClaimRequest, ProgressUpdate, QueueSettings
from holdfast._core.workflow import NewFlow
from holdfast._ports.clock import Clock, Randomness
from holdfast.databases.at_once import run_now
from holdfast.databases.mongo.abandoned import end_abandoned
from holdfast.databases.mongo.caller import CallerDatabase, is_awaited, require_idle
from holdfast.databases.mongo.database import Document, MongoDatabase
from holdfast.databases.mongo.errors import Duplicate
from holdfast.errors import HoldfastError, Unsupported
from holdfast.stores.mongo import checks, history, schema, transactions
from holdfast.stores.mongo.claiming import Claiming
from holdfast.stores.mongo.enqueuing import Enqueuing
from holdfast.stores.mongo.frozen import end_frozen
from holdfast.stores.mongo.leases import Leases
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.parts import READS, Parts, PartsWithin, is_negative
from holdfast.stores.mongo.primary import Primary
from holdfast.stores.mongo.readiness import Readiness
from holdfast.stores.mongo.reporting import report
from holdfast.stores.mongo.settling import is_plain, settle
from holdfast.stores.mongo.sharing import Guard
from holdfast.stores.mongo.terms import Terms

MOST_TOGETHER = 25
"""The jobs that one transaction settles: those of others go beside it, and conflicts of one delay only these."""

MOST_LATE = 1000
"""The jobs that are looked at for one that should have been pruned."""


class MongoStore(BookVerbs):
    """The store of a database whose members are a replica set. ``now``: the expression by which its commands know the time."""

    now: Any = "$$NOW"

    def __init__(self, url: str, *, schema: str = "holdfast", clock: Clock, chance: Randomness, process: ProcessIdentity) -> None:
        self.database = MongoDatabase(url, clock=clock, chance=chance, process=process)
        self.names = Names(schema)
        self.flow_changes = FlowChanges()
        self._leases, self._claiming = Leases(self.database, self.names), Claiming(self.database, self.names, chance)
        self._terms, self._clock = Terms(clock), clock
        self.primary = Primary(self.database, self.names, clock, lambda: self.now)
        self._enqueuing = Enqueuing(self.database, self.names, self.primary)
        self._parts = Parts(self.database, self.names, self._terms, lambda: self.now)
        self.readiness = Readiness(self.database, self.names, clock=clock, chance=chance)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("mongodb", "server", self.readiness.warnings, caller_transaction=True, prefetch=True)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self.flow_changes.take()

    async def migrate(self) -> tuple[int, int]:
        await self.readiness.require_server()
        found = await schema.migrate(self.database, self.names)
        self.readiness.accept()
        return found

    async def check(self) -> tuple[Check, ...]:
        return tuple(await checks.check(self.database, self.names, self.readiness.require_server, self._clock))

    async def close(self) -> None:
        await self.database.close()

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        await self._require_schema()
        if under is None and _can_be_inserted(jobs):
            try:
                if len(jobs) == 1:
                    await self._enqueuing.enqueue_one(call, jobs[0])
                else:
                    await self._enqueuing.enqueue_many(call, jobs)
                return EnqueueAnswer()
            except Duplicate:
                pass  # a copy of the call, a job of the id, or the holder of the key is there: a transaction finds out which
        answer: EnqueueAnswer = await self._ask("enqueue", (call, jobs), {"under": under})
        return answer

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        await self._require_schema()
        if request is None:
            return ExchangeAnswer(await self._settle(transitions))
        rest, view, early = await asyncio.gather(
            self._settle_plain(transitions), self._claiming.look(self.now, request), self._claiming.take_early(self.now, request)
        )
        answers = await self._settle_rest(transitions, rest)
        if rest:  # they may have given jobs back
            view = await self._claiming.look(self.now, request)
        has_limited = bool(view.limits)
        if has_limited and (request.kind is ClaimKind.LIMITED or request.ids is not None):
            with self._claiming.taking(request.lease):
                found: ExchangeAnswer = await self._ask("exchange", ((), request), {})
            return structs.replace(found, answers=answers)
        if request.kind is ClaimKind.LIMITED:
            return ExchangeAnswer(answers, cursor=request.cursor)
        claims, cursor, is_whole = await self._claiming.claim(self.now, view, request, early)
        return ExchangeAnswer(answers, claims, cursor, is_whole, has_limited=has_limited)

    async def _settle(self, transitions: Sequence[Transition]) -> tuple[Answer, ...]:
        return await self._settle_rest(transitions, await self._settle_plain(transitions))

    async def _settle_plain(self, transitions: Sequence[Transition]) -> Sequence[Transition]:
        """Settle what one update can; return the others."""
        is_once = _are_distinct(transitions)  # else the first of a job counts
        plain = [each for each in transitions if is_once and is_plain(each)]
        if plain and (await self.database.write(settle(self.names, self.now, plain)))["n"] == len(plain):
            settled = {each.job for each in plain}
            return [each for each in transitions if each.job not in settled]
        return transitions

    async def _settle_rest(self, transitions: Sequence[Transition], rest: Sequence[Transition]) -> tuple[Answer, ...]:
        """Settle the rest of transitions; return the answers to all."""
        if not rest:
            return (Answer.APPLIED,) * len(transitions)
        with suppress(HoldfastError):  # a server that does not allow it ends them after a minute
            await end_frozen(self.database, self.names, rest)
        found = await asyncio.gather(*(self._ask("exchange", (part,), {}) for part in _apart(rest)), return_exceptions=True)
        answers = list[Answer]()
        for each in found:
            if isinstance(each, BaseException):
                raise each
            answers += each.answers
        judged = dict(zip(map(id, rest), answers, strict=True))
        return tuple(judged.get(id(each), Answer.APPLIED) for each in transitions)

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        await self._require_schema()
        if not updates or (await self.database.write(report(self.names, self.now, updates)))["n"] == len(updates):
            return frozenset()
        lost: frozenset[UUID] = await self._ask("report", (updates,), {})
        return lost

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        await self.readiness.require_first()
        return await self._leases.beat(self.now, leases, draining=draining, notes=notes)

    async def record_minutes(self, notes: Sequence[MinuteNote]) -> None:
        await self._require_schema()
        await history.record(self.database, self.names, self.now, notes)

    async def minutes(self, since: datetime, until: datetime, limit: int) -> tuple[Minute, ...]:
        await self._require_schema()
        return await history.minutes(self.database, self.names, since, until, limit)

    async def start_through(self, lease: UUID, number: int, voids: int) -> bool:
        await self._require_schema()
        return await self._leases.start_through(lease, number, voids)

    async def void(self, lease: UUID, voids: int) -> int | None:
        await self._require_schema()
        return await self._leases.void(lease, voids)

    async def held(self, lease: UUID, limit: int | None = None) -> tuple[ActiveJob, ...]:
        await self._require_schema()
        acts = self._claiming.acts(lease)
        if self._claiming.may_hold(lease):
            await self._leases.confirm()  # a job that is missing in the answer is taken for lost
        found: tuple[ActiveJob, ...] = await self._parts.read("held", (lease, limit), {})
        if not found:
            self._claiming.holds_none(lease, acts)
        return found

    async def vitals(self) -> Vitals:
        await self._require_schema()
        steps: list[Document] = [
            {"$match": {"prune_at": {"$exists": True}}},
            {"$sort": {"prune_at": 1, "_id": 1}},
            {"$limit": MOST_LATE},
            {"$match": {"flow": {"$exists": False}}},  # members of workflows wait for each other
            {"$limit": 1},
            {"$project": {"lag": {"$subtract": [self.now, "$prune_at"]}}},
        ]
        found = await self.database.find(self.names.jobs, steps)
        return Vitals(schema.VERSION, max(0.0, found[0]["lag"] / 1e3) if found else 0.0)

    async def set_queue(self, queue: str, settings: QueueSettings | None, *, by: AuditNote | None = None) -> None:
        await self._require_schema()
        await self.primary.announce(queue, 0 if settings is None else settings.priority)
        await self._ask("set_queue", (queue, settings), {"by": by})

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        if any(job.uniqueness.until_started for job in jobs):
            raise Unsupported(_CLAIMED_BEFORE_COMMIT)
        return self._within(connection, "enqueue", (call, jobs))

    def enqueue_flow_within(
        self, connection: Any, call: UUID, new: NewFlow
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        return self._within(connection, "enqueue_flow", (call, new))

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        guard = self._guard(job, token, idle, hook_due_at)
        return transactions.awaited(self.database, guard, self._clock, idle, self._require_schema)

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractContextManager[Any]:
        guard = self._guard(job, token, idle, hook_due_at)
        return transactions.blocking(self.database, guard, self._clock, idle, self.readiness.require_now)

    def transaction_within(
        self, connection: Any, job: UUID, token: Token, *, idle: float
    ) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        require_idle(connection, self.database.location)
        guard = self._guard(job, token, idle, None)
        if is_awaited(connection):
            return transactions.awaited(self.database, guard, self._clock, idle, self._require_schema, own=connection)
        return transactions.blocking(self.database, guard, self._clock, idle, self.readiness.require_now, own=connection)

    def _guard(self, job: UUID, token: Token, idle: float, hook_due_at: datetime | None) -> Guard:
        return Guard(self.names, job, token, idle=idle, hook_due_at=hook_due_at, now=self.now)

    def _within(self, session: Any, verb: str, arguments: tuple[Any, ...]) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        inside = CallerDatabase.of(session, self.database.location)
        parts = PartsWithin(inside, self.names, self._terms, lambda: self.now)
        if is_awaited(session):
            return self._write_within(parts, session, verb, arguments)
        self.readiness.require_now()
        answer: EnqueueAnswer = run_now(parts.write_within(session, verb, arguments))
        return answer

    async def _write_within(self, parts: PartsWithin, session: Any, verb: str, arguments: tuple[Any, ...]) -> EnqueueAnswer:
        await self._require_schema()
        answer: EnqueueAnswer = await parts.write_within(session, verb, arguments)
        return answer

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        await self._require_schema()
        if verb == "expired":
            with suppress(HoldfastError):  # a server that does not allow it ends them after a minute
                await end_abandoned(self.database)
        answer, is_empty = await self._once(verb, arguments, keywords)
        if is_empty and verb != "next_due" and is_negative(answer):  # a time to look again may be wrong
            await self._leases.confirm()
            answer, _ = await self._once(verb, arguments, keywords)
        return answer

    async def _once(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, bool]:
        if verb in READS:
            return await self._parts.read(verb, arguments, keywords), True
        written = await self._parts.write(verb, arguments, keywords)
        self.flow_changes.add(written.flow_changes)
        return written.answer, written.is_empty

    async def _require_schema(self) -> None:
        await self.readiness.require()


def _are_distinct(transitions: Sequence[Transition]) -> bool:
    return len({each.job for each in transitions}) == len(transitions)


def _apart(transitions: Sequence[Transition]) -> Sequence[Sequence[Transition]]:
    """Return transitions in parts that do not depend on each other, for transactions that run side by side."""
    if not _are_distinct(transitions) or any(each.has_flow or each.precondition is Precondition.VOIDED for each in transitions):
        return [transitions]
    return [transitions[start : start + MOST_TOGETHER] for start in range(0, len(transitions), MOST_TOGETHER)]


_CLAIMED_BEFORE_COMMIT = (
    "within: on MongoDB a waiting job may be claimed before your transaction commits, and unique_until='started' would then name a job "
    "that has not seen your documents: enqueue after your commit, or leave unique_until out"
)


def _can_be_inserted(jobs: Sequence[NewJob]) -> bool:
    """Return whether the insert refuses all that must not be there; of several keyed jobs, one may have the key of another."""
    is_keyed = any(each.unique_key is not None for each in jobs)
    return len(jobs) == 1 or (not is_keyed and 0 < len(jobs) == len({each.id for each in jobs}))

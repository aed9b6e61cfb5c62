"""The verbs that move jobs: each packs its values, runs its file of ``queries`` and maps the answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID, uuid5

import asyncpg
from msgspec import structs

from holdfast._core.answers import Answer, EnqueueAnswer, ExchangeAnswer, ExpiredJob, Purged, ReopenAnswer, SteerAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.job import NewJob, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import LONGEST_HOOK_DELAY
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ClaimKind, ClaimRequest, JobFilter, ProgressUpdate, Steer, SteerVerb
from holdfast.databases.postgres import errors as failures
from holdfast.databases.readable import readable
from holdfast.errors import HoldfastError, StoreBusy
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import records as rows
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.audited import action
from holdfast.stores.postgres.claiming import Claimed
from holdfast.stores.postgres.limited_claiming import LimitedClaiming
from holdfast.stores.postgres.members import members_of, move_members
from holdfast.stores.postgres.reading import conditions_of

HURRIED = "SET LOCAL lock_timeout = '100ms'"
HURRIED_LIMIT = 5.0
"""Seconds for finding out which jobs of one call are locked; after that, those not done yet count as locked."""

Rows = list[asyncpg.Record]
Settle = Callable[[Sequence[Transition]], Awaitable[tuple[int, frozenset[int]]]]


class Moves(LimitedClaiming):
    """The part of the store that moves jobs."""

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        is_known = self._may_be_known(jobs)
        if under is None and not is_known and packing.is_single(jobs):
            if await self._enqueue_one(call, jobs[0]):
                return answers.ALL
            is_known = True
        name, parameter = packing.enqueue(call, jobs, under, is_known=is_known)
        async with self._here().keyed if [job for job in jobs if job.unique_key is not None] else nullcontext():
            return answers.enqueued(await self._fetch(name, parameter), jobs)

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        if later := packing.duplicate_positions(transitions):
            return await self._exchange_in_turn(transitions, later, request)
        if any(settle.flow is not None or settle.children is not None for settle in transitions):
            return await self._exchange_members(transitions, request)
        if request is not None and request.ids is None and request.kind is ClaimKind.LIMITED:
            return await self._answer_exchange(transitions, *await self._exchange_within_limits(transitions, request))
        plain, rare = packing.split(transitions)
        settled, refused = await self._settle(rare)
        if request is None and plain:  # a third of the nodes of settle.sql: 0.5 ms of CPU less
            ((number,),) = await self._fetch("settle_plain", *packing.settling(plain))
            settled += number
        if any(settle.to is State.AVAILABLE and settle.delay is None for settle in rare):
            self._forget_positions()
        claimed = Claimed(settled, ()) if request is None else await self._claim(request, plain)
        if request is not None:
            claimed.settled += settled
        return await self._answer_exchange(transitions, refused, claimed)

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

    async def reopen(self, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        taken: dict[UUID, UUID] = {}
        states = await self._states("reopen", ids, is_fresh, plain=([],), taken=taken)
        return ReopenAnswer(states, taken)

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        return await self._states("reschedule", ids, delay, run_at)

    async def delete(self, ids: Sequence[UUID], *, only_waiting: bool = False) -> dict[UUID, State]:
        return await self._states("delete", ids, only_waiting, column="left_as" if only_waiting else "state")

    async def steer(self, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None) -> SteerAnswer:
        left, states = set[UUID](), dict[UUID, State]()

        async def ask(some: Sequence[UUID], is_hurried: bool) -> Sequence[UUID]:
            part = by if by is None or len(some) == len(ids) else _part(by, some)
            steer = partial(self._steer, how, some, which, part, HURRIED if is_hurried else "")
            answer = await self._with_flows(how.verb, steer)
            left.update(answer.left)
            states.update(answer.states)
            return ()

        if locked := await self._in_parts(ids, ask):
            states |= {row["id"]: rows.state_of(row) for row in await self._fetch("states", list(locked))}
        return SteerAnswer(states, frozenset(left | locked))

    async def purge(self, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
        ((gone, until),) = await self._fetch_by(by, lambda found: found[0][0], "purge", queue, limit, until)
        if gone < limit:
            roots = [row["id"] for row in await self._fetch("purgeable_roots", queue, limit - gone, until)]
            gone += await self._purge_roots(roots, by) if roots else 0
        return Purged(gone, until)

    async def expire(self, limit: int) -> tuple[ExpiredJob, ...]:
        found = await self._fetch("expire", limit)
        members = {row["id"]: row["flow"] for row in found if row["flow"] is not None}
        left = members.keys() - (await self._expire_members(members) if members else set())
        return tuple(ExpiredJob(row["id"], row["task"]) for row in found if row["id"] not in left)

    async def owed_hooks(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        found = await self._fetch("owed_hooks", tasks, limit, pause, LONGEST_HOOK_DELAY)
        return readable(lambda row: structs.replace(rows.record_of(row), hook_due_at=row["offered_until"]), found)

    # internals

    async def _steer(
        self, how: Steer, ids: Sequence[UUID], which: JobFilter, by: AuditNote | None, settings: str, more: frozenset[UUID]
    ) -> SteerAnswer:
        """Apply an operator's verb in one transaction, and record the action in it."""
        options: dict[SteerVerb, tuple[Any, ...]] = {
            SteerVerb.RESCHEDULE: (how.delay, how.run_at),
            SteerVerb.DELETE: (False,),
            SteerVerb.REOPEN: (how.is_fresh, []),
        }
        values = options.get(how.verb, ())
        async with self._locking(settings=settings, more=more) as flows:
            await flows.lock_of(ids)
            locked = [row["id"] for row in await flows.fetch("lock", list(ids))]
            chosen = [row["id"] for row in await flows.fetch("matching", locked, *conditions_of(which))]
            before = [] if by is None else await flows.fetch("steered", chosen)
            left = await flows.fetch(how.verb, chosen, *values)
            if members := members_of(left, chosen):
                flows.require({row["flow"] for row in left if row.get("flow") is not None})
                await move_members(flows, how.verb, members, values)
            if by is not None:
                after = {*map(tuple, await flows.fetch("steered", chosen))}
                await flows.fetch("audit", *action(by, len({*map(tuple, before)} - after)))
            states = await flows.fetch("states", list(ids))
        return SteerAnswer({row["id"]: rows.state_of(row) for row in states}, frozenset(ids) - frozenset(chosen))

    async def _purge_roots(self, roots: Sequence[UUID], by: AuditNote | None) -> int:
        """Delete the workflows of these waiting roots, record that as writes of the action, and return how many were deleted."""
        if by is None:
            return len(roots) - len(await self.delete(roots, only_waiting=True))
        gone = list[int]()

        async def delete(some: Sequence[UUID], settings: str, more: frozenset[UUID]) -> int:
            async with self._locking(settings=settings, more=more) as flows:
                await flows.lock_of(some)
                if members := members_of(await flows.fetch("delete", some, True), some):
                    await move_members(flows, "delete", members, (True,))
                number = len(some) - len(await flows.fetch("steered", some))
                await flows.fetch("audit", *action(_part(by, some), number))
                return number

        async def ask(some: Sequence[UUID], is_hurried: bool) -> Sequence[UUID]:
            gone.append(await self._with_flows("purge", partial(delete, some, HURRIED if is_hurried else "")))
            return ()

        self._require_free("purge", await self._in_parts(roots, ask))
        return sum(gone)

    async def _enqueue_one(self, call: UUID, job: NewJob) -> bool:
        """Enqueue a job and return True; change nothing and return False if the call is a copy or the id exists."""
        try:
            await self._fetch("enqueue_one", *packing.enqueue_one(call, job))
        except HoldfastError as error:
            if isinstance(error.__cause__, asyncpg.UniqueViolationError):
                return False
            raise
        return True

    async def _answer_exchange(
        self, transitions: Sequence[Transition], refused: frozenset[int], claimed: Claimed
    ) -> ExchangeAnswer:
        of_claim = claimed.claims, claimed.cursor, claimed.is_whole, claimed.has_limits
        if claimed.settled == len(transitions):
            return ExchangeAnswer((Answer.APPLIED,) * len(transitions), *of_claim)
        return ExchangeAnswer(await self._answers(transitions, refused), *of_claim)

    async def _answers(self, transitions: Sequence[Transition], refused: frozenset[int]) -> tuple[Answer, ...]:
        """Return the answers of transitions that were settled now or before, or not at all."""
        named = packing.tokens((settle.job, settle.token) for settle in transitions)
        found = await self._fetch("exchange_answers", *named)
        given = answers.settled(transitions, found, refused)
        members = {row["place"] - 1: row["flow"] for row in found if row["flow"] is not None}
        missed = [place for place, flow in members.items() if given[place] is Answer.BUSY and transitions[place].flow is None]
        if not missed:
            return given
        # The caller does not know that they belong to workflows.
        named_again = [structs.replace(transitions[place], flow=members[place]) for place in missed]
        again = dict(zip(missed, await self._settle_and_answer(named_again, self._settle_members), strict=True))
        return tuple(again.get(place, answer) for place, answer in enumerate(given))

    async def _settle_and_answer(self, transitions: Sequence[Transition], settle: Settle) -> tuple[Answer, ...]:
        settled, refused = await settle(transitions)
        return (Answer.APPLIED,) * settled if settled == len(transitions) else await self._answers(transitions, refused)

    async def _exchange_members(self, transitions: Sequence[Transition], request: ClaimRequest | None) -> ExchangeAnswer:
        """Settle members of workflows, and the plain jobs beside them, which do not wait for them; then claim."""
        for children in (settle.children for settle in transitions if settle.children is not None):
            self._may_be_known([each.job for each in children.members])
        places = [place for place, settle in enumerate(transitions) if settle.has_flow]
        others = [place for place, settle in enumerate(transitions) if not settle.has_flow]
        calls = [self._settle_and_answer([transitions[place] for place in places], self._settle_members)]
        if others:
            calls.append(self._settle_and_answer([transitions[place] for place in others], self._settle))
        answered = await asyncio.gather(*calls)
        if any(settle.to is State.AVAILABLE and settle.delay is None for settle in transitions):
            self._forget_positions()
        claimed = ExchangeAnswer(()) if request is None else await self.exchange((), request)
        given = dict(zip([*places, *others], chain(*answered), strict=True))
        return structs.replace(claimed, answers=tuple(given[place] for place in range(len(transitions))))

    async def _exchange_in_turn(
        self, transitions: Sequence[Transition], later: Sequence[int], request: ClaimRequest | None
    ) -> ExchangeAnswer:
        first = [place for place in range(len(transitions)) if place not in later]
        before = await self.exchange([transitions[place] for place in first])
        after = await self.exchange([transitions[place] for place in later], request)
        by_position = dict(zip([*first, *later], [*before.answers, *after.answers], strict=True))
        return structs.replace(after, answers=tuple(by_position[place] for place in range(len(transitions))))

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
        self,
        name: str,
        jobs: Sequence[UUID],
        *more: Any,
        plain: tuple[Any, ...] = (),
        taken: dict[UUID, UUID] | None = None,
        column: str = "state",
    ) -> dict[UUID, State]:
        """Run the verb and return the state of each job after it. A job that another session moved in the meantime is sent again.

        Members of workflows are moved afterwards. ``plain``: more values for the statement that moves all others.

        ``StoreBusy`` names the jobs that another session keeps locked; the verb has been applied to all others.
        """
        states: dict[UUID, State] = {}
        members = list[UUID]()

        async def ask(some: Sequence[UUID], is_hurried: bool) -> Sequence[UUID]:
            rows = await (self._hurry if is_hurried else self._fetch)(name, some, *more, *plain)
            members.extend(members_of(rows, some))
            states.update({row["id"]: State(row[column]) for row in rows if row[column] is not None})
            if taken is not None:
                taken.update({row["id"]: row["holder"] for row in rows if None not in (row["state"], row["holder"])})
            return [row["id"] for row in rows if row[column] is None and row["id"] not in members]

        locked = await self._in_parts(jobs, ask)
        if members:
            try:
                states |= await self._move_members(name, members, more, {} if taken is None else taken)
            except StoreBusy:
                locked.update(members)
        self._require_free(name, locked, states=states)
        return states

    async def _in_parts(
        self, jobs: Sequence[UUID], ask: Callable[[Sequence[UUID], bool], Awaitable[Sequence[UUID]]]
    ) -> set[UUID]:
        """Ask for all jobs and, after a lock of another session, for smaller and smaller parts. Return the jobs that stay locked.

        ``ask`` takes some jobs, and whether to wait only briefly for locks. It returns the jobs to ask for again.
        """
        locked, parts, until = set[UUID](), [list(dict.fromkeys(jobs))], float("inf")
        while parts:
            some = parts.pop()
            try:
                again = await ask(some, until != float("inf"))
            except StoreBusy:
                if not some:
                    raise
                until = min(until, self._clock.monotonic() + HURRIED_LIMIT)
                if len(some) == 1 or self._clock.monotonic() >= until:
                    locked.update(some)
                else:  # the first half of the ids goes first
                    parts += [some[len(some) // 2 :], some[: len(some) // 2]]
            else:
                parts += [[*again]] * bool(again)
        return locked

    async def _hurry(self, name: str, *arguments: Any) -> Rows:
        """Run a verb that waits for another session's lock only briefly, and return its rows."""

        async def ask() -> Rows:
            async with self._transaction() as connection:
                await connection.execute(HURRIED)
                return await connection.fetch(self._sql(name), *arguments)

        return await self._retrying(ask, name)


def _part(by: AuditNote, some: Sequence[UUID]) -> AuditNote:
    """Return an action for the write of some of the jobs of a call; that of a copy of the call is the same."""
    return structs.replace(by, write=uuid5(by.write, some[0].hex))

"""Verbs that move jobs: each packs its values, runs its file of ``queries`` and maps the answer."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import asyncpg
from msgspec import structs

from holdfast._core.job import Claim, JobRecord, NewJob, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import HOOK_PAUSE
from holdfast._ports.store import (
    Answer,
    ClaimRequest,
    EnqueueAnswer,
    ExchangeAnswer,
    Expired,
    Note,
    ReopenAnswer,
    Update,
)
from holdfast.errors import HoldfastError
from holdfast.stores.postgres import answers, packing, rows
from holdfast.stores.postgres.connect import Connected
from holdfast.stores.postgres.trail import Trail, kind_of

_KINDS = 64  # of claims whose trails are kept
_NEW = Trail()

Rows = list[asyncpg.Record]


class Moving(Connected):
    """The moving half of the store."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._newest = UUID(int=0)  # of the ids enqueued here
        self._trails: dict[tuple[object, ...], Trail] = {}

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        name, parameter = packing.enqueue(call, jobs, under, is_known=self._may_be_known(jobs))
        return answers.enqueued(await self._fetch(name, parameter), jobs)

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        if later := packing.copies(transitions):
            return await self._exchange_in_turn(transitions, later, request)
        if request is not None and any(map(packing.is_back_at_once, transitions)):
            settled = await self.exchange(transitions)
            return ExchangeAnswer(settled.answers, (await self.exchange((), request)).claims)
        if request is not None and request.limit > 0 and request.prefetch > 0:
            running, waiting = packing.parts(request)
            answer = await self.exchange(transitions, running)
            return ExchangeAnswer(answer.answers, answer.claims + (await self.exchange((), waiting)).claims)
        trail = None if request is None else await self._look(request)
        if trail is None and not transitions:
            return ExchangeAnswer()
        found = await self._fetch("exchange", *packing.exchange(transitions, request, trail))
        claims = () if request is None or trail is None else await self._claimed(found, request, trail)
        return ExchangeAnswer(await self._settled(found, transitions), claims)

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        return await self._lost("start", tokens, packing.tokens(tokens))

    async def report(self, updates: Sequence[Update]) -> frozenset[UUID]:
        return await self._lost("report", [(update.job, update.token) for update in updates], packing.updates(updates))

    async def annotate(self, notes: Sequence[Note]) -> None:
        await self._fetch("annotate", *packing.notes(notes))

    async def request_cancel(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        return await self._states("request_cancel", ids)

    async def reopen(self, ids: Sequence[UUID]) -> ReopenAnswer:
        taken: dict[UUID, UUID] = {}
        states = await self._states("reopen", ids, taken=taken)
        return ReopenAnswer(states, taken)

    async def reschedule(self, ids: Sequence[UUID], *, delay: float = 0.0, run_at: datetime | None = None) -> dict[UUID, State]:
        return await self._states("reschedule", ids, delay, run_at)

    async def delete(self, ids: Sequence[UUID]) -> dict[UUID, State]:
        return await self._states("delete", ids)

    async def purge(self, queue: str, limit: int) -> int:
        return int((await self._fetch("purge", queue, limit))[0]["gone"])

    async def expire(self, limit: int) -> tuple[Expired, ...]:
        return tuple(Expired(row["id"], row["task"]) for row in await self._fetch("expire", limit))

    async def unhealed(self, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
        found = await self._fetch("unhealed", tasks, limit, pause, HOOK_PAUSE)
        return rows.readable(lambda row: structs.replace(rows.record_of(row), heal_at=row["offered_until"]), found)

    # inside

    def _may_be_known(self, jobs: Sequence[NewJob]) -> bool:
        """Ids grow within a process: only one that does not can have been enqueued before, and is looked for everywhere."""
        ids = {job.id for job in jobs}
        if len(ids) < len(jobs):
            raise HoldfastError("enqueue: two jobs of one id; each job needs an id of its own")
        if not ids or min(ids) > self._newest:
            self._newest = max(ids, default=self._newest)
            return False
        self._newest = max(self._newest, *ids)
        return True

    async def _exchange_in_turn(
        self, transitions: Sequence[Transition], later: Sequence[int], request: ClaimRequest | None
    ) -> ExchangeAnswer:
        first = [place for place in range(len(transitions)) if place not in later]
        before = await self.exchange([transitions[place] for place in first])
        after = await self.exchange([transitions[place] for place in later], request)
        said = dict(zip([*first, *later], [*before.answers, *after.answers], strict=True))
        return ExchangeAnswer(tuple(said[place] for place in range(len(transitions))), after.claims)

    async def _settled(self, found: Rows, transitions: Sequence[Transition]) -> tuple[Answer, ...]:
        if found[0]["applied"] == len(transitions):
            return (Answer.APPLIED,) * len(transitions)
        named = packing.tokens((settle.job, settle.token) for settle in transitions)
        return answers.settled(transitions, await self._fetch("exchange_answers", *named))

    async def _look(self, request: ClaimRequest) -> Trail | None:
        """Where to claim; ``None`` if there is nothing."""
        room = request.limit or request.prefetch
        if room <= 0 or not request.tasks:
            return None
        if request.ids is not None:
            return Trail() if request.ids else None
        kind, now = kind_of(request), self._clock.monotonic()
        trail = self._trails.get(kind, _NEW)
        if not trail.leads_on(now):
            most = room + trail.slack
            trail = trail.anew(await self._fetch("lines", *packing.lines(request, most)), most, now)
        return trail if trail.lines else None

    async def _claimed(self, found: Rows, request: ClaimRequest, trail: Trail) -> tuple[Claim, ...]:
        """The claims that a statement answered, and those that it could not see."""
        is_alone = found[0]["is_alone"]
        if is_alone:
            found = await self._retrying(partial(self._claim_alone, request, trail), "exchange")
        rows = [row for row in found if row["id"] is not None]
        claims = answers.claims_of(rows, request)
        room, candidates = request.limit or request.prefetch, found[0]["candidates"]
        if is_alone is not False or request.ids is not None:  # None: the lease may not claim
            return claims
        if len(self._trails) >= _KINDS:
            self._trails.clear()
        self._trails[kind_of(request)] = trail.after(rows, room, candidates)
        if trail.may_miss(rows, room, candidates):
            return claims + (await self.exchange((), packing.rest(request, len(rows)))).claims
        return claims

    async def _claim_alone(self, request: ClaimRequest, trail: Trail) -> Rows:
        """A lease for one job at a time: a second claim of it waits here, and then sees what the first one took."""
        async with self._transaction() as connection:
            await connection.fetch(self._sql("alone"), request.lease)
            return await connection.fetch(self._sql("exchange"), *packing.exchange((), request, trail, is_alone=True))

    async def _lost(self, name: str, asked: Sequence[tuple[UUID, Token]], values: tuple[Any, ...]) -> frozenset[UUID]:
        if not asked:
            return frozenset()
        ours = {(row["id"], Token(row["claim"], row["number"])) for row in await self._fetch(name, *values)}
        return frozenset(job for job, token in asked if (job, token) not in ours)

    async def _states(
        self, name: str, jobs: Sequence[UUID], *more: Any, taken: dict[UUID, UUID] | None = None
    ) -> dict[UUID, State]:
        """What each job is in after the verb; one that was just moving is asked for again, in a snapshot of its own."""
        states: dict[UUID, State] = {}
        left = list(dict.fromkeys(jobs))
        while left:
            rows, left = await self._fetch(name, left, *more), []
            for row in rows:
                if row["state"] is None:
                    left.append(row["id"])
                    continue
                states[row["id"]] = State(row["state"])
                if taken is not None and row["holder"] is not None:
                    taken[row["id"]] = row["holder"]
        return states

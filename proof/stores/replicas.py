"""A store like MongoDB: a write counts once a majority has it, and a write that was never confirmed may be rolled back.

While the primary is cut off from the others it confirms no write, and reads find what a majority had before. Then either the others receive
all its writes, or one of them takes over and those writes are undone. The deposed primary goes on for a while: it serves the reads of
processes to which no other one has confirmed a write yet. No caller got a confirmation of an undone write, so the checker excuses nothing:
the history leaves undone writes out.

A lease is judged by the store's clock only if it was beaten in the term of today, as far as its sender knew. Any other is watched.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, ExchangeAnswer
from holdfast._core.job import Token
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import ClaimRequest
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast._ports.wire import READS
from holdfast.errors import StoreUnavailable
from holdfast.stores.mongo.terms import Terms
from proof.simulator.hosts import SimClock
from proof.simulator.loop import VirtualLoop
from proof.stores.gateways import Ask, Carry, Gateway
from proof.stores.recording_store import Memory, Witness

BETWEEN: Final = 0.01
"""Seconds between the settle and the claim of one exchange, at most."""
INTERRUPTED: Final = 0.02
"""The part of claims that are interrupted."""
STALE: Final = 0.5
"""The part of reads that a process sends to a deposed primary, before another one has confirmed a write of it."""
JUDGES: Final = frozenset(("expired", "end_lease", "overdue", "exchange"))


class Quorum:
    """The connection of the primary to a majority, which is there or is lost."""

    def __init__(self, loop: VirtualLoop, store: Witness) -> None:
        self._loop = loop
        self.store = store
        self.term = 1
        self.old: Store | None = None
        """What the primary that is cut off, or deposed, serves to readers."""
        self._before: Memory | None = None
        self._waiting: list[asyncio.Future[bool]] = []

    @property
    def is_lost(self) -> bool:
        """Whether no write is confirmed now."""
        return self._before is not None

    def lose(self) -> None:
        """Confirm no write from now on, until ``find``."""
        self._before = self.store.remember()
        self.old = self.store.as_of(self._before)

    def find(self, *, is_rolled_back: bool, deposed_for: float = 0.0) -> None:
        """Confirm all writes since ``lose``, or undo them; report the result to each caller that still waits.

        ``deposed_for``: seconds for which a primary whose writes were undone serves reads.
        """
        if self._before is None:
            return
        if is_rolled_back:
            self.store.roll_back(self._before)
            self.term += 1
            self._loop.call_later(deposed_for, self._retire, self.old)
        else:
            self.old = None
        self._before, waiting, self._waiting = None, self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(not is_rolled_back)

    def _retire(self, old: Store) -> None:
        if self.old is old:
            self.old = None

    async def confirm(self) -> bool:
        """Wait until a write made now is confirmed (true) or undone (false)."""
        if self._before is None:
            return True
        confirmed: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(confirmed)
        return await confirmed


class ReplicaGateway(Gateway):
    """The gateway of one process, which waits for a majority for ``timeout`` seconds at most. ``own_clock``: that of its machine."""

    def __init__(
        self,
        store: Store,
        introduce: Callable[[], None],
        quorum: Quorum,
        clock: SimClock,
        numbers: random.Random,
        *,
        own_clock: Clock,
        carry: Carry,
        timeout: float,
    ) -> None:
        super().__init__(store, introduce)
        self._quorum, self._clock, self._numbers, self._timeout, self._carry = quorum, clock, numbers, timeout, carry
        self._terms, self._term, self._confirmed_in = Terms(own_clock), quorum.term, quorum.term

    async def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        """Carry out the write, and answer once it is confirmed."""
        if verb == "exchange" and len(arguments) > 1 and arguments[1] is not None:
            return await self._exchange(*arguments)
        return await self._confirm(verb, arguments, ask)

    async def held(self, lease: UUID, limit: int | None = None) -> Any:
        """Read what a lease holds, after a write that a majority has: what is missing is taken for lost."""
        await self._settle("held", self._numbers.random() * self._timeout)
        return await self._ask("held", (lease, limit), {})

    async def get(self, job: UUID) -> Any:
        """Read a job; the answer that there is none comes after a write that a majority has."""
        found = await self._ask("get", (job,), {})
        if found is None and self._quorum.old is not None:
            await self._settle("get", self._numbers.random() * self._timeout)
            found = await self._ask("get", (job,), {})
        return found

    async def _exchange(self, transitions: Sequence[Transition], request: ClaimRequest) -> ExchangeAnswer:
        """Settle, then claim: two writes. A claim that is interrupted has taken some of its jobs, and takes the others later."""
        answers: tuple[Answer, ...] = ()
        if transitions:
            settled = await self._exchange_one(transitions, None)
            answers = settled.answers
            await self._clock.sleep(self._numbers.random() * BETWEEN)
        if request.room > 1 and self._numbers.random() < INTERRUPTED:
            first = self._numbers.randrange(request.room)
            limit = min(first, request.limit)
            part = structs.replace(request, limit=limit, prefetch=first - limit)
            await self._ask("exchange", ((), part), {})
            rest = structs.replace(request, limit=request.limit - part.limit, prefetch=request.prefetch - part.prefetch)
            self._carry(self._claim_later(rest, self._numbers.random() * 2 * self._timeout))
            raise StoreUnavailable("exchange: the claim was interrupted")
        claimed = await self._exchange_one((), request)
        return structs.replace(claimed, answers=answers)

    async def _exchange_one(self, transitions: Sequence[Transition], request: ClaimRequest | None) -> ExchangeAnswer:
        arguments = (transitions, request)
        found: ExchangeAnswer = await self._confirm("exchange", arguments, partial(self._ask, "exchange", arguments, {}))
        return found

    async def _claim_later(self, request: ClaimRequest, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._ask("exchange", ((), request), {})

    async def _confirm(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        timeout = self._numbers.random() * self._timeout
        if verb in ("beat", "open_lease"):
            for lease in arguments[0] if verb == "beat" else [arguments[0].id]:
                self._quorum.store.lease_terms[lease] = self._term
        answer = await ask()
        await self._settle(verb, timeout)
        self._term = self._quorum.term
        if verb != "beat":  # which has separate connections
            self._confirmed_in = self._quorum.term
        return answer

    def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Awaitable[Any]:
        quorum = self._quorum
        is_behind = quorum.old is not None and (
            quorum.is_lost or (self._confirmed_in < quorum.term and self._numbers.random() < STALE)
        )
        if verb in READS and is_behind:
            asked: Awaitable[Any] = getattr(quorum.old, verb)(*arguments, **keywords)
            return asked
        if verb in JUDGES:  # they ask the primary for its term
            self._term = quorum.term
        self._terms.learn(self._term)
        is_claim = verb == "exchange" and len(arguments) > 1 and arguments[1] is not None
        quorum.store.terms = None if is_claim else self._terms  # a claim compares the expiry of its lease with the clock of today
        return super()._ask(verb, arguments, keywords)

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open a transaction, whose commit waits for a majority as a write does."""
        return self._confirmed(super().transaction(job, token, idle=idle, hook_due_at=hook_due_at))

    @asynccontextmanager
    async def _confirmed(self, transaction: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        timeout = self._numbers.random() * self._timeout
        async with transaction as connection:
            yield connection
        await self._settle("transaction", timeout)

    async def _settle(self, verb: str, timeout: float) -> None:
        if not self._quorum.is_lost:
            return
        confirming = asyncio.ensure_future(self._quorum.confirm())
        waiting = asyncio.ensure_future(self._clock.sleep(timeout))
        try:
            await asyncio.wait((confirming, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            confirming.cancel()
            waiting.cancel()
        if not confirming.done() or confirming.cancelled():
            raise StoreUnavailable(f"{verb}: no majority has confirmed it in time")
        if not confirming.result():
            raise StoreUnavailable(f"{verb}: the primary has stepped down")

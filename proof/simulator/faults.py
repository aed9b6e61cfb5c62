"""Faults around every verb of a store: refused, unanswered, applied late or twice, slow, cut off, or with an odd error.

The wrapper is generated from the ``Store`` protocol, so a new verb cannot be forgotten. It runs around the memory
store in virtual time and around a real one in real time: it only waits through the clock it is given.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, cast
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, Capabilities, EnqueueAnswer
from holdfast._core.job import NewJob, Token
from holdfast._core.requests import ClaimRequest
from holdfast._ports.clock import Clock
from holdfast._ports.own_connections import OwnConnections
from holdfast._ports.store import CallerTransactions, Store
from holdfast.errors import StoreUnavailable
from proof.checker.history import By, Event, History, Phase, outcome_of
from proof.simulator.call_outcomes import Fate, Fault, Faults
from proof.simulator.connections import Connections
from proof.stores.gateways import VERBS, Ask, Carry

Item = tuple[str, UUID | None, Token | None, By | None]


class Faulty:
    """The wrapper; its verbs are added below. Calls in the caller's own transaction are passed on unchanged."""

    def __init__(
        self,
        store: Store,
        *,
        process: str,
        faults: Faults,
        clock: Clock,
        history: History,
        now: Callable[[], float],
        carry: Carry,
        crash: Callable[[], None],
        introduce: Callable[[str], None],
        connections: Connections | None,
    ) -> None:
        self._store = store
        self._process = process
        self._faults = faults
        self._clock = clock
        self._history = history
        self._now = now
        self._carry = carry
        self._crash = crash
        self._introduce = introduce
        self._connections = connections

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        """Enqueue without faults: the connection belongs to the caller."""
        return cast(CallerTransactions, self._store).enqueue_within(connection, call, jobs)

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open a transaction of the store; one for a hook can fail when it commits."""
        transaction = cast(CallerTransactions, self._store).transaction(job, token, idle=idle, hook_due_at=hook_due_at)
        return transaction if hook_due_at is None else self._committing(transaction)

    def blocking_transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractContextManager[Any]:
        return cast(CallerTransactions, self._store).blocking_transaction(job, token, idle=idle, hook_due_at=hook_due_at)

    def transaction_within(
        self, connection: Any, job: UUID, token: Token, *, idle: float
    ) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        """Open a block on the handler's own connection without faults: its statements do not pass through here."""
        return cast(OwnConnections, self._store).transaction_within(connection, job, token, idle=idle)

    @asynccontextmanager
    async def _committing(self, transaction: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        fate = self._faults.draw("transaction")
        if fate.fault in (Fault.BEFORE, Fault.CRASH_BEFORE, Fault.WRONG_BEFORE):
            await self._travel_nowhere(fate)
        await self._clock.sleep(fate.delay)
        async with AsyncExitStack() as commit:
            yield await commit.enter_async_context(transaction)
            if fate.fault is Fault.LATE:
                self._carry(self._deliver(fate.lateness, commit.pop_all().aclose))
        if fate.fault in (Fault.LATE, Fault.ANSWER_LOST, Fault.CRASH_AFTER, Fault.WRONG_AFTER):
            await self._travel_nowhere(fate)

    async def _travel_nowhere(self, fate: Fate) -> None:
        if fate.fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._crash()
            await asyncio.get_running_loop().create_future()
        await self._clock.sleep(fate.error_delay)
        if fate.fault in (Fault.WRONG_BEFORE, Fault.WRONG_AFTER):
            raise fate.odd()
        raise StoreUnavailable("transaction: the store cannot be reached, or its answer was lost")

    async def _call(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if verb == "close":  # the call never leaves the process
            return await self._store.close()
        items = _items(verb, arguments, keywords)
        self._note(items, Phase.INVOKE)
        try:
            if self._connections is None:
                answer = await self._travel(verb, arguments, keywords)
            else:
                async with self._connections.lend(verb):
                    answer = await self._travel(verb, arguments, keywords)
        except BaseException:
            self._note(items, Phase.UNKNOWN)
            raise
        self._note_answers(verb, items, answer)
        return answer

    def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Awaitable[Any]:
        self._introduce(self._process)
        asked: Awaitable[Any] = getattr(self._store, verb)(*arguments, **keywords)
        return asked

    async def _travel(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        fate, ask = self._faults.draw(verb), partial(self._ask, verb, arguments, keywords)
        if (standstill := self._faults.standstill()) > 0 and fate.fault is not Fault.BEFORE:
            return await self._arrive(self._deliver(standstill, ask))
        match fate.fault:
            case Fault.NONE:
                pass
            case Fault.BEFORE:
                await self._clock.sleep(fate.error_delay)
                raise StoreUnavailable(f"{verb}: the store cannot be reached")
            case Fault.ANSWER_LOST:
                await self._clock.sleep(fate.delay)
                await ask()
                await self._clock.sleep(fate.error_delay)
                raise StoreUnavailable(f"{verb}: the answer was lost")
            case Fault.LATE:
                self._carry(self._deliver(fate.lateness, ask))
                await self._clock.sleep(fate.error_delay)
                raise StoreUnavailable(f"{verb}: no answer in time")
            case Fault.TWICE:
                self._note(_copied(arguments), Phase.LIFE)
                self._carry(self._deliver(fate.lateness, ask))
            case Fault.SLOW:
                await self._clock.sleep(fate.slow_way_there)
                answer = await ask()
                await self._clock.sleep(fate.slow_way_back)
                return answer
            case Fault.IN_FLIGHT:
                return await self._arrive(self._deliver(fate.slow_way_there, ask))
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER:
                await self._end_sender(fate, ask)
            case Fault.WRONG_BEFORE | Fault.WRONG_AFTER:
                await self._go_wrong(fate, ask)
        if fate.luck.side < 0.5:  # the request takes the time, or the answer
            await self._clock.sleep(fate.delay)
            return await ask()
        answer = await ask()
        await self._clock.sleep(fate.delay)
        return answer

    async def _arrive(self, delivery: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a call that is on its way: its sender can only stop waiting, and the call still arrives."""
        sent = self._carry(delivery)
        await asyncio.wait([sent])
        return sent.result()

    async def _end_sender(self, fate: Fate, ask: Ask) -> None:
        if fate.fault is Fault.CRASH_AFTER:
            await ask()
        self._crash()
        await asyncio.get_running_loop().create_future()

    async def _go_wrong(self, fate: Fate, ask: Ask) -> NoReturn:
        await self._clock.sleep(fate.delay)
        if fate.fault is Fault.WRONG_AFTER:
            await ask()
        raise fate.odd()

    async def _deliver(self, delay: float, ask: Callable[[], Awaitable[Any]]) -> Any:
        await self._clock.sleep(delay)
        return await ask()

    def _note(self, items: Iterable[Item], phase: Phase, note: str = "") -> None:
        for what, job, token, by in items:
            self._history.add(
                Event(time=self._now(), process=self._process, what=what, phase=phase, job=job, token=token, by=by, note=note)
            )

    def _note_answers(self, verb: str, items: list[Item], answer: Any) -> None:
        match verb:
            case "exchange":
                for item, settled in zip(items, answer.answers, strict=True):
                    phase = Phase.OK if settled is Answer.APPLIED else Phase.FAIL
                    self._note([item], phase, settled.value)
                self._note([("claim", claim.job.id, claim.job.token, None) for claim in answer.claims], Phase.OK)
            case "enqueue" | "enqueue_member":
                for item in items:
                    self._note([_answered(item, answer)], Phase.FAIL if _is_refused(item, answer) else Phase.OK)
            case "ticks" if answer.found:
                self._note([(verb, None, None, None)], Phase.OK, answer.now.isoformat())
            case "enqueue_flow":  # it is written whole, or not at all
                self._note(items, Phase.FAIL if answer.duplicates else Phase.OK)
            case "advance" | "signal":
                self._note(items, Phase.OK, answer.value)
            case "revive":
                self._note(items, Phase.OK, " ".join(str(each.flow) for each in answer.repairs))
            case "start" | "report":
                for item in items:
                    self._note([item], Phase.FAIL if item[1] in answer else Phase.OK)
            case _:
                self._note(items, Phase.OK)


def _copied(arguments: tuple[Any, ...]) -> list[Item]:
    """Return the claim of a call that arrives twice. Its second copy may claim jobs of which the worker gets no answer."""
    claims = [each.claim for each in arguments if isinstance(each, ClaimRequest)]
    return [("claim.copied", None, Token(claim, 0), None) for claim in claims]


def _items(verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Item]:
    """Return the jobs that a call names, each with the token that it carries."""
    match verb:
        case "enqueue":
            parent, token = keywords.get("under") or (None, None)
            by = By(verb, token, call=arguments[0], parent=parent)
            # A job without a key is written whenever any job of its call is.
            return [(verb, job.id, None, structs.replace(by, outcome="keyed" if job.unique_key else "")) for job in arguments[1]]
        case "enqueue_flow":
            by, new = By("enqueue", call=arguments[0]), arguments[1]
            return [("enqueue", each.job.id, None, by) for each in (*new.members, new.root)]
        case "enqueue_member":
            parent, token = keywords["under"]
            return [("enqueue", arguments[1].job.id, None, By("enqueue", token, call=arguments[0], parent=parent))]
        case "enqueue_after":
            return [("enqueue", job.id, None, By("enqueue", call=arguments[0])) for job in arguments[1]]
        case "signal":
            return [(verb, arguments[0], None, By(verb, call=arguments[1].call))]
        case "revive":
            return [(verb, None, None, None)]
        case "exchange":
            return [
                ("settle", move.job, move.token, By(verb, move.token, move.precondition, outcome_of(move)))
                for move in arguments[0]
            ]
        case "advance":
            (move,) = arguments
            return [(verb, None if move.job is None else move.job.id, None, By(verb, call=move.change, outcome=move.name))]
        case "start":
            return [(verb, job, token, None) for job, token in arguments[0]]
        case "report" | "annotate":
            return [(verb, each.job, each.token, None) for each in arguments[0]]
        case "request_cancel" | "reopen" | "reschedule" | "delete":
            return [(verb, job, None, None) for job in arguments[0]]
        case _:
            return []


def _is_refused(item: Item, answer: EnqueueAnswer) -> bool:
    return answer.is_lost or answer.is_refused or item[1] in answer.duplicates


def _answered(item: Item, answer: EnqueueAnswer) -> Item:
    what, job, token, by = item
    duplicate = None if job is None else answer.duplicates.get(job)
    return what, job, token, by if by is None or duplicate is None else structs.replace(by, holder=duplicate.job)


def verb_of(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(self: Faulty, *arguments: Any, **keywords: Any) -> Any:
        return await self._call(name, arguments, keywords)

    call.__name__ = name
    call.__doc__ = f"``{name}``, with faults."
    return call


for _name in VERBS:
    setattr(Faulty, _name, verb_of(_name))


def faulty(
    store: Store,
    *,
    process: str,
    faults: Faults,
    clock: Clock,
    history: History,
    now: Callable[[], float] | None = None,
    carry: Carry | None = None,
    crash: Callable[[], None] = lambda: None,
    introduce: Callable[[str], None] = lambda process: None,
    connections: Connections | None = None,
) -> Store:
    """Return the store as one process reaches it under faults, with all calls and answers recorded in ``history``.

    ``carry`` runs a call that was sent, independently of its sender. ``crash`` ends the sender. ``introduce`` names the next caller to
    the store. ``now`` stamps the events. ``connections``: those of the process, if their number is limited.
    """
    return cast(
        Store,
        Faulty(
            store,
            process=process,
            faults=faults,
            clock=clock,
            history=history,
            now=clock.monotonic if now is None else now,
            carry=_Background() if carry is None else carry,
            crash=crash,
            introduce=introduce,
            connections=connections,
        ),
    )


class _Background:
    """Tasks without a waiter, kept until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # The failure of a late copy reaches no caller, as on a real wire.
            return

"""Settles and starts of several callers in one write: those that come while a write is on its way leave together with the next.

Claims and enqueues are written alone. A claim belongs to one lease, and the receipt of an enqueue call to its caller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from holdfast._core.answers import Answer, ExchangeAnswer
from holdfast._core.job import Token
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import ClaimRequest
from holdfast._engine.service import is_refusal
from holdfast._ports.store import Store
from holdfast.errors import StoreUnavailable

MOST = 1000
"""Moves in one write."""

Move = TypeVar("Move")
Found = TypeVar("Found")


class GroupCommit:
    """The two verbs of a store whose calls can share a write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settles: _Group[Transition, Answer] = _Group(self._settle, lambda move: move.job)
        self._starts: _Group[tuple[UUID, Token], bool] = _Group(self._start, lambda move: move[0])

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        """Settle, together with other callers unless there is a claim."""
        if request is not None or not transitions or len(transitions) > MOST:
            return await self._store.exchange(transitions, request)
        return ExchangeAnswer(tuple(await self._settles.write(transitions)))

    async def start(self, tokens: Sequence[tuple[UUID, Token]]) -> frozenset[UUID]:
        """Start jobs, together with other callers; return those that were lost."""
        if not tokens or len(tokens) > MOST:
            return await self._store.start(tokens)
        are_lost = await self._starts.write(tokens)
        return frozenset(job for (job, _), is_lost in zip(tokens, are_lost, strict=True) if is_lost)

    async def _settle(self, moves: Sequence[Transition]) -> Sequence[Answer]:
        return (await self._store.exchange(moves)).answers

    async def _start(self, moves: Sequence[tuple[UUID, Token]]) -> Sequence[bool]:
        lost = await self._store.start(moves)
        return [job in lost for job, _ in moves]


Call = tuple[Sequence[Move], asyncio.Future[Sequence[Found]]]


class _Group(Generic[Move, Found]):
    def __init__(self, write: Callable[[Sequence[Move]], Awaitable[Sequence[Found]]], job_of: Callable[[Move], UUID]) -> None:
        self._write, self._job_of = write, job_of
        self._waiting: list[Call[Move, Found]] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, moves: Sequence[Move]) -> Sequence[Found]:
        """Write the moves with those of other callers, and return what was found for each."""
        done: asyncio.Future[Sequence[Found]] = asyncio.get_running_loop().create_future()
        self._waiting.append((moves, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._flush())
        return await done

    async def _flush(self) -> None:
        while self._waiting:
            batch = self._take()
            try:
                await self._write_all(batch)
            finally:
                for _, done in batch:  # also if this task is cancelled: every caller gets an answer
                    _answer(done, StoreUnavailable("the broker was stopped during the call"))

    def _take(self) -> list[Call[Move, Found]]:
        """Take the calls of the next write: each job once, because answers are by job, and another token may have lost it."""
        jobs, taken = set[UUID](), list[Call[Move, Found]]()
        for call in self._waiting:
            more = {self._job_of(move) for move in call[0]}
            if taken and (len(jobs) + len(call[0]) > MOST or not jobs.isdisjoint(more)):
                break
            taken.append(call)
            jobs |= more
        del self._waiting[: len(taken)]
        return taken

    async def _write_all(self, batch: list[Call[Move, Found]]) -> None:
        """Write all at once; if the store refuses that, write those of each caller, so that one does not fail the others."""
        try:
            found = await self._write([move for moves, _ in batch for move in moves])
        except Exception as error:
            if len(batch) > 1 and is_refusal(error):
                for each in batch:
                    await self._write_all([each])
            for _, done in batch:
                _answer(done, error)
            return
        position = 0
        for moves, done in batch:
            _answer(done, found[position : position + len(moves)])
            position += len(moves)


def _answer(done: asyncio.Future[Any], found: object) -> None:
    if done.done():
        return  # the caller has gone
    if isinstance(found, Exception):
        done.set_exception(found)
    else:
        done.set_result(found)

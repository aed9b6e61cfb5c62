"""The second design as its description has it: all jobs in one JSON object that is rewritten by compare-and-swap.

With a broker, the one process that writes keeps the object in memory and makes one write of all requests that wait. Without one, each
process reads before it writes. A write that fails is followed by a read, and by the same requests again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Struct

from bench.objects.slow_bucket import SlowBucket
from holdfast._ports.bucket import ABSENT, Absent, BucketUnavailable, Found

KEY = "queue.json"
SILENCE = 30.0
"""Seconds without a heartbeat after which a job waits again."""


class Entry(Struct):
    """A job. ``seen``: its last heartbeat, by the wall clock of the process that wrote it; ``None`` while the job waits."""

    id: str
    type: str
    payload: int
    attempt: int = 0
    seen: float | None = None


class State(Struct):
    """The object. ``broker``: the process that wrote last."""

    broker: str = ""
    completed: int = 0
    jobs: list[Entry] = []


Change = Callable[[State], Any]


class OneObject:
    """One process of this design. ``is_only_writer``: it is the broker. While ``runs`` is not set, it stands still."""

    def __init__(self, bucket: SlowBucket, *, is_only_writer: bool) -> None:
        self._bucket, self._is_only_writer, self._name = bucket, is_only_writer, uuid4().hex
        self._state, self._etag, self._is_stale = State(), "", True
        self._waiting: list[tuple[Change, asyncio.Future[Any]]] = []
        self._writing: asyncio.Task[None] | None = None
        self.runs = asyncio.Event()
        self.runs.set()

    async def enqueue(self, number: int) -> None:
        job = Entry(uuid4().hex, "noop", number)
        await self._change(lambda state: state.jobs.append(msgspec.structs.replace(job)))

    async def worker(self, concurrency: int) -> HandWorker:
        return HandWorker(self, concurrency)

    async def exchange(self, done: set[str], limit: int) -> list[Entry]:
        """Remove the completed jobs, and claim the first of the line."""
        return list(await self._change(lambda state: _exchange(state, done, limit)))

    async def numbers(self) -> list[int]:
        """Return the payloads of all jobs in the object."""
        await self._load()
        return [each.payload for each in self._state.jobs]

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _change(self, change: Change) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((change, answer))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
        return await answer

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            answers = await self._write(batch)
            for (_, answer), value in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(value)
            await asyncio.sleep(0)
        self._writing = None

    async def _write(self, batch: list[tuple[Change, asyncio.Future[Any]]]) -> list[Any]:
        while True:
            if self._is_stale or not self._is_only_writer:
                await self._load()
            _expire(self._state)
            answers = [change(self._state) for change, _ in batch]
            self._state.broker = self._name
            body = msgspec.json.encode(self._state)
            await self.runs.wait()
            try:
                condition: str | Absent = self._etag or ABSENT
                self._etag = await self._bucket.put(KEY, body, condition)
            except BucketUnavailable:
                self._is_stale = True
            else:
                return answers

    async def _load(self) -> None:
        found = await self._bucket.get(KEY)
        if isinstance(found, Found):
            self._state, self._etag = msgspec.json.decode(found.body, type=State), found.etag
        self._is_stale = False


class HandWorker:
    """A worker of this design: it completes by id, without a token."""

    def __init__(self, queue: OneObject, concurrency: int) -> None:
        self._queue, self._concurrency = queue, concurrency
        self._held = set[str]()

    async def exchange(self) -> list[int]:
        jobs = await self._queue.exchange(self._held, self._concurrency)
        self._held = {job.id for job in jobs}
        return [job.payload for job in jobs]


def _exchange(state: State, done: set[str], limit: int) -> list[Entry]:
    left = [job for job in state.jobs if job.id not in done]
    state.completed += len(state.jobs) - len(left)
    state.jobs = left
    claimed = [job for job in left if job.seen is None][:limit]
    for job in claimed:
        job.seen, job.attempt = time.time(), job.attempt + 1
    return claimed


def _expire(state: State) -> None:
    now = time.time()
    for job in state.jobs:
        if job.seen is not None and now - job.seen > SILENCE:
            job.seen = None

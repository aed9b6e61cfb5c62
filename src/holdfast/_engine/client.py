"""The caller's side: enqueue, look, cancel, retry. Every verb is sent again while the store is away, up to a limit."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeVar
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, JobRecord, Json, NewJob, Place, State
from holdfast._core.payload import decode_json
from holdfast._core.view import AttemptView, JobView
from holdfast._engine.events import EventName, Events
from holdfast._ports.clock import Chance, Clock
from holdfast._ports.store import JobFilter, Store
from holdfast._ports.transport import Hint, Transport
from holdfast.errors import JobCancelled, JobFailed, JobNotFound, StoreUnavailable

GIVE_UP = 30.0
PAUSES = (0.05, 2.0)
RESULT_PAUSES = (0.005, 0.25)
SHARED_COMMIT = 1000
HINTED = 64

Answered = TypeVar("Answered")


class Call(Struct, frozen=True, eq=False):
    """One caller of enqueue, waiting for its jobs to be durable."""

    jobs: Sequence[NewJob]
    done: asyncio.Future[None]

    def succeed(self) -> None:
        """They are."""
        if not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        """They may or may not be."""
        if isinstance(error, asyncio.CancelledError):
            self.done.cancel()
        elif not self.done.done():
            self.done.set_exception(error)


Calls = list[Call]


class Client:
    """Speaks to one store from one event loop.

    Concurrent single enqueues share a commit: those that come while a write is on its way leave together with the next.
    """

    def __init__(
        self, store: Store, transport: Transport, clock: Clock, chance: Chance, events: Events, *, give_up: float = GIVE_UP
    ) -> None:
        self._store = store
        self._transport = transport
        self._clock = clock
        self._chance = chance
        self._events = events
        self._give_up = give_up
        self._waiting: Calls = []
        self._flushing: asyncio.Task[None] | None = None

    async def enqueue(self, jobs: Sequence[NewJob]) -> None:
        """All of them durably, or none. ``StoreUnavailable`` after ``give_up`` seconds: they may or may not be there.

        A cancelled caller leaves its neighbours alone; its own jobs may still land if they were on their way.
        """
        if not jobs:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(Call(jobs, done))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
        await done

    async def get(self, job: UUID) -> JobView:
        """The job with its attempts; ``JobNotFound``."""
        return JobView.of(await self._record(job))

    async def list(self, which: JobFilter) -> "list[JobView]":
        """Matching jobs, newest first, without attempts."""
        return [JobView.of(record) for record in await self._ask("list", lambda: self._store.list(which))]

    async def counts(self, by: Literal["queue", "task"] | None) -> dict[str, dict[str, int]]:
        """Jobs by group and state, all nine states with zeros; the group is ``""`` without ``by``."""
        found = await self._ask("counts", lambda: self._store.counts(by))
        groups = dict.fromkeys([""] if by is None else sorted({group for group, _ in found}))
        return {group: {state.value: found.get((group, state), 0) for state in State} for group in groups}

    async def cancel(self, jobs: Sequence[UUID]) -> dict[UUID, State]:
        """End what waits, mark what runs; the state each is in now, absent if unknown."""
        states = await self._ask("request_cancel", lambda: self._store.request_cancel(jobs))
        await self._publish_ids(job for job, state in states.items() if PLACE_OF[state] is Place.ACTIVE)
        return states

    async def retry(self, jobs: Sequence[UUID]) -> dict[UUID, State]:
        """Run finished, held and scheduled jobs now, with fresh budgets; the state each is in now, absent if unknown."""
        states = await self._ask("reopen", lambda: self._store.reopen(jobs))
        await self._publish_ids(job for job, state in states.items() if state is State.AVAILABLE)
        return states

    async def notify(self, queue: str) -> None:
        """Wake idle workers, for jobs that were written without this client."""
        await self._transport.publish([Hint(queue)])

    async def result(self, job: UUID, timeout: float | None) -> Json:
        """Wait for the job's end: its result, or ``JobFailed``, ``JobCancelled``, ``JobNotFound``, ``TimeoutError``."""
        started, pause = self._clock.monotonic(), RESULT_PAUSES[0]
        while True:
            record = await self._record(job)
            if PLACE_OF[record.state] is Place.FINISHED:
                return _result(record)
            left = pause if timeout is None else started + timeout - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {job} is still {record.state.value} after {timeout:g} s")
            await self._clock.sleep(min(pause, left))
            pause = min(pause * 2, RESULT_PAUSES[1])

    async def _record(self, job: UUID) -> JobRecord:
        record = await self._ask("get", lambda: self._store.get(job))
        if record is None:
            raise JobNotFound(f"no job has the id {job}: it never existed here, or its retention has passed")
        return record

    async def _flush(self) -> None:
        while self._waiting:
            calls = self._take()
            try:
                await self._write([job for call in calls for job in call.jobs])
            except BaseException as error:
                for call in calls:
                    call.fail(error)
                if not isinstance(error, Exception):
                    raise
            else:
                for call in calls:
                    call.succeed()

    def _take(self) -> Calls:
        """The calls that share the next commit, whole ones only; a caller that has gone takes its jobs with it."""
        size = taken = 0
        for call in self._waiting:
            if taken and size + len(call.jobs) > SHARED_COMMIT:
                break
            size, taken = size + len(call.jobs), taken + 1
        calls, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return [call for call in calls if not call.done.done()]

    async def _write(self, jobs: Sequence[NewJob]) -> None:
        if not jobs:
            return
        call = self._chance.uuid4()  # the same for every copy of this write, so that two copies are one
        await self._ask("enqueue", lambda: self._store.enqueue(call, jobs))
        for job in jobs:
            self._events.emit(EventName.JOB_ENQUEUED, job=job.id, task=job.task, queue=job.queue)
        await self._transport.publish([Hint(queue) for queue in dict.fromkeys(job.queue for job in jobs)])

    async def _ask(self, operation: str, verb: Callable[[], Awaitable[Answered]]) -> Answered:
        """The verb's answer, asked again while the store is away; every verb may be sent again."""
        started, pause, failures = self._clock.monotonic(), PAUSES[0], 0
        while True:
            try:
                answer = await verb()
            except StoreUnavailable as error:
                failures += 1
                if failures == 1:
                    self._events.emit(EventName.STORE_UNAVAILABLE, operation=operation, error=str(error))
                if self._clock.monotonic() - started + pause > self._give_up:
                    raise
            else:
                if failures:
                    self._events.emit(EventName.STORE_RECOVERED, operation=operation, failures=failures)
                return answer
            await self._clock.sleep(pause * (0.75 + 0.25 * self._chance.jitter()))
            pause = min(pause * 2, PAUSES[1])

    async def _publish_ids(self, jobs: Iterable[UUID]) -> None:
        ids = tuple(jobs)
        if ids:
            await self._transport.publish([Hint(ids=ids[n : n + HINTED]) for n in range(0, len(ids), HINTED)])


def _result(record: JobRecord) -> Json:
    match record.state:
        case State.COMPLETED:
            return None if record.result is None else decode_json(record.result)
        case State.CANCELLED:
            why = record.error.message if record.error else record.reason
            raise JobCancelled(f"job {record.id} was cancelled: {why}")
        case _:
            attempts = tuple(AttemptView.of(attempt) for attempt in record.attempts)
            raise JobFailed(record.reason or "", record.error, attempts)

"""What an enqueue returns: a job by its id, to read, wait for, cancel or run again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic
from uuid import UUID

from holdfast._core.durations import Duration, seconds
from holdfast._core.payload import decode_json
from holdfast._engine.client.conflicts import require_no_conflict
from holdfast._engine.client.following import pause_of
from holdfast.errors import JobNotFound, UniqueConflict
from holdfast.sync import blocking, iterated, refuse_inside_loop

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # Python before 3.13 has no defaults of type variables

    from holdfast._core.answers import Duplicate, EnqueueAnswer
    from holdfast._core.job import Json, NewJob, State
    from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
    from holdfast._core.view import JobView
    from holdfast._engine.client.client import Client

    Result = TypeVar("Result", covariant=True, default=Json)
else:
    from typing import TypeVar

    Result = TypeVar("Result", covariant=True)

Value = TypeVar("Value")


class Handle(Generic[Result]):
    """One enqueued job; ``created`` is false if an earlier one with the same unique key stands for it.

    Its parameter is what the task's function is annotated to return: plain JSON for a task that is enqueued by its name.

    >>> handle = analyze.enqueue(repo_url="…")  # doctest: +SKIP
    >>> handle.result(timeout="60s")  # doctest: +SKIP
    """

    __slots__ = ("_connect", "_queue", "_read", "created", "id")

    def __init__(
        self,
        job: UUID,
        queue: str,
        connect: Callable[[], Client],
        *,
        created: bool = True,
        read: Callable[[bytes], Any] = decode_json,
    ) -> None:
        self.id = job
        self.created = created
        self._queue = queue
        self._connect = connect
        self._read = read

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.id)!r})"

    def plain(self) -> Handle:
        """Return a handle of the same job whose result is plain JSON.

        >>> analyze.enqueue(repo_url="…").plain().result()  # doctest: +SKIP
        {'commits': 400}
        """
        return type(self)(self.id, self._queue, self._connect, created=self.created)

    async def aget(self) -> JobView:
        """Return the job now, with its attempts; ``JobNotFound`` once its retention has passed."""
        return await self._connect().get(self.id)

    async def aresult(self: Handle[Value | Retry | Snooze | Cancel | Fail], timeout: Duration | None = None) -> Value:
        """Wait for the result, and return it with the type that the task's function is annotated with.

        Raises ``JobFailed``, ``JobCancelled``, ``JobNotFound``, ``TimeoutError`` after ``timeout``, or ``ResultInvalid`` for a stored
        result that is not of that type; ``handle.get().result`` is plain JSON of any type.
        """
        result: Value = await self._connect().result(self.id, None if timeout is None else seconds(timeout), self._read)
        return result

    def result(self: Handle[Value | Retry | Snooze | Cancel | Fail], timeout: Duration | None = None) -> Value:
        """Wait in this thread for the job's end, and return its result with the type that the task's function is annotated with.

        Raises ``JobFailed``, ``JobCancelled``, ``JobNotFound``, ``ResultInvalid``, and ``TimeoutError`` after ``timeout``; in an event
        loop use ``aresult``.
        """
        return blocking(Handle.aresult)(self, timeout)

    def afollow(self, every: Duration = "1s") -> AsyncGenerator[JobView, None]:
        """Yield the job as it is now, and again after each change, until it has finished.

        It is read each ``every`` seconds, once for all of its followers in this event loop. A store that is away is waited for. Raises
        ``JobNotFound``.

        >>> async for job in handle.afollow():  # doctest: +SKIP
        ...     print(job.state, job.stage, job.fraction)
        """
        return followed(self._connect, self.id, every)

    def follow(self, every: Duration = "1s") -> Iterator[JobView]:
        """Yield the job as it is now, and again after each change until it has finished, in this thread; see ``afollow``."""
        refuse_inside_loop("afollow")
        return iterated(self.afollow(every))

    async def acancel(self) -> State:
        """End the job if it waits, ask it to end if it runs; return its state now, unchanged if it had finished."""
        return self._found(await self._connect().cancel([self.id]))

    async def aretry(self, *, fresh: bool = False) -> State:
        """Run the job again, with fresh budgets, if it has finished, is held or waits for later; return its state now.

        It goes on from its checkpoint and its steps; with ``fresh``, it forgets both. ``UniqueConflict`` if another unfinished job has its
        unique key.
        """
        answer = await self._connect().retry([self.id], is_fresh=fresh)
        if holder := answer.taken.get(self.id):
            message = f"job {self.id} cannot run again: job {holder} has its unique key; wait for that one, or cancel it"
            raise UniqueConflict(message, holder)
        return self._found(answer.states)

    async def asignal(self, name: str, value: Json = None) -> bool:
        """Send a signal that the job consumes with ``job.wait_for(name)``, now or later; return false if the job has finished.

        It is kept until the job asks for it. A call that is sent again after a lost answer sends one signal. Raises ``JobNotFound``;
        ``PayloadTooLarge`` for a value beyond 64 KiB, or if the job has 1,000 signals that it has not consumed.

        >>> handle.signal("approved", {"by": "ada"})  # doctest: +SKIP
        True
        """
        return await self._connect().signal(self.id, name, value)

    async def anotify(self) -> None:
        """Wake idle workers, after a job was written without Holdfast knowing when it was committed."""
        await self._connect().notify(self._queue)

    get = blocking(aget)
    cancel = blocking(acancel)
    retry = blocking(aretry)
    signal = blocking(asignal)
    notify = blocking(anotify)

    def _found(self, states: dict[UUID, State]) -> State:
        if self.id not in states:
            raise JobNotFound(f"no job has the id {self.id}: its retention has passed")
        return states[self.id]


def followed(connect: Callable[[], Client], job: UUID, every: Duration) -> AsyncGenerator[JobView, None]:
    """Return the job now and after each change. The client is that of the loop in which the first one is asked for."""
    return _followed(connect, job, pause_of(every))


async def _followed(connect: Callable[[], Client], job: UUID, pause: float) -> AsyncGenerator[JobView, None]:
    async with aclosing(connect().following.follow(job, pause)) as views:
        async for view in views:
            yield view


def id_of(job: UUID | str) -> UUID:
    """Return the id of a job that a caller named; ``JobNotFound`` for text that cannot be one."""
    if isinstance(job, UUID):
        return job
    try:
        return UUID(job)
    except (ValueError, AttributeError, TypeError):
        raise JobNotFound(f"{job!r} is not a job id; enqueue returns it, and `holdfast jobs list` shows it") from None


def handles_of(
    jobs: Sequence[NewJob], answer: EnqueueAnswer, connect: Callable[[], Client], read: Callable[[bytes], Any] = decode_json
) -> list[Handle[Any]]:
    """Return a handle for each job, or that of the unfinished job that has its unique key already. ``read``: reads their results.

    ``UniqueConflict`` for the first job whose key an unfinished job with another payload has.
    """
    if not answer.duplicates:
        return [Handle(job.id, job.queue, connect, read=read) for job in jobs]
    require_no_conflict(jobs, answer)
    return [_handle_of(job, answer.duplicates.get(job.id), connect, read) for job in jobs]


def _handle_of(
    job: NewJob, duplicate: Duplicate | None, connect: Callable[[], Client], read: Callable[[bytes], Any]
) -> Handle[Any]:
    is_new = duplicate is None
    return Handle(job.id if duplicate is None else duplicate.job, job.queue, connect, created=is_new, read=read)

"""What people and programs ask of a whole App: its jobs, its workers, its recovery."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal
from uuid import UUID

from holdfast._core.job import State
from holdfast._core.view import JobView
from holdfast._engine.client import Client
from holdfast._engine.recovery import Rescued
from holdfast._ports.store import JobFilter, LeaseView
from holdfast.errors import ConfigurationError, JobNotFound
from holdfast.sync import blocking

Id = UUID | str


class Jobs:
    """``app.jobs``: look at jobs, cancel them, run them again."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    async def aget(self, job: Id) -> JobView:
        """The job with its attempts; ``JobNotFound``."""
        return await self._connect().get(_id(job))

    async def alist(
        self,
        *,
        state: State | str | None = None,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        limit: int = 100,
        cursor: Id | None = None,
    ) -> list[JobView]:
        """Matching jobs, newest first, without attempts. ``cursor``: the id of the last job of the page before."""
        problems = []
        if state is not None and state not in set(State):
            problems.append(f"state={state!r}: use one of {', '.join(State)}")
        if type(limit) is not int or limit < 1:
            problems.append(f"limit={limit!r}: use a whole number from 1")
        if problems:
            raise ConfigurationError(problems)
        before = None if cursor is None else _id(cursor)
        known = None if state is None else State(state)
        which = JobFilter(state=known, task=task, queue=queue, tag=tag, limit=limit, before=before)
        return await self._connect().list(which)

    async def acounts(self, by: Literal["queue", "task"] | None = None) -> dict[str, Any]:
        """Jobs by state, all nine, zeros included; ``by`` nests that under each queue or task."""
        if by not in (None, "queue", "task"):
            raise ConfigurationError([f"by={by!r}: use 'queue' or 'task'"])
        groups = await self._connect().counts(by)
        return groups if by is not None else groups[""]

    async def acancel(self, jobs: Id | Sequence[Id]) -> dict[UUID, State]:
        """End those that wait, ask those that run to end; the state each is in now. Unknown ids are left out."""
        return await self._connect().cancel(_ids(jobs))

    async def aretry(self, jobs: Id | Sequence[Id]) -> dict[UUID, State]:
        """Run finished, held and scheduled jobs now, with fresh budgets; the state each is in now. Unknown ids are left out."""
        return await self._connect().retry(_ids(jobs))

    get = blocking(aget)
    list = blocking(alist)
    counts = blocking(acounts)
    cancel = blocking(acancel)
    retry = blocking(aretry)


class Workers:
    """``app.workers``."""

    def __init__(self, read: Callable[[], Awaitable[Sequence[LeaseView]]]) -> None:
        self._read = read

    async def alist(self) -> list[LeaseView]:
        """Workers whose lease has not ended, oldest first; ``overdue`` below zero: alive."""
        return list(await self._read())

    list = blocking(alist)


class RecoveryRun:
    """``app.recovery``: what every supervisor does by itself, once and by hand."""

    def __init__(self, run: Callable[[bool], Awaitable[Sequence[Rescued]]]) -> None:
        self._run = run

    async def arun_once(self, now: bool = False) -> list[Rescued]:
        """Take jobs from workers that lost their right to them.

        A lease is judged only after watching the store for its ``beat + margin``, because after an outage every lease
        looks expired; ``now`` skips that wait.
        """
        return list(await self._run(now))

    run_once = blocking(arun_once)


def _id(job: Id) -> UUID:
    if isinstance(job, UUID):
        return job
    try:
        return UUID(job)
    except (ValueError, AttributeError, TypeError):
        raise JobNotFound(f"{job!r} is no job id; enqueue answers it, and `holdfast jobs list` shows it") from None


def _ids(jobs: Id | Sequence[Id]) -> tuple[UUID, ...]:
    return (_id(jobs),) if isinstance(jobs, (UUID, str)) else tuple(_id(job) for job in jobs)

"""What people and programs do with a whole App: its jobs, its workers, its recovery."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack, overload
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatView, LeaseView
from holdfast._core.audit import AuditNote
from holdfast._core.durations import Duration
from holdfast._core.explanation import Explanation
from holdfast._core.job import Json, State
from holdfast._core.requests import FITTING, MEANT, Steer, SteerVerb
from holdfast._core.view import JobView, Rescued
from holdfast._engine.client.client import ACTIONS, BATCH, MOVABLE, Client
from holdfast._engine.client.handle import followed, id_of
from holdfast._engine.operators.stale import StaleJob, by_task, stale
from holdfast._engine.operators.where import Conditions, selector_of, states_in
from holdfast._engine.operators.where import Steered as Steered
from holdfast._engine.operators.where import Where as Where
from holdfast._engine.tasks.options import due
from holdfast.errors import ConfigurationError, InvalidCursor, JobNotFound
from holdfast.sync import blocking, iterated, refuse_inside_loop

Id = UUID | str
Ids = list[UUID]
OWNED = (State.CLAIMED, State.RUNNING)
UNFINISHED = (State.SCHEDULED, State.AVAILABLE, State.BLOCKED, State.HELD, *OWNED)
Problems = list[str]
_RESULTS = {
    SteerVerb.CANCEL: State.CANCELLED,
    SteerVerb.REOPEN: State.AVAILABLE,
    SteerVerb.RESCHEDULE: State.SCHEDULED,
}


class Jobs:
    """``app.jobs``: look at jobs, cancel them, run them again."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    async def aget(self, job: Id) -> JobView:
        """Return the job with its attempts; ``JobNotFound``."""
        return await self._connect().get(id_of(job))

    def afollow(self, job: Id, every: Duration = "1s") -> AsyncGenerator[JobView, None]:
        """Yield the job as it is now, and again after each change, until it has finished; see ``Handle.afollow``.

        >>> async for job in app.jobs.afollow(id):  # doctest: +SKIP
        ...     print(job.state, job.fraction)
        """
        return followed(self._connect, id_of(job), every)

    def follow(self, job: Id, every: Duration = "1s") -> Iterator[JobView]:
        """Yield the job as it is now, and again after each change until it has finished, in this thread; see ``afollow``."""
        refuse_inside_loop("afollow")
        return iterated(self.afollow(job, every))

    async def alist(self, *, limit: int = 100, cursor: Id | None = None, **conditions: Unpack[Conditions]) -> list[JobView]:
        """Return matching jobs, newest first, without attempts. ``cursor``: the id of the last job of the page before.

        The conditions are those of ``Where``.

        >>> app.jobs.list(state="failed", reason="HANDLER_ERROR", older_than="1h")  # doctest: +SKIP
        [JobView(…), …]
        """
        return await self._connect().list(Where(**conditions).filter(limit, before=None if cursor is None else _cursor(cursor)))

    async def aids(self, *, limit: int | None = None, **conditions: Unpack[Conditions]) -> Ids:
        """Return ids of matching jobs, newest first, for verbs that take many: ``app.jobs.retry(app.jobs.ids(state="failed"))``."""
        return [*await self._connect().states(Where(**conditions).filter(limit), limit)]

    async def acounts(self, by: Literal["queue", "task"] | None = None, *, most: int | None = None) -> dict[str, Any]:
        """Count jobs in each of the nine states, zeros included. With ``by``, return such counts for each queue or task.

        ``most``: stop at one more finished job of a state than this, where the store would read each of them.
        """
        if by not in (None, "queue", "task"):
            raise ConfigurationError([f"by={by!r}: use 'queue' or 'task'"])
        groups = await self._connect().counts(by, most)
        return groups if by is not None else groups[""]

    @overload
    async def acancel(self, jobs: Id | Sequence[Id]) -> dict[UUID, State]: ...
    @overload
    async def acancel(self, *, where: Where, limit: int | None = None, dry_run: bool = False) -> Steered: ...
    async def acancel(
        self, jobs: Id | Sequence[Id] = (), *, where: Where | None = None, limit: int | None = None, dry_run: bool = False
    ) -> dict[UUID, State] | Steered:
        """End jobs that wait, and ask those that run to end; return the state each is in now. Unknown ids are left out.

        ``where``: the unfinished jobs that match; ``limit`` and ``dry_run`` as for the other verbs.

        >>> app.jobs.cancel(where=Where(queue="mail", older_than="1d"), dry_run=True).jobs  # doctest: +SKIP
        412
        """
        if where is None:
            return await self._connect().act(Steer(SteerVerb.CANCEL), _ids(jobs))
        return await self._steer(jobs, where, Steer(SteerVerb.CANCEL), UNFINISHED, limit=limit, dry_run=dry_run)

    @overload
    async def aretry(self, jobs: Id | Sequence[Id], *, fresh: bool = False) -> dict[UUID, State]: ...
    @overload
    async def aretry(self, *, where: Where, limit: int | None = None, dry_run: bool = False, fresh: bool = False) -> Steered: ...
    async def aretry(
        self,
        jobs: Id | Sequence[Id] = (),
        *,
        where: Where | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        fresh: bool = False,
    ) -> dict[UUID, State] | Steered:
        """Run finished, held and scheduled jobs now, with fresh budgets; return the state each is in now. Unknown ids are left out.

        They go on from their checkpoints and steps; with ``fresh``, they forget both. A finished job stays finished if another unfinished
        job has its unique key. ``where`` must name a state, a reason or an error, because completed jobs would run again otherwise.
        With an error and no state, it is the failed jobs.
        """
        if where is None:
            return await self._connect().act(Steer(SteerVerb.REOPEN, is_fresh=fresh), _ids(jobs))
        if where.state is None and where.error_key is not None:
            where = structs.replace(where, state=State.FAILED)
        if where.state is None and where.reason is None:
            raise ConfigurationError(["retry: name a state, a reason or an error in Where, or completed jobs would run again"])
        how = Steer(SteerVerb.REOPEN, is_fresh=fresh)
        return await self._steer(jobs, where, how, (), limit=limit, dry_run=dry_run)

    @overload
    async def areschedule(
        self, jobs: Id | Sequence[Id], *, delay: Duration | None = None, run_at: datetime | None = None
    ) -> dict[UUID, State]: ...
    @overload
    async def areschedule(
        self,
        *,
        where: Where,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> Steered: ...
    async def areschedule(
        self,
        jobs: Id | Sequence[Id] = (),
        *,
        where: Where | None = None,
        delay: Duration | None = None,
        run_at: datetime | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> dict[UUID, State] | Steered:
        """Make waiting jobs due after ``delay``, or at ``run_at``; return the state each is in now. Unknown ids are left out."""
        problems: Problems = []
        wait, when = due("delay", delay, run_at, problems)
        if delay is None and run_at is None:
            problems.append("reschedule: pass delay='10s' or run_at=datetime.now(UTC)")
        if problems:
            raise ConfigurationError(problems)
        how = Steer(SteerVerb.RESCHEDULE, wait, when)
        if where is None:
            return await self._connect().act(how, _ids(jobs))
        return await self._steer(jobs, where, how, MOVABLE, limit=limit, dry_run=dry_run)

    @overload
    async def adelete(self, jobs: Id | Sequence[Id]) -> dict[UUID, State]: ...
    @overload
    async def adelete(self, *, where: Where, limit: int | None = None, dry_run: bool = False) -> Steered: ...
    async def adelete(
        self, jobs: Id | Sequence[Id] = (), *, where: Where | None = None, limit: int | None = None, dry_run: bool = False
    ) -> dict[UUID, State] | Steered:
        """Remove every trace of jobs. Those that a worker runs, and those of unfinished workflows, stay: cancel these first.

        The states of jobs that stay are returned.
        """
        if where is None:
            return await self._connect().act(Steer(SteerVerb.DELETE), _ids(jobs))
        return await self._steer(jobs, where, Steer(SteerVerb.DELETE), (), limit=limit, dry_run=dry_run, absent="deleted")

    async def _steer(
        self,
        jobs: Id | Sequence[Id],
        where: Where,
        how: Steer,
        looked_at: Sequence[State],
        *,
        limit: int | None,
        dry_run: bool,
        absent: str = "unknown",
    ) -> Steered:
        """Apply the verb to the jobs that match, a page at a time: those that still do when they are written.

        ``looked_at``: the states if ``where`` names none.
        """
        if jobs != ():
            raise ConfigurationError(["name jobs by their ids, or by where=; not both"])
        client, seen, states, refused = self._connect(), set[UUID](), Counter[str](), dict[UUID, State]()
        by = None if dry_run else client.note(ACTIONS[how.verb], selector_of(where, limit))
        chosen: Sequence[str | None] = states_in(where, limit) or looked_at or [None]
        for state in chosen:
            which = structs.replace(structs.replace(where, state=state).filter(limit), limit=BATCH)
            while limit is None or len(seen) < limit:
                page = await client.page(which)
                left = [job.id for job in page if job.id not in seen][: None if limit is None else limit - len(seen)]
                seen.update(left)
                now, kept = {job.id: job.state for job in page}, frozenset[UUID]()
                if dry_run:
                    refused.update((job, now[job]) for job in left if now[job] not in FITTING[how.verb])
                else:
                    answer = await client.steer(how, left, which, by=by)
                    now, kept = answer.states, answer.left
                    # After a lost answer the jobs that this call has moved match no longer, but are in the state it gives.
                    moved = kept - {job for job in kept if now.get(job) is _RESULTS.get(how.verb)}
                    refused.update(
                        (job, now[job]) for job in left if job in now and (job in moved or now[job] not in MEANT[how.verb])
                    )
                states.update(now[job].value if job in now else absent for job in left)
                if len(page) < which.limit:
                    break
                which = structs.replace(which, before=page[-1].id)
        if not dry_run:
            await self._finish(how, where, by, len(seen), refused=len(refused), unknown=states["unknown"])
        return Steered(len(seen), dict(states), refused)

    async def _finish(self, how: Steer, where: Where, by: AuditNote | None, jobs: int, *, refused: int, unknown: int) -> None:
        """Report what a verb did, and record it also if it found no jobs."""
        client = self._connect()
        if by is not None and not jobs:
            await client.steer(how, (), where.filter(1), by=by)
        client.report_selected(how.verb, jobs - refused - unknown, refused)

    async def aexplain(self, job: Id) -> Explanation:
        """Explain why the job is in its state, and what to do about it; ``JobNotFound``.

        >>> app.jobs.explain(handle.id).causes[0].remedy  # doctest: +SKIP
        '`holdfast queues resume slow`'
        """
        return await self._connect().explain(id_of(job))

    async def asignal(self, job: Id, name: str, value: Json = None) -> bool:
        """Send a signal to a job, as ``handle.signal`` does; return false if the job has finished. ``JobNotFound``.

        >>> app.jobs.signal(handle.id, "approved")  # doctest: +SKIP
        True
        """
        return await self._connect().signal(id_of(job), name, value)

    async def asignal_key(self, task: str, unique_key: str, name: str, value: Json = None) -> bool:
        """Send a signal to the unfinished job of a task that has a unique key, for callers that do not know its id. ``JobNotFound``.

        >>> app.jobs.signal_key("ship", "order-7", "paid")  # doctest: +SKIP
        True
        """
        client = self._connect()
        return await client.signal(await client.job_with_key(task, unique_key), name, value)

    get = blocking(aget)
    list = blocking(alist)
    ids = blocking(aids)
    counts = blocking(acounts)
    cancel = blocking(acancel)
    retry = blocking(aretry)
    reschedule = blocking(areschedule)
    delete = blocking(adelete)
    explain = blocking(aexplain)
    signal = blocking(asignal)
    signal_key = blocking(asignal_key)


def client_of(jobs: Jobs) -> Client:
    """Return the client of the running event loop, for reads and writes that go page by page."""
    return jobs._connect()


class Workers:
    """``app.workers``."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client

    async def alist(self) -> list[LeaseView]:
        """Return the workers whose lease has not ended, oldest first; ``overdue`` below zero: alive."""
        return [*await self._client().workers()]

    async def ahistory(self, name: str, *, limit: int = 1440) -> "list[BeatView]":
        """Return the last states of the worker of this name, newest first, one a minute; the worker may be gone.

        They are kept for the App's ``beat_history``. ``Unsupported`` if the store keeps none.

        >>> app.workers.history("web-1-4711-5f2c9d01", limit=60)  # doctest: +SKIP
        """
        if type(limit) is not int or limit < 1:
            raise ConfigurationError([f"limit={limit!r}: use an integer from 1"])
        return [*await self._client().worker_history(name, limit)]

    async def adrain(self, name: str) -> LeaseView:
        """Let one worker take no more jobs, give its running ones the grace, and end; return it as it was when it was asked.

        The beginning of its name is enough while one worker has such a name; its supervisor learns it with its next beat. No other
        worker follows it, and a supervisor whose workers have all been drained ends. ``Unsupported`` if the store cannot pass it on.

        >>> app.workers.drain("web-1-4711")  # doctest: +SKIP
        """
        client = self._client()
        found = [each for each in await client.workers() if each.worker.startswith(name)] if name else []
        chosen = [each for each in found if each.worker == name] or found
        if len(chosen) > 1:
            raise ConfigurationError([f"{name!r}: {', '.join(each.worker for each in chosen)} have such a name: use one of them"])
        if not chosen or not await client.request_drain(chosen[0]):
            raise ConfigurationError([f"no worker has the name {name!r}, or one that begins so: see `holdfast workers list`"])
        return chosen[0]

    list = blocking(alist)
    history = blocking(ahistory)
    drain = blocking(adrain)


class RecoveryRun:
    """``app.recovery``: what every supervisor does by itself, once and by hand."""

    def __init__(
        self, run: Callable[[bool, Collection[str] | None], Awaitable[Sequence[Rescued]]], connect: Callable[[], Client]
    ) -> None:
        self._run, self._connect = run, connect

    @overload
    async def astale(self, by: None = None) -> list[StaleJob]: ...
    @overload
    async def astale(self, by: Literal["task"]) -> dict[str, dict[str, int]]: ...
    async def astale(self, by: Literal["task"] | None = None) -> list[StaleJob] | dict[str, dict[str, int]]:
        """Return the jobs that a recovery would look at now, at most 10,000; change nothing. With ``by="task"``, count them.

        >>> app.recovery.stale(by="task")  # doctest: +SKIP
        {'mail': {'expired': 2, 'ended': 0, 'overdue': 0}}
        """
        if by not in (None, "task"):
            raise ConfigurationError([f"by={by!r}: use 'task', or leave it out"])
        found = await self._connect().ask("stale", stale)
        return [*found] if by is None else by_task(found)

    async def arun_once(self, now: bool = False, *, only: Collection[str] | None = None) -> list[Rescued]:
        """Take jobs from workers that lost their right to them.

        A lease is judged only after watching the store for its ``beat + margin``, because after an outage every lease
        looks expired; ``now`` skips that wait. ``only``: those kinds of ``RecoverySwitches`` and no other, also when they are switched
        off; ``ConfigurationError`` for an unknown one.
        """
        return list(await self._run(now, only))

    run_once = blocking(arun_once)
    stale = blocking(astale)


def _cursor(job: Id) -> UUID:
    try:
        return id_of(job)
    except JobNotFound:
        raise InvalidCursor([f"cursor={job!r}: use the id of the last job of the page before"]) from None


def _ids(jobs: Id | Sequence[Id]) -> tuple[UUID, ...]:
    return (id_of(jobs),) if isinstance(jobs, (UUID, str)) else tuple(id_of(job) for job in jobs)

"""The optional verbs of the store port: a store's own, or a default that stands in for them over the required verbs."""

import inspect
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatView, DueJob, EnqueueAnswer, Purged, SteerAnswer, Vitals
from holdfast._core.audit import AuditNote
from holdfast._core.error_groups import ErrorList, grouped
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import NewJob, State, Token
from holdfast._core.own_connection import require_blocking
from holdfast._core.record import JobRecord, matches
from holdfast._core.requests import IsolatedJobs, JobFilter, Steer, SteerVerb
from holdfast._core.store_notices import StoreNotice
from holdfast._core.workflow import NewFlow
from holdfast._ports.auditing import Auditing
from holdfast._ports.errors import Errors
from holdfast._ports.history import History
from holdfast._ports.limits import Lanes, Limits
from holdfast._ports.noticing import HasNotices
from holdfast._ports.own_connections import OwnConnections
from holdfast._ports.prefetching import Prefetching
from holdfast._ports.steps import Steps
from holdfast._ports.store import (
    CallerTransactions,
    QueueVerbs,
    Republishing,
    RescueHooks,
    Scheduling,
    Selectors,
    Store,
    WorkerHistory,
)
from holdfast._ports.workflows import DependentJobs, FlowReports, FlowTransactions, GrowingWorkflows, Workflows
from holdfast.errors import Unsupported

if TYPE_CHECKING:
    from holdfast._ports.draining import Draining

WAITING = (State.AVAILABLE, State.SCHEDULED, State.BLOCKED)
PAGE = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def offers(store: object, protocol: type[Any]) -> bool:
    """Return whether a store has the verbs of an optional protocol; ``isinstance`` does not see those that a wrapper passes on."""
    return all(hasattr(store, verb) for verb, member in vars(protocol).items() if inspect.isfunction(member) and verb[0] != "_")


async def purge(store: Store, queue: str, limit: int, until: datetime | None = None, *, by: AuditNote | None = None) -> Purged:
    """Delete at most ``limit`` waiting jobs of the queue that were enqueued by ``until``; without ``until``, by now.

    For a store without this verb, list the waiting jobs and delete those that still wait. "Now" is then the time at which the newest
    of them was enqueued.
    """
    if offers(store, QueueVerbs):
        return await cast(QueueVerbs, store).purge(queue, limit, until, **({} if by is None else {"by": by}))
    waiting = await _waiting(store, queue)
    until = until or max((row.created_at for row in waiting), default=_EPOCH)
    doomed = sorted({row.id for row in waiting if row.created_at <= until})[:limit]
    left = await store.delete(doomed, only_waiting=True) if doomed else {}
    return Purged(len(doomed) - len(left), until)


async def steer(store: Store, how: Steer, ids: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None) -> SteerAnswer:
    """Apply an operator's verb to those of the jobs that match the filter.

    For a store without this verb, read each job, and apply the verb to those that match: one that moves in between is not left alone.
    """
    if offers(store, Selectors):
        return await cast(Selectors, store).steer(how, ids, which, **({} if by is None else {"by": by}))
    found = [row for job in ids if (row := await store.get(job)) is not None]
    ageless = structs.replace(which, older_than=None)
    chosen = [row.id for row in found if matches(row, ageless, _EPOCH)]
    match how.verb:
        case SteerVerb.CANCEL:
            states = await store.request_cancel(chosen)
        case SteerVerb.REOPEN:
            states = (await store.reopen(chosen, is_fresh=how.is_fresh)).states
        case SteerVerb.RESCHEDULE:
            states = await store.reschedule(chosen, delay=how.delay, run_at=how.run_at)
        case SteerVerb.DELETE:
            states = await store.delete(chosen)
    left = frozenset(ids) - frozenset(chosen)
    return SteerAnswer({row.id: row.state for row in found if row.id in left} | states, left)


def has_audit(store: Store) -> bool:
    """Return whether the store remembers what operators do."""
    return offers(store, Auditing)


def auditing(store: Store) -> Auditing:
    """Return the verbs for actions of operators. Raises ``Unsupported`` for a store without them."""
    _require(store, Auditing, "record of what operators do")
    return cast(Auditing, store)


def has_minutes(store: Store) -> bool:
    """Return whether the store remembers what workers did in each minute."""
    return offers(store, History)


def history(store: Store) -> History:
    """Return the verbs of the history. Raises ``Unsupported`` for a store without them."""
    _require(store, History, "history of what workers do")
    return cast(History, store)


def draining(store: Store) -> "Draining":
    """Return the verb that drains a worker. Raises ``Unsupported`` for a store without it."""
    from holdfast._ports.draining import Draining  # noqa: PLC0415 - workers need none of it, and it would take memory of each

    _require(store, Draining, "requests to drain a worker")
    return cast(Draining, store)


async def vitals(store: Store) -> Vitals | None:
    """Return how a store is kept, or ``None`` for one that does not answer this."""
    from holdfast._ports.vitals import HasVitals  # noqa: PLC0415 - as above

    return await cast(HasVitals, store).vitals() if offers(store, HasVitals) else None


def selectors(store: Store) -> Selectors:
    """Return the verb for jobs that a filter chose, of a store that has it."""
    return cast(Selectors, store)


def queue_verbs(store: Store) -> QueueVerbs:
    """Return the verbs for whole queues, of a store that has them."""
    return cast(QueueVerbs, store)


async def waiting_tasks(store: Store) -> tuple[str, ...]:
    """Return the tasks that have a waiting job, by name. For a store without this verb, count the jobs of each task."""
    if offers(store, QueueVerbs):
        return await cast(QueueVerbs, store).waiting_tasks()
    return tuple(sorted({task for task, state in await store.counts("task") if state in WAITING}))


async def due(
    store: Store,
    tasks: Sequence[str],
    limit: int,
    *,
    queues: Sequence[str] | None = None,
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
    age: float = 0.0,
) -> tuple[DueJob, ...]:
    """Return the first jobs that a claim would take, to publish them again. A store without this verb returns none: polling finds them."""
    if offers(store, Republishing):
        return await cast(Republishing, store).due(tasks, limit, queues=queues, isolated=isolated, age=age)
    return ()


async def owed_hooks(store: Store, tasks: Sequence[str], limit: int, *, pause: float) -> tuple[JobRecord, ...]:
    """Return jobs that have ended and whose hook is due. A store without this verb returns none: workers refuse hooks on it at start."""
    if offers(store, RescueHooks):
        return await cast(RescueHooks, store).owed_hooks(tasks, limit, pause=pause)
    return ()


def has_hooks(store: Store) -> bool:
    """Return whether tasks with an ``on_rescue`` can run on this store."""
    return store.capabilities.caller_transaction and offers(store, RescueHooks)


def has_schedules(store: Store) -> bool:
    """Return whether the store keeps schedules."""
    return offers(store, Scheduling)


def scheduling(store: Store) -> Scheduling:
    """Return the verbs of schedules. Raises ``Unsupported`` for a store without them."""
    _require(store, Scheduling, "schedules")
    return cast(Scheduling, store)


def lanes(store: Store) -> Lanes:
    """Return the verb that sets how queues are served. Raises ``Unsupported`` for a store without it."""
    _require(store, Lanes, "settings of queues")
    return cast(Lanes, store)


def limits(store: Store) -> Limits:
    """Return the verbs of limits. Raises ``Unsupported`` for a store without them."""
    _require(store, Limits, "limits")
    return cast(Limits, store)


def steps(store: Store) -> Steps:
    """Return the verbs of durable steps and signals. Raises ``Unsupported`` for a store without them."""
    _require(store, Steps, "steps and no signals")
    return cast(Steps, store)


def has_workflows(store: Store) -> bool:
    """Return whether the store keeps workflows."""
    return offers(store, Workflows)


def workflows(store: Store) -> Workflows:
    """Return the verbs of workflows. Raises ``Unsupported`` for a store without them."""
    _require(store, Workflows, "workflows")
    return cast(Workflows, store)


def take_flow_changes(store: Store) -> tuple[FlowChange, ...]:
    """Return which workflows the writes of this store object have ended or paused. A store without this method returns none.

    It is looked for on the class: a wrapper that passes on every name as a verb would return something to be awaited.
    """
    return cast(FlowReports, store).take_flow_changes() if hasattr(type(store), "take_flow_changes") else ()


def take_notices(store: Store) -> tuple[StoreNotice, ...]:
    """Return what this store object has noticed about its store. One without this method, looked for as above, returns none."""
    return cast(HasNotices, store).take_notices() if hasattr(type(store), "take_notices") else ()


def growing_workflows(store: Store) -> GrowingWorkflows:
    """Return the verbs of workflows to which running jobs add members. Raises ``Unsupported`` for a store without them."""
    _require(store, GrowingWorkflows, "workflows that grow while they run")
    return cast(GrowingWorkflows, store)


def dependents(store: Store) -> DependentJobs:
    """Return the verb of jobs that depend on existing ones. Raises ``Unsupported`` for a store without it."""
    _require(store, DependentJobs, "jobs that depend on existing ones")
    return cast(DependentJobs, store)


def has_history(store: Store) -> bool:
    """Return whether the store keeps a history of workers."""
    return offers(store, WorkerHistory)


async def worker_history(store: Store, worker: str, limit: int) -> tuple[BeatView, ...]:
    """Return the last notes on a worker, newest first. Raises ``Unsupported`` for a store that keeps none."""
    if has_history(store):
        return await cast(WorkerHistory, store).worker_history(worker, limit)
    raise Unsupported(
        f"the {store.capabilities.name} store keeps no history of workers: use one that does, such as sqlite:///jobs.db"
    )


async def estimates(store: Store) -> dict[State, int]:
    """Return about how many jobs have finished, by state; nothing of a store that does not know it without counting."""
    from holdfast._ports.estimating import Estimates  # noqa: PLC0415 - workers need none of it

    try:
        return await cast(Estimates, store).estimates() if offers(store, Estimates) else {}
    except Unsupported:  # a broker of an earlier release
        return {}


async def errors(store: Store, look: int, limit: int) -> ErrorList:
    """Return groups of failed jobs. For a store without this verb, list the failed jobs: of these, those enqueued last are looked at."""
    if offers(store, Errors):
        return await cast(Errors, store).errors(look, limit)
    found: list[JobRecord] = []
    which = JobFilter(state=State.FAILED, limit=PAGE)
    while len(found) < look and (page := await store.list(which)):
        found += page
        which = structs.replace(which, before=page[-1].id)
    return grouped(found, look, limit)


def prefetching(store: Store) -> Prefetching:
    """Return the verbs for jobs claimed ahead, for a store that ``prefetches``, or that has them without gaining by them."""
    return cast(Prefetching, store)


def prefetches(store: Store, *, has_few_slots: bool = False) -> bool:
    """Return whether a worker claims jobs ahead on this store. One with few slots gains by it on every store that can."""
    return (store.capabilities.prefetch or has_few_slots) and offers(store, Prefetching)


def enqueue_within(
    store: Store, connection: Any, call: UUID, jobs: Sequence[NewJob]
) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
    """Enqueue inside the transaction of the caller's connection. Raises ``Unsupported`` for a store without this verb."""
    return _transactions(store, "enqueue inside the caller's transaction").enqueue_within(connection, call, jobs)


def enqueue_flow_within(
    store: Store, connection: Any, call: UUID, new: NewFlow
) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
    """Enqueue a workflow inside the transaction of the caller's connection. Raises ``Unsupported`` for a store without this verb."""
    _require(store, FlowTransactions, "workflows that commit with the caller's transaction")
    return cast(FlowTransactions, store).enqueue_flow_within(connection, call, new)


def transaction(
    store: Store, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None, within: Any = None
) -> AbstractAsyncContextManager[Any]:
    """Open a transaction that commits only under the job's token. Raises ``Unsupported`` for a store without this verb.

    ``within``: the user's connection for it; one that is not awaited blocks the loop for the block.
    """
    if within is not None:
        return _awaited(_within(store, within, job, token, idle))
    return _transactions(store, "commit rows together with a job").transaction(job, token, idle=idle, hook_due_at=hook_due_at)


def blocking_transaction(
    store: Store, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None, within: Any = None
) -> AbstractContextManager[Any]:
    """Open the same transaction as ``transaction``, for code that blocks a thread or runs in another process."""
    if within is not None:
        block = _within(store, within, job, token, idle)
        require_blocking(type(within), is_awaited=not isinstance(block, AbstractContextManager))
        return cast(AbstractContextManager[Any], block)
    return _transactions(store, "commit rows together with a job").blocking_transaction(
        job, token, idle=idle, hook_due_at=hook_due_at
    )


@asynccontextmanager
async def _awaited(block: AbstractAsyncContextManager[Any] | AbstractContextManager[Any]) -> AsyncIterator[Any]:
    if isinstance(block, AbstractContextManager):
        with block as connection:
            yield connection
    else:
        async with block as connection:
            yield connection


def _within(
    store: Store, connection: Any, job: UUID, token: Token, idle: float
) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
    able = _transactions(store, "commit rows together with a job")
    if not offers(store, OwnConnections):
        raise Unsupported(
            f"within: the {store.capabilities.name} store takes no connection of yours in job.transaction(): leave out within=, "
            "and use the one that the block gets"
        )
    return cast(OwnConnections, able).transaction_within(connection, job, token, idle=idle)


def _transactions(store: Store, wish: str) -> CallerTransactions:
    able = store.capabilities
    if able.caller_transaction:
        return cast(CallerTransactions, store)
    raise Unsupported(
        f"the {able.name} store cannot {wish}: use a store that keeps jobs in a database, such as sqlite:///jobs.db"
    )


async def _waiting(store: Store, queue: str) -> list[JobRecord]:
    found: list[JobRecord] = []
    for state in WAITING:
        which = JobFilter(state=state, queue=queue, limit=PAGE)
        while page := await store.list(which):
            found += page
            which = structs.replace(which, before=page[-1].id)
    return found


def _require(store: Store, protocol: type[Any], kept: str) -> None:
    """Raise ``Unsupported``, naming what is kept with these verbs, for a store without them."""
    if not offers(store, protocol):
        raise Unsupported(f"the {store.capabilities.name} store keeps no {kept}: use one that does, such as sqlite:///jobs.db")

"""``app.check()``: what an App and the workers of its store visibly lack, all findings at once."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from shlex import quote
from typing import Final
from uuid import UUID

from holdfast._core.answers import Check, LeaseView, QueueView
from holdfast._core.job import State
from holdfast._core.need_words import jobs_wait
from holdfast._core.overview import WAITING
from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.queue_names import sentence, unseen, unserved
from holdfast._core.schedule import ScheduleList, Source, declaration
from holdfast._core.text import names_remedy
from holdfast._core.transport_url import server_of_hints
from holdfast._engine.operators.check_limits import check_limits
from holdfast._engine.rows.rows import Rows
from holdfast._engine.service import Signal
from holdfast._engine.store_defaults import has_schedules, scheduling, waiting_tasks
from holdfast._engine.tasks.registry import Registry
from holdfast._engine.worker.rescue_hooks import problems_of_hooks
from holdfast._engine.worker.startup_checks import problems_of_limits, problems_of_schedules
from holdfast._ports.store import Store
from holdfast._ports.transport import Hint, Transport
from holdfast.errors import ConfigurationError, HoldfastError, StoreDamaged, StoreUnavailable
from holdfast.settings import RecoverySwitches, Settings

HINT_TIMEOUT: Final = 5.0
MOST_LEASES, MOST_JOBS = 100, 1000
FORGOTTEN: Final = timedelta(days=7)
"""The time after which a schedule that no worker declares is reported."""
PAUSE: Final = 0.25
"""Seconds between two hints: the first may be sent before the listener is connected."""


async def check(store: Store, settings: Settings, registry: Registry) -> tuple[Check, ...]:
    """Check the settings, the tasks, the store and its workers; a store that cannot be reached is one finding.

    Of a store that a worker has yet to make or to migrate it reads nothing more: that would do it.
    """
    own = _of_app(settings, registry, store)
    try:
        found = await store.check()
        if any(each.level == "error" or (each.name == "schema" and each.level == "warning") for each in found):
            return (*own, *found)
        alive = [worker for worker in await store.workers() if worker.end is None and worker.overdue < 0]
        waiting, queues = await _waiting(store, alive), await store.queues(MOST_COUNTED)
        left = [finding async for finding in _of_recovery(store, settings.recovery)]
        schedules = await scheduling(store).schedules() if has_schedules(store) else None
        limits = await check_limits(store, registry, alive, queues)
    except HoldfastError as error:
        return (*own, Check("error", "store", str(error), _remedy_of(error)))
    of_jobs = (_of_workers(alive, waiting), *_of_tasks(alive, waiting, registry), *_of_queues(queues))
    of_jobs += (*_of_unserved_queues(alive, queues), *_of_unseen_queues(alive, queues, registry))
    return (*own, *found, *of_jobs, *limits, *left, *_of_schedules(schedules, alive))


def _remedy_of(error: HoldfastError) -> str:
    """Return what to do about a store that could not be read; empty if the message names it."""
    match error:
        case StoreDamaged():
            return "restore a backup"
        case StoreUnavailable() if not names_remedy(str(error)):
            return "check that the store is running and reachable"
        case _:
            return ""


async def check_transport(open_one: Callable[[Settings], Transport], settings: Settings, mark: UUID) -> tuple[Check, ...]:
    """Check the server that carries hints, if one does. ``mark``: the id of no job, known to this check alone."""
    name = server_of_hints(settings.url, settings.transport, settings.pooler)
    return (await check_hints(lambda: open_one(settings), name, mark),) if name else ()


async def check_hints(open_one: Callable[[], Transport], name: str, mark: UUID, *, timeout: float = HINT_TIMEOUT) -> Check:
    """Return whether a hint of one connection reaches another. ``mark``: the id of no job, known to this check alone."""
    listener, sender, wake = open_one(), open_one(), Signal()
    try:
        await listener.subscribe(lambda hint: wake.set() if mark in hint.ids else None)
        for _ in range(round(timeout / PAUSE)):
            await sender.publish([Hint(ids=(mark,))])
            if await wake.wait(PAUSE):
                return await _of_deliveries(listener, name)
    finally:
        await sender.close()
        await listener.close()
    message = f"no hint arrives by {name} within {timeout:g} s: workers find work by polling only"
    pooled = "; behind PgBouncer use ?pooler=transaction" if name.startswith("LISTEN") else ""
    remedy = f"check that its server is running and lets this user in{pooled}; or use transport='poll'"
    return Check("error", "transport", message, remedy)


async def _of_deliveries(transport: Transport, name: str) -> Check:
    """Return what is found where hints arrive: also jobs may have to be handed out."""
    problem = "" if transport.deliveries is None else await transport.deliveries.problem()
    if problem:
        return Check("error", "transport", f"{name} delivers no jobs, and workers poll instead: {problem}")  # it names its remedy
    return Check("ok", "transport", f"hints arrive by {name}")


async def check_rows(watches: Iterable[Rows]) -> tuple[Check, ...]:
    """Check the tables that are watched over; one whose database cannot be reached is one finding."""
    return tuple([finding for each in watches async for finding in _of_rows(each)])


async def _of_rows(rows: Rows) -> AsyncIterator[Check]:
    if not rows.has_handler:
        remedy = "decorate a function of a batch with its .handler"
        yield Check(
            "warning",
            "rows",
            f"{rows.name}: it has no handler, so no worker finishes its rows and no supervisor watches over it",
            remedy,
        )
    try:
        found = await rows.ainspect()
    except HoldfastError as error:
        remedy = "" if isinstance(error, ConfigurationError) else "check that its database is running and reachable"
        yield Check("error", "rows", f"{rows.name}: {error}", remedy)
        return
    for problem in found.problems:
        yield Check("error", "rows", f"{rows.name}: {problem}")  # a problem names its own remedy
    for warning in found.warnings:
        yield Check("warning", "rows", f"{rows.name}: {warning}")
    for index in found.indexes:
        remedy = found.by_hand or f"`holdfast rows indexes {quote(rows.name)} --create`"
        yield Check(
            "warning", "rows", f"{rows.name}: each look for due or stuck rows reads more than it must without: {index}", remedy
        )
    if not found.problems:
        yield Check("ok", "rows", f"{rows.name}: its table fits")


def _of_app(settings: Settings, registry: Registry, store: Store) -> tuple[Check, ...]:
    warnings = [Check("warning", "settings", text, "raise ttl or lower beat") for text in settings.timing.warnings()]
    problems = [*registry.problems(settings.timing), *problems_of_hooks(registry, store)]
    problems += [*problems_of_schedules(registry, store), *problems_of_limits(registry, store)]
    return (*warnings, *(Check("error", "tasks", problem) for problem in problems))  # a problem names its own remedy


def _of_workers(alive: Sequence[LeaseView], waiting: Collection[str]) -> Check:
    if alive:
        return Check("ok", "workers", f"{len(alive)} alive: {', '.join(worker.worker for worker in alive)}")
    if waiting:
        return Check("warning", "workers", "jobs wait, and no worker is alive", "start one: `holdfast worker module:app`")
    return Check("ok", "workers", "none is alive, and no job waits for one")


async def _waiting(store: Store, alive: Sequence[LeaseView]) -> dict[str, int | None]:
    """Return the tasks of which jobs wait; of those that no live worker knows, how many."""
    tasks = await waiting_tasks(store)
    known = {task for worker in alive for task in worker.tasks}
    if known.issuperset(tasks):
        return dict.fromkeys(tasks)
    counts = await store.counts("task", 1)
    return {task: None if task in known else sum(counts.get((task, state), 0) for state in WAITING) for task in tasks}


def _of_tasks(alive: Sequence[LeaseView], waiting: Mapping[str, int | None], registry: Registry) -> Iterator[Check]:
    known = {task for worker in alive for task in worker.tasks}
    for task, number in waiting.items():
        is_ours = registry.get(task) is not None
        if alive and task not in known:
            code = f"imports the code of {task}, or a newer release of it" if is_ours else "has its code"
            remedy = f"start a worker that {code}"
            yield Check("warning", "tasks", f"{jobs_wait(task, number)}, and no live worker knows the task", remedy)
        elif not alive and not is_ours and registry.names():
            message = f"{jobs_wait(task, number)}, and this App has no such task"
            yield Check("warning", "tasks", message, "start a worker that has its code")


def _of_queues(queues: Sequence[QueueView]) -> Iterator[Check]:
    for queue in queues:
        if queue.paused_at is not None:
            count = sum(queue.counts.get(state, 0) for state in (State.AVAILABLE, State.SCHEDULED))
            message = f"{queue.name} is paused since {queue.paused_at:%Y-%m-%d %H:%M:%S} UTC; waiting jobs: {count}"
            yield Check("warning", "queues", message, f"`holdfast queues resume {quote(queue.name)}`")


def _of_unserved_queues(alive: Sequence[LeaseView], queues: Sequence[QueueView]) -> Iterator[Check]:
    for queue in unserved(queues, alive):
        message = f"{queue.counts[State.AVAILABLE]} due in {queue.name}, and no live worker serves this queue"
        yield Check("warning", "queues", message, f"start one: `holdfast worker module:app --queues {quote(queue.name)}`")


def _of_unseen_queues(alive: Sequence[LeaseView], queues: Sequence[QueueView], registry: Registry) -> Iterator[Check]:
    known = {queue.name for queue in queues} | set(registry.declared().named)
    served = dict.fromkeys(queue for worker in alive for queue in worker.queues)
    for queue, nearest in unseen(served, known).items():
        workers = ", ".join(worker.worker for worker in alive if queue in worker.queues)
        remedy = f"if it is misspelt, correct --queues of {workers}"
        yield Check("warning", "queues", sentence(queue, nearest), remedy)


async def _of_recovery(store: Store, switches: RecoverySwitches) -> AsyncIterator[Check]:
    if not switches.off:
        return
    ended = [lease.id for lease in await store.expired(MOST_LEASES) if lease.end is not None]
    left = Counter([job.state.value for lease in ended for job in await store.held(lease, MOST_JOBS)])
    for kind in switches.off:
        count = f"; jobs left by workers that ended: {left[kind]}" if kind in ("claimed", "running") else ""
        what = kind if kind == "workflows" else f"{kind} jobs"
        message = f"App(recovery=…) switches the recovery of {what} off{count}"
        yield Check("warning", "recovery", message, f"`holdfast recover module:app --only {kind}` recovers them once, by hand")


def _of_schedules(schedules: ScheduleList | None, alive: Sequence[LeaseView]) -> Iterator[Check]:
    if schedules is None:
        return
    living = {each for worker in alive for each in worker.declares}
    for each in schedules.found:
        plan, name = each.plan, each.name
        since = plan.declared_at
        is_declared = declaration(name, plan.definition.digest) in living
        if plan.source is Source.CODE and not is_declared and since is not None and schedules.now - since > FORGOTTEN:
            message = f"{name}: it goes on, and no worker has declared it in its code since {since:%Y-%m-%d}"
            remedy = f"`holdfast schedules remove {quote(name)}`, or start a worker that has its code"
            yield Check("warning", "schedules", message, remedy)
        if each.paused_at is not None:
            message = f"{name} is paused since {each.paused_at:%Y-%m-%d %H:%M:%S} UTC"
            yield Check("warning", "schedules", message, f"`holdfast schedules resume {quote(name)}`")

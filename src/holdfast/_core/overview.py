"""What a store shows at one moment, and what an operator should do about it. Nothing here decides about jobs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from shlex import quote

from msgspec import Struct

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.audit import AuditEntry
from holdfast._core.durations import in_words
from holdfast._core.error_groups import ErrorList
from holdfast._core.job import RescueReason, State
from holdfast._core.limits import LimitView, Scope, ScopeKind
from holdfast._core.pauses import paused_by
from holdfast._core.queue_names import unserved
from holdfast._core.schedule import ScheduleView
from holdfast._core.story_words import counted
from holdfast._core.view import JobView

LATE = 60.0
"""Seconds by which a schedule may be late: supervisors look for ticks more often."""
NEW_ERROR = 3600.0
"""Seconds for which an error counts as new, from its first failed job."""
LOOK_AT_FAILED = 1_000
"""The failed jobs in which new errors are looked for: the newest ones."""
LOOK_FOR_RESCUED = 10_000
"""The newest jobs, among which finished ones are looked for that were once taken from a worker."""
MOST_NAMED = 3
"""The most names that a sentence has; it counts the others."""
MOST_RUNNING = MOST_HELD = MOST_RESCUED = 100
FULL_FOR = 60.0
"""Seconds for which jobs hold a full limit before it is named: one whose slots change hands does what it is for."""
RECENT_RESCUE = 900.0
"""Seconds for which a worker that lost jobs is named."""
LOST = {
    RescueReason.CRASHED: "its process died",
    RescueReason.EXPIRED: "no beat came before the lease ran out, so it is dead, frozen or cut off. Late writes are refused",
    RescueReason.UNRESPONSIVE: "it no longer answered its supervisor",
    RescueReason.STALLED: "they reported no progress",
    RescueReason.TIMED_OUT: "they passed their timeout",
}
"""Why a worker lost jobs. A worker that is closed, or that returns them, does not lose them."""
WAITING = (State.SCHEDULED, State.AVAILABLE)


class NeedKind(StrEnum):
    """What an operator should look at."""

    NO_WORKER = "no_worker"
    SILENT_WORKER = "silent_worker"
    LOST_WORKER = "lost_worker"
    UNSERVED_QUEUE = "unserved_queue"
    NEW_ERROR = "new_error"
    UNKNOWN_TASK = "unknown_task"
    HELD = "held"
    PAUSED_QUEUE = "paused_queue"
    LIMIT_HELD = "limit_held"
    FULL_LIMIT = "full_limit"
    LATE_SCHEDULE = "late_schedule"


class Need(Struct, frozen=True):
    """One thing to look at. ``text``: a sentence. ``step``: what to do. ``subject``: the queue, task, limit, schedule or worker."""

    kind: NeedKind
    text: str
    step: str
    subject: str = ""


class Overview(Struct, frozen=True, kw_only=True):
    """What a store shows at one moment.

    ``needs``: what an operator should look at. ``running``: at most ``MOST_RUNNING`` jobs, newest first. ``held``: at most ``MOST_HELD``.
    ``waiting_tasks``: the tasks that have a job in line. ``limits``, ``schedules``: empty if the store has none. ``errors``: of the newest
    ``LOOK_AT_FAILED`` failed jobs, without messages. ``rescued``: at most ``MOST_RESCUED`` jobs that were once taken from a worker, all
    that have not finished, and others among the newest ``LOOK_FOR_RESCUED`` jobs. ``pauses``: what is recorded of pauses of queues,
    newest first.
    """

    at: datetime
    needs: Sequence[Need] = ()
    workers: Sequence[LeaseView] = ()
    queues: Sequence[QueueView] = ()
    running: Sequence[JobView] = ()
    held: Sequence[JobView] = ()
    waiting_tasks: Sequence[str] = ()
    limits: Sequence[LimitView] = ()
    schedules: Sequence[ScheduleView] = ()
    errors: ErrorList = ErrorList()
    rescued: Sequence[JobView] = ()
    pauses: Sequence[AuditEntry] = ()


def needs_of(seen: Overview) -> tuple[Need, ...]:
    """Return what needs an operator, the most urgent first; nothing if all is well."""
    live = [worker for worker in seen.workers if worker.overdue <= 0 and worker.end is None]
    silent = [worker for worker in seen.workers if worker.overdue > worker.timing.ttl]
    return (
        *_without_worker(seen, live),
        *(_silent(worker) for worker in silent),
        *_lost(seen),
        *_unserved(seen, live),
        *_new_errors(seen),
        *_unknown(seen, live),
        *_held(seen),
        *_paused(seen),
        *_limits(seen, {worker.worker for worker in live}),
        *_late(seen),
    )


def _without_worker(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    waiting = sum(map(_in_line, seen.queues))
    if waiting and not live:
        text = f"No worker is alive, and {counted(waiting, 'job')} {_wait(waiting)}."
        yield Need(NeedKind.NO_WORKER, text, "start one: holdfast worker MODULE:APP")


def _silent(worker: LeaseView) -> Need:
    since = in_words(worker.overdue + worker.timing.ttl)
    jobs = f"{counted(worker.holds, 'job').capitalize()} of it {_wait(worker.holds)} to be taken back"
    has = jobs if worker.holds else "It has no job"
    text = f"The worker {worker.worker} has sent no beat for {since}, so it is dead, frozen or cut off. {has}."
    return Need(NeedKind.SILENT_WORKER, text, "start a worker, or run: holdfast recover MODULE:APP", worker.worker)


def _lost(seen: Overview) -> Iterator[Need]:
    """Yield each machine that jobs were taken from, and why; the one with the most jobs first."""
    found: dict[tuple[str, RescueReason], list[JobView]] = {}
    for job in seen.rescued:
        is_recent = job.rescued_at is not None and (seen.at - job.rescued_at).total_seconds() <= RECENT_RESCUE
        if is_recent and job.rescued in LOST and job.rescued_from is not None:
            found.setdefault((machine_of(job.rescued_from), job.rescued), []).append(job)
    for (machine, reason), jobs in sorted(found.items(), key=lambda each: -len(each[1]))[:MOST_NAMED]:
        workers = sorted({job.rescued_from for job in jobs if job.rescued_from is not None})
        ago = min((seen.at - job.rescued_at).total_seconds() for job in jobs if job.rescued_at is not None)
        many = f"{counted(len(jobs), 'job').capitalize()} ({_named(Counter(job.task for job in jobs))})"
        whose = workers[0] if len(workers) == 1 else f"{counted(len(workers), 'worker')} of {machine}"
        text = f"{many} {_were(len(jobs))} taken from {whose} {in_words(max(ago, 0.0))} ago: {LOST[reason]}."
        now = ", ".join(f"{count} {state}" for state, count in Counter(job.state.value for job in jobs).most_common())
        step = f"look at the machine {machine}; the jobs, now {now}: holdfast jobs list --rescued"
        yield Need(NeedKind.LOST_WORKER, text, step, machine)


def _unserved(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    for queue in unserved(seen.queues, live):
        number = queue.counts[State.AVAILABLE]
        text = f"No live worker serves the queue {queue.name}, and {counted(number, 'job')} {_wait(number)}."
        step = f"start one: holdfast worker MODULE:APP --queues {quote(queue.name)}"
        yield Need(NeedKind.UNSERVED_QUEUE, text, step, queue.name)


def machine_of(worker: str) -> str:
    """Return the machine in a worker's name.

    >>> machine_of("web-2-1207-9a31f00b"), machine_of("mine")
    ('web-2', 'mine')
    """
    return worker.rsplit("-", 2)[0]


def _new_errors(seen: Overview) -> Iterator[Need]:
    new = [group for group in seen.errors.groups if group.key and (seen.at - group.first_at).total_seconds() <= NEW_ERROR]
    for group in sorted(new, key=lambda group: -group.count)[:MOST_NAMED]:
        since, where = (
            in_words(max((seen.at - group.first_at).total_seconds(), 0.0)),
            f", at {group.where}" if group.where else "",
        )
        more = "at least " if seen.errors.looked_at >= LOOK_AT_FAILED else ""
        many = more + counted(group.count, "job")
        text = f"A new error: {many} of {group.task} failed with {group.type} in the last {since}{where}."
        step = f"look: holdfast errors show {group.key}; when it is mended: holdfast errors retry {group.key}"
        yield Need(NeedKind.NEW_ERROR, text, step, group.key)


def _unknown(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    known = {task for worker in live for task in worker.tasks}
    if live:
        for task in seen.waiting_tasks:
            if task not in known:
                text = f"Jobs of {task} wait, and no live worker knows that task."
                step = f"start a worker whose code has it; its jobs: holdfast jobs list --task {quote(task)}"
                yield Need(NeedKind.UNKNOWN_TASK, text, step, task)


def _held(seen: Overview) -> Iterator[Need]:
    if seen.held:
        more = "at least " if len(seen.held) >= MOST_HELD else ""
        number = len(seen.held)
        tasks = _named(Counter(job.task for job in seen.held))
        text = f"{(more + counted(number, 'job')).capitalize()} ({tasks}) {'is' if number == 1 else 'are'} held until you decide."
        yield Need(NeedKind.HELD, text, "look, then retry or cancel: holdfast jobs list --state held")


def _paused(seen: Overview) -> Iterator[Need]:
    for queue in seen.queues:
        if queue.paused_at is not None and (waiting := _in_line(queue)):
            since = in_words((seen.at - queue.paused_at).total_seconds())
            by = paused_by(queue.name, seen.pauses)
            text = f"The queue {queue.name} has been paused{by} for {since}, and {counted(waiting, 'job')} {_wait(waiting)}."
            first = "when that is over" if "(" in by else "ask why, then"
            yield Need(NeedKind.PAUSED_QUEUE, text, f"{first}: holdfast queues resume {quote(queue.name)}", queue.name)


def _limits(seen: Overview, live: set[str]) -> Iterator[Need]:
    for limit in seen.limits:
        if limit.limit.concurrency is None or limit.active < limit.limit.concurrency:
            continue
        scope = "The limit of the cluster" if limit.scope.kind is ScopeKind.ALL else f"The limit of {limit.scope.name}"
        if lost := [holder for holder in limit.holders if holder.worker not in live]:
            workers = _named(Counter(holder.worker for holder in lost))
            slots = f"{counted(len(lost), 'slot')} of {limit.active}"
            text = f"{scope} is full, and {slots} {_belong(len(lost))} to silent workers ({workers})."
            step = "start a worker, which frees them, or run: holdfast recover MODULE:APP"
            yield Need(NeedKind.LIMIT_HELD, text, step, limit.scope.name)
        elif (held := min((holder.held for holder in limit.holders), default=0.0)) >= FULL_FOR and _waits_for(limit.scope, seen):
            text = f"{scope} is full, and jobs wait: {counted(limit.active, 'job')} {_have(limit.active)} held it for {in_words(held)}."
            step = "look at these jobs: holdfast limits list; then wait, cancel them or allow more"
            yield Need(NeedKind.FULL_LIMIT, text, step, limit.scope.name)


def _waits_for(scope: Scope, seen: Overview) -> bool:
    """Return whether a job waits that a limit counts: one that is due, of a queue that is not paused."""
    if scope.kind is ScopeKind.TASK and scope.name not in seen.waiting_tasks:
        return False
    is_queue = scope.kind is ScopeKind.QUEUE
    queues = [queue for queue in seen.queues if queue.paused_at is None and (not is_queue or queue.name == scope.name)]
    return any(queue.counts.get(State.AVAILABLE, 0) for queue in queues)


def _late(seen: Overview) -> Iterator[Need]:
    for schedule in seen.schedules:
        late = (seen.at - schedule.next[0]).total_seconds() if schedule.next else 0.0
        if late > LATE:
            text = f"The schedule {schedule.name} is {in_words(late)} late: no supervisor has advanced it."
            yield Need(NeedKind.LATE_SCHEDULE, text, "start a worker: holdfast worker MODULE:APP", schedule.name)


def _in_line(queue: QueueView) -> int:
    return sum(queue.counts.get(state, 0) for state in WAITING)


def _named(names: Counter[str]) -> str:
    first = [name for name, _ in names.most_common(MOST_NAMED)]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _wait(number: int) -> str:
    return "waits" if number == 1 else "wait"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _belong(number: int) -> str:
    return "belongs" if number == 1 else "belong"

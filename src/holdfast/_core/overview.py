"""What a store shows at one moment, and what an operator should do about it. Nothing here decides about jobs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from shlex import quote
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.audit import AuditEntry
from holdfast._core.durations import in_words
from holdfast._core.error_groups import ErrorList
from holdfast._core.job import RescueReason, State
from holdfast._core.limit_causes import is_full
from holdfast._core.limits import LimitView, Scope, ScopeKind
from holdfast._core.need_words import MOST_NAMED, fate_of, holder_words, machine_of, named, process_of, relief_of, wait
from holdfast._core.pauses import pause_of, paused_by
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
MOST_RUNNING = MOST_HELD = MOST_RESCUED = 100
FULL_FOR = 60.0
"""Seconds for which jobs hold a full limit before it is named: one whose slots change hands does what it is for."""
RECENT_RESCUE = 900.0
"""Seconds for which a worker that lost jobs is named."""
AFTER_RELEASE = 600.0
"""Seconds from the start of all workers in which an error is put down to their release."""
LOST = {
    RescueReason.CRASHED: "its process died",
    RescueReason.EXPIRED: "it sent no beat, so it is dead, frozen or cut off. What it still writes is refused",
    RescueReason.UNRESPONSIVE: "it no longer answered its supervisor",
    RescueReason.STALLED: "they reported no progress",
    RescueReason.TIMED_OUT: "they passed their timeout",
}
"""Why a worker lost jobs. A worker that is closed, or that returns them, does not lose them."""
WAITING = (State.SCHEDULED, State.AVAILABLE)
_FATE = "see what became of its jobs: holdfast jobs list --rescued"


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
    newest first. ``answered_late``: those of the rescued jobs whose lost worker answered after all. ``waiting``: of some tasks that an
    operator should look at, how many jobs are in line. ``holders``: of limits that are full for long, the job that has held each longest,
    if it is not one of ``running``.
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
    answered_late: frozenset[UUID] = frozenset()
    waiting: Mapping[str, int] = {}
    holders: Sequence[JobView] = ()


def needs_of(seen: Overview) -> tuple[Need, ...]:
    """Return what needs an operator, the most urgent first; nothing if all is well."""
    live = _living(seen.workers)
    silent = [worker for worker in seen.workers if worker.overdue > worker.timing.ttl]
    return (
        *_without_worker(seen, live),
        *(_silent(worker) for worker in silent),
        *_lost(seen, {machine_of(worker.worker) for worker in live}),
        *_unserved(seen, live),
        *_new_errors(seen, live),
        *_unknown(seen, live),
        *_held(seen),
        *_paused(seen),
        *_limits(seen, {worker.worker for worker in live}),
        *_late(seen),
    )


def _without_worker(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    waiting = sum(map(_in_line, seen.queues))
    if waiting and not live:
        text = f"No worker is alive, and {counted(waiting, 'job')} {wait(waiting)}."
        yield Need(NeedKind.NO_WORKER, text, "start one: holdfast worker MODULE:APP")


def _silent(worker: LeaseView) -> Need:
    since = in_words(worker.overdue + worker.timing.ttl)
    jobs = f"{counted(worker.holds, 'job').capitalize()} of it {wait(worker.holds)} to be taken back"
    has = jobs if worker.holds else "It has no job"
    text = f"The worker {worker.worker} has sent no beat for {since}, so it is dead, frozen or cut off. {has}."
    return Need(NeedKind.SILENT_WORKER, text, "start a worker, or run: holdfast recover MODULE:APP", worker.worker)


def _lost(seen: Overview, alive: set[str]) -> Iterator[Need]:
    """Yield each machine that jobs were taken from, and why; the one with the most jobs first."""
    found: dict[tuple[str, RescueReason], list[JobView]] = {}
    for job in recently_lost(seen.rescued, seen.at):
        found.setdefault((machine_of(job.rescued_from or ""), job.rescued or RescueReason.EXPIRED), []).append(job)
    for (machine, reason), jobs in sorted(found.items(), key=lambda each: -len(each[1]))[:MOST_NAMED]:
        workers = sorted({job.rescued_from for job in jobs if job.rescued_from is not None})
        ago = in_words(max(min((seen.at - job.rescued_at).total_seconds() for job in jobs if job.rescued_at is not None), 0.0))
        tasks = f"({named(Counter(job.task for job in jobs))})"
        whose = workers[0] if len(workers) == 1 else f"{counted(len(workers), 'worker')} of {machine}"
        many = f"{counted(len(jobs), 'job').capitalize()} {tasks} {_were(len(jobs))} taken from"
        back = f"{many} {'it' if len(workers) == 1 else 'them'} {ago} ago. {fate_of(jobs)}"
        step = f"look at the machine {machine}; {_FATE}"
        late = [job for job in jobs if job.id in seen.answered_late]
        if reason is not RescueReason.EXPIRED:
            text = f"{many} {whose} {ago} ago: {LOST[reason]}. {fate_of(jobs)}"
        elif late:
            text, step = _thawed(late[0], back)
        elif machine not in alive:
            text = f"The machine {machine} has no live worker any more: {whose} sent no beat. {back} {_twice(machine, jobs)}"
            step = f"see whether {machine} runs, and start workers there or elsewhere: holdfast worker MODULE:APP; {_FATE}"
        else:
            text = f"{many} {whose} {ago} ago: {LOST[reason]}. {fate_of(jobs)}"
            step = f"{process_of(workers[0])}{_FATE}"
        yield Need(NeedKind.LOST_WORKER, text, step, machine)


def _twice(machine: str, jobs: Sequence[JobView]) -> str:
    """Return whether jobs may run on a lost machine, too. A worker that is cut off ends their code before they may be taken from it."""
    runs = "It does not run twice" if len(jobs) == 1 else "None of them runs twice"
    return f"{runs} at once unless {machine} was frozen and goes on; the store then refuses its results."


def recently_lost(rescued: Sequence[JobView], now: datetime) -> list[JobView]:
    """Return the jobs that their workers lost a short while ago."""
    recent = (job for job in rescued if job.rescued_at and (now - job.rescued_at).total_seconds() <= RECENT_RESCUE)
    return [job for job in recent if job.rescued in LOST and job.rescued_from is not None]


def _thawed(job: JobView, back: str) -> tuple[str, str]:
    """Return what to read and to do after a worker that was frozen or cut off has answered."""
    worker = job.rescued_from or ""
    cause = f"the worker {worker} was frozen or cut off, and its late result was refused"
    text = f"The code of {job.task} may have run twice: {cause}. {back}"
    compare = (
        f"see when each run began and ended, and check what it did outside of Holdfast: holdfast jobs show {str(job.id)[-6:]}"
    )
    return text, f"{compare}; {process_of(worker)}{_FATE}"


def _unserved(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    for queue in unserved(seen.queues, live):
        number = queue.counts[State.AVAILABLE]
        text = f"No live worker serves the queue {queue.name}, and {counted(number, 'job')} {wait(number)}."
        step = f"start one: holdfast worker MODULE:APP --queues {quote(queue.name)}"
        yield Need(NeedKind.UNSERVED_QUEUE, text, step, queue.name)


def _new_errors(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    new = [group for group in seen.errors.groups if group.key and (seen.at - group.first_at).total_seconds() <= NEW_ERROR]
    for group in sorted(new, key=lambda group: -group.count)[:MOST_NAMED]:
        seconds = max((seen.at - group.first_at).total_seconds(), 0.0)
        where = f", at {group.where}" if group.where else ""
        more = "at least " if seen.errors.looked_at >= LOOK_AT_FAILED else ""
        many = more + counted(group.count, "job")
        text = f"A new error: {many} of {group.task} failed with {group.type} in the last {in_words(seconds)}{where}."
        show, retry = f"see its messages: holdfast errors show {group.key}", f"holdfast errors retry {group.key}"
        gap = max((worker.age for worker in live), default=0.0) - seconds
        if live and 0 <= gap <= AFTER_RELEASE:
            text += f" It began {in_words(gap)} after the workers were started, so a release may have brought it."
            step = f"{show}; go back to the release before, or fix it, then run those jobs again: {retry}"
        else:
            step = f"{show}; when it is fixed, run those jobs again: {retry}"
        yield Need(NeedKind.NEW_ERROR, text, step, group.key)


def _unknown(seen: Overview, live: Sequence[LeaseView]) -> Iterator[Need]:
    known = {task for worker in live for task in worker.tasks}
    if live:
        for task in seen.waiting_tasks:
            if task not in known:
                number = seen.waiting.get(task, 0)
                jobs = f"{counted(number, 'job')} of it {wait(number)}" if number else "jobs of it wait"
                text = f"No live worker knows the task {task}, and {jobs}."
                start = "start a worker of the release that has it: holdfast worker MODULE:APP"
                step = f"{start}; or, if no release has it any more, end its jobs for good: holdfast jobs cancel --task {quote(task)}"
                yield Need(NeedKind.UNKNOWN_TASK, text, step, task)


def _held(seen: Overview) -> Iterator[Need]:
    if seen.held:
        more = "at least " if len(seen.held) >= MOST_HELD else ""
        number = len(seen.held)
        tasks = named(Counter(job.task for job in seen.held))
        text = f"{(more + counted(number, 'job')).capitalize()} ({tasks}) {'is' if number == 1 else 'are'} held until you decide."
        yield Need(NeedKind.HELD, text, "look, then retry or cancel: holdfast jobs list --state held")


def _paused(seen: Overview) -> Iterator[Need]:
    for queue in seen.queues:
        if queue.paused_at is not None and (waiting := _in_line(queue)):
            since = in_words((seen.at - queue.paused_at).total_seconds())
            by, found = paused_by(queue.name, seen.pauses), pause_of(queue.name, seen.pauses)
            text = f"The queue {queue.name} has been paused{by} for {since}, and {counted(waiting, 'job')} {wait(waiting)}."
            whom = f"ask {found.who}" if found else "ask"
            first = "when that is over" if found and found.reason else f"{whom} why, and when that is over"
            step = f"{first}, let its jobs start again: holdfast queues resume {quote(queue.name)}"
            yield Need(NeedKind.PAUSED_QUEUE, text, step, queue.name)


def _limits(seen: Overview, live: set[str]) -> Iterator[Need]:
    for limit in seen.limits:
        if not is_full(limit):
            continue
        kind = limit.scope.kind
        whose = "cluster" if kind is ScopeKind.ALL else f"{kind} {limit.scope.name}"
        scope = f"The limit of the {whose}, {limit.limit.concurrency} at once,"
        if lost := [holder for holder in limit.holders if holder.worker not in live]:
            workers = named(Counter(holder.worker for holder in lost))
            slots = f"{counted(len(lost), 'slot')} of {limit.active}"
            text = f"{scope} is full, and {slots} {_belong(len(lost))} to silent workers ({workers})."
            step = "start a worker, which frees them, or run: holdfast recover MODULE:APP"
            yield Need(NeedKind.LIMIT_HELD, text, step, limit.scope.name)
        elif is_long_full(limit) and _waits_for(limit.scope, seen):
            held = in_words(min(holder.held for holder in limit.holders))
            jobs = f"{counted(limit.active, 'job')} {_have(limit.active)} held it for {held}"
            known = {job.id: job for job in (*seen.running, *seen.holders)}
            text = (
                f"{scope} is full: {jobs}, and {_behind(limit.scope, seen)}. {holder_words(limit, known, seen.workers, seen.at)}"
            )
            yield Need(NeedKind.FULL_LIMIT, text, relief_of(limit, known, seen.at), limit.scope.name)


def is_long_full(limit: LimitView) -> bool:
    """Return whether all slots of a limit are taken by jobs that have held them for a while."""
    return is_full(limit) and min((holder.held for holder in limit.holders), default=0.0) >= FULL_FOR


def tasks_to_count(waiting: Sequence[str], workers: Sequence[LeaseView], limits: Sequence[LimitView]) -> frozenset[str]:
    """Return the tasks of which an overview names how many jobs wait: those that no live worker knows, and those of full limits."""
    live = _living(workers)
    known = {task for worker in live for task in worker.tasks}
    full = {limit.scope.name for limit in limits if limit.scope.kind is ScopeKind.TASK and is_long_full(limit)}
    return frozenset(task for task in waiting if (live and task not in known) or task in full)


def _living(workers: Sequence[LeaseView]) -> list[LeaseView]:
    return [worker for worker in workers if worker.overdue <= 0 and worker.end is None]


def _behind(scope: Scope, seen: Overview) -> str:
    """Return how many jobs wait for a slot of a full limit, if that is known."""
    number = sum(queue.counts.get(State.AVAILABLE, 0) for queue in _open_queues(scope, seen))
    if scope.kind is ScopeKind.TASK:
        number = seen.waiting.get(scope.name, 0)
    return f"{counted(number, 'job')} {wait(number)} for a slot" if number else "others wait for a slot"


def _open_queues(scope: Scope, seen: Overview) -> list[QueueView]:
    is_queue = scope.kind is ScopeKind.QUEUE
    return [queue for queue in seen.queues if queue.paused_at is None and (not is_queue or queue.name == scope.name)]


def _waits_for(scope: Scope, seen: Overview) -> bool:
    """Return whether a job waits that a limit counts: one that is due, of a queue that is not paused."""
    if scope.kind is ScopeKind.TASK and scope.name not in seen.waiting_tasks:
        return False
    return any(queue.counts.get(State.AVAILABLE, 0) for queue in _open_queues(scope, seen))


def _late(seen: Overview) -> Iterator[Need]:
    for schedule in seen.schedules:
        late = (seen.at - schedule.next[0]).total_seconds() if schedule.next else 0.0
        if late > LATE:
            text = f"The schedule {schedule.name} is {in_words(late)} late: no supervisor has advanced it."
            yield Need(NeedKind.LATE_SCHEDULE, text, "start a worker: holdfast worker MODULE:APP", schedule.name)


def _in_line(queue: QueueView) -> int:
    return sum(queue.counts.get(state, 0) for state in WAITING)


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _belong(number: int) -> str:
    return "belongs" if number == 1 else "belong"

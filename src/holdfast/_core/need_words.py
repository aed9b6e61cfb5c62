"""Sentences about what an overview calls for: what became of rescued jobs, and whether the job that holds a full limit still works."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

from holdfast._core.answers import LeaseView
from holdfast._core.durations import in_words
from holdfast._core.job import ACTIVE, State
from holdfast._core.limit_causes import command
from holdfast._core.limits import Holder, LimitView
from holdfast._core.phrases import percent
from holdfast._core.story_words import counted
from holdfast._core.view import JobView

MOST_NAMED = 3
"""The most names that a sentence has; it counts the others."""
WORKS = 60.0
"""Seconds since its last progress for which a job counts as one that works: longer ones may be stuck."""
_FATES = {
    State.RUNNING: ("runs again", "run again"),
    State.CLAIMED: ("is about to run again", "are about to run again"),
    State.AVAILABLE: ("waits for a free worker", "wait for a free worker"),
    State.SCHEDULED: ("waits until its next attempt is due", "wait until their next attempt is due"),
    State.BLOCKED: ("waits for a signal or for other jobs", "wait for a signal or for other jobs"),
    State.HELD: ("is held until you decide", "are held until you decide"),
    State.FAILED: ("has failed", "have failed"),
    State.CANCELLED: ("was cancelled", "were cancelled"),
    State.COMPLETED: ("has completed since", "have completed since"),
}


def machine_of(worker: str) -> str:
    """Return the machine in a worker's name.

    >>> machine_of("web-2-1207-9a31f00b"), machine_of("mine")
    ('web-2', 'mine')
    """
    return worker.rsplit("-", 2)[0]


def process_in(worker: str) -> str:
    """Return the machine and the process in a worker's name.

    >>> process_in("web-2-1207-9a31f00b"), process_in("web-2"), process_in("mine")
    ('web-2-1207', 'web-2', 'mine')
    """
    _, *rest = worker.rsplit("-", 2)
    return worker.rsplit("-", 1)[0] if len(rest) == 2 and rest[0].isdigit() else worker


def named(names: Counter[str]) -> str:
    """Return the most frequent names, and how many there are beside them."""
    first = [name for name, _ in names.most_common(MOST_NAMED)]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def joined(parts: Sequence[str], comma: str = "") -> str:
    """Return parts of a sentence as one. ``comma``: stands before the last one.

    >>> joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"], ",")
    ('a', 'a and b', 'a, b, and c')
    """
    return f"{comma} and ".join([*filter(None, [", ".join(parts[:-1])]), *parts[-1:]])


def fate_of(jobs: Sequence[JobView]) -> str:
    """Return what jobs do now that were taken from a worker: whether they run again, and where, or for what they wait."""
    order = [*_FATES]
    groups = groupby(sorted(jobs, key=lambda job: order.index(job.state)), key=lambda job: job.state)
    fates = [(len(found), _fate(state, found)) for state, each in groups if (found := [*each])]
    if len(jobs) == 1:
        return f"It {fates[0][1]}."
    if len(fates) == 1:
        return f"{'Both' if len(jobs) == 2 else f'All {len(jobs)}'} {fates[0][1]}."
    return f"Of these, {joined([f'{number} {fate}' for number, fate in fates], ',')}."


def _fate(state: State, jobs: Sequence[JobView]) -> str:
    machines = sorted({machine_of(job.worker) for job in jobs if job.worker})
    if state not in ACTIVE or not machines:
        return _FATES[state][len(jobs) > 1]
    more = [f"{len(machines) - MOST_NAMED} more"] if len(machines) > MOST_NAMED else []
    return f"{_FATES[state][len(jobs) > 1]} on {joined([*machines[:MOST_NAMED], *more])}"


def holder_words(limit: LimitView, known: Mapping[UUID, JobView], workers: Iterable[LeaseView], now: datetime) -> str:
    """Return whether the jobs work that hold a limit: the progress of the oldest and of the others, and the last beat of its worker."""
    holder = oldest_of(limit)
    beats = [max(each.overdue + each.timing.ttl, 0.0) for each in workers if each.worker == holder.worker]
    beat = f"The last beat of its worker was {in_words(min(beats))} ago." if beats else ""
    first = f"The oldest holder, {_holds(holder, known.get(holder.job), now)}."
    others = [each for each in limit.holders if each.job != holder.job]
    return " ".join(filter(None, (first, beat, _others(others, known, now))))


def _others(holders: Sequence[Holder], known: Mapping[UUID, JobView], now: datetime) -> str:
    jobs = [known[each.job] for each in holders if each.job in known]
    if len(holders) == len(jobs) == 1:
        return f"The other one, {_holds(holders[0], jobs[0], now)}."
    works = sum(_works(job, now) for job in jobs)
    return f"Of the {len(holders)} others, {works or 'none'} reported progress in the last minute." if jobs else ""


def _holds(holder: Holder, job: JobView | None, now: datetime) -> str:
    name = f"{f'{job.task} ' if job else ''}{_short(holder.job)} on {process_in(holder.worker)}"
    if job is None:
        return f"{name}, has held it for {in_words(holder.held)}"
    if job.started_at is None:
        return f"{name}, has not started its code"
    if job.last_progress_at is None:
        return f"{name}, reports no progress, so only its process and its log show whether it works or is stuck"
    ago = max((now - job.last_progress_at).total_seconds(), 0.0)
    far = "" if job.fraction is None else percent(job.fraction)
    at = ", ".join(filter(None, (far, f"stage {job.stage}" if job.stage else "")))
    seen = f"{name}, reported progress{f' ({at})' if at else ''} {in_words(ago)} ago"
    return f"{seen}, so it is slow, and not stuck" if _works(job, now) else f"{seen}, and none since, so it may be stuck"


def relief_of(limit: LimitView, known: Mapping[UUID, JobView], now: datetime) -> str:
    """Return what frees a slot of a full limit, or adds one. Only a job that may be stuck is one to end: the oldest of those."""
    oldest = oldest_of(limit)
    quiet = [each for each in limit.holders if each.job in known and not _works(known[each.job], now)]
    more = "or allow one more at once: " + command(limit.scope, limit.limit, concurrency=str(limit.active + 1)).strip("`")
    if oldest.job in known and not quiet:
        return f"see how far the oldest holder is: holdfast jobs show {_short(oldest.job)}; {more}"
    doubted = max(quiet, key=lambda each: each.held, default=oldest)
    short, job = _short(doubted.job), known.get(doubted.job)
    process = "" if job and job.last_progress_at else process_of(doubted.worker)
    return f"see what {short} has done: holdfast jobs show {short}; {process}if it is stuck, end it: holdfast jobs cancel {short}; {more}"


def _works(job: JobView, now: datetime) -> bool:
    return job.last_progress_at is not None and (now - job.last_progress_at).total_seconds() <= WORKS


def process_of(worker: str) -> str:
    """Return how to look at the process of a worker, if its name has the number of one."""
    machine, *rest = worker.rsplit("-", 2)
    is_named = len(rest) == 2 and rest[0].isdigit()
    return f"see on {machine} what its process does: ps -fp {rest[0]}; " if is_named else f"look at the machine {machine}; "


def oldest_of(limit: LimitView) -> Holder:
    """Return the job that has held a limit for longest."""
    return max(limit.holders, key=lambda each: each.held)


def _short(job: UUID) -> str:
    return str(job)[-6:]


def wait(number: int) -> str:
    """Return the verb for a number of jobs."""
    return "waits" if number == 1 else "wait"


def jobs_wait(task: str, number: int | None) -> str:
    """Return that jobs of a task wait; ``number``: how many, None if it is not known.

    >>> jobs_wait("mail", 41), jobs_wait("mail", 1), jobs_wait("mail", None)
    ('41 jobs of mail wait', 'one job of mail waits', 'jobs of mail wait')
    """
    return f"{counted(number, 'job')} of {task} {wait(number)}" if number else f"jobs of {task} wait"

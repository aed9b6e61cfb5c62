"""What happened to a job, entry by entry."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from holdfast._core.durations import in_words
from holdfast._core.identity import host_of_rescuer
from holdfast._core.job import FINISHED, HeldFor, Reason, State
from holdfast._core.phrases import as_clause, percent
from holdfast._core.steps import FOREVER
from holdfast._core.story_runs import Run, StoryFacts, last_report, missing_attempts
from holdfast._core.story_words import ENDINGS, HELD, REASONS, Kind, counted
from holdfast._core.text import json_text, shortened
from holdfast._core.view import JobView


class Detail(Struct, frozen=True):
    """What an entry folds in: a traceback, stacks, or a late result."""

    title: str
    text: str


class Entry(Struct, frozen=True, kw_only=True):
    """One thing that happened. ``after``: seconds since the job was enqueued; neither is known of what no store remembers."""

    kind: Kind
    text: str
    at: datetime | None = None
    after: float | None = None
    attempt: int | None = None
    details: tuple[Detail, ...] = ()


_PART_OF_ENDING = {State.FAILED: Kind.FAILED, State.CANCELLED: Kind.CANCELLED}


def entries_of(job: JobView, runs: Sequence[Run], facts: StoryFacts, now: datetime) -> tuple[Entry, ...]:
    """Return what happened to the job, in order."""
    found = [_enqueued(job, facts)]
    missing = missing_attempts(job, runs)
    if missing:
        found.append(_entry(job, Kind.NOT_KEPT, f"Not listed: {counted(len(missing), 'attempt')} without a record"))
    for run in runs:
        found.extend(_of_run(job, run, is_last=run is runs[-1]))
    found.extend(_of_state(job, runs, now))
    return _in_order(found)


def reason_of(job: JobView) -> str:
    """Return why the job ended, as a clause."""
    if job.reason is None:
        return "no reason is recorded"
    error, message = ("an error", "") if job.error is None else (str(job.error), job.error.message)
    filled = REASONS[job.reason].format(
        error=_brief(error), message=_brief(message), crashes=job.crashes, max_crashes=job.max_crashes
    )
    return filled.rstrip(":, ")


def work_of(runs: Sequence[Run]) -> float:
    """Return the seconds for which the code of a job ran in the attempts that have ended."""
    return sum((run.ended_at - run.started_at).total_seconds() for run in runs if run.ended_at and run.started_at)


def wait_of(job: JobView, runs: Sequence[Run], now: datetime) -> str:
    """Return what a waiting job waits for, as a clause; ``job.state`` is BLOCKED, SCHEDULED or AVAILABLE."""
    left = (job.available_at - now).total_seconds()
    if job.state is State.SCHEDULED:
        return f"is due in {in_words(max(left, 0.0))}"
    if job.state is State.AVAILABLE:
        waited = (now - max(job.available_at, _latest(job, runs))).total_seconds()
        return f"has waited for {in_words(max(waited, 0.0))} in queue {job.queue} for a worker"
    if job.awaits is None:
        return "waits for other jobs of its workflow"
    until = "" if left > FOREVER / 2 else f", for {in_words(max(left, 0.0))} more at most"
    return f"waits for the signal {job.awaits!r}{until}"


def held_why(job: JobView) -> str:
    """Return why a held job is held, as a clause; one of an earlier release names no reason."""
    return HELD[job.held_for or HeldFor.CRASH]


def at_progress(run: Run) -> str:
    """Return how far the attempt was, to be put behind what it does or how it ended."""
    return "" if run.facts.fraction is None or run.ending is Kind.COMPLETED else f"at {percent(run.facts.fraction)}"


def ended_by_attempt(job: JobView, runs: Sequence[Run]) -> bool:
    """Return whether the job ended with its last attempt, not while it waited."""
    return bool(runs) and runs[-1].ended_at is not None and runs[-1].ended_at == job.finished_at


def how_it_ended(run: Run) -> str:
    """Return how an attempt ended, as a clause after "attempt 2"."""
    assert run.ending is not None
    clause, signal = ENDINGS[run.ending].clause, "" if run.signal is None else as_clause(run.signal)
    if run.ending is Kind.KILLED:
        return " ".join(filter(None, (clause, "by", signal + "," * (", " in signal), at_progress(run)))).removesuffix(",")
    return " ".join(filter(None, (clause, signal and f"({signal})", at_progress(run))))


def note_of(run: Run) -> str:
    """Return how an attempt ended, as the note beside its drawing."""
    assert run.ending is not None
    signal = "" if run.signal is None else f": {as_clause(run.signal)}"
    return ", ".join(filter(None, (f"{ENDINGS[run.ending].note}{signal}", at_progress(run))))


def _enqueued(job: JobView, facts: StoryFacts) -> Entry:
    text = f"Enqueued to queue {job.queue}"
    if job.workflow is not None:
        text += f", in workflow {job.workflow}"
    wait = (job.available_at - job.created_at).total_seconds()
    if job.attempt == 0 and 0 < wait < FOREVER / 2 and job.awaits is None:
        text += f", due {in_words(wait)} later"
    if facts.trace is not None:
        text += f", trace {facts.trace}"
    return _entry(job, Kind.ENQUEUED, text, at=job.created_at)


def _of_run(job: JobView, run: Run, *, is_last: bool) -> Iterator[Entry]:
    text = f"Attempt {run.attempt} on {run.worker}"
    text += ", after an operator ran the job again" if run.is_repeat else ""
    text += ", isolated, because one more crash ends the job" if run.is_isolated else ""
    yield _entry(job, Kind.STARTED, text, at=run.started_at, attempt=run.attempt)
    yield from _progress(job, run)
    if run.ending is None:
        return
    if not (is_last and job.state is State.COMPLETED):
        yield _ended(job, run)
    if is_rescued(job, run, is_last=is_last):
        yield _rescued(job, run)
    if run.is_late:
        yield _late(job, run)


def _in_order(found: list[Entry]) -> tuple[Entry, ...]:
    """Return the entries with each late result where it came: perhaps while a later attempt ran, or after the job had ended."""
    for late in [each for each in found if each.kind is Kind.LATE_RESULT and each.at is not None]:
        found.remove(late)
        later = (place for place, each in enumerate(found) if each.at is not None and late.at is not None and each.at > late.at)
        found.insert(next(later, len(found)), late)
    return tuple(found)


def _late(job: JobView, run: Run) -> Entry:
    """Return what an attempt answered after the job had been taken from its worker; a result or, else, the error of the attempt."""
    details: tuple[Detail, ...] = ()
    what = f"failure ({_brief(str(run.error))})"
    if run.late_result is not None:
        what, details = "result", (Detail("what it answered", json_text(run.late_result)),)
    text = f"Late {what} of attempt {run.attempt} refused, and kept: the job had been taken from {run.worker}"
    return _entry(job, Kind.LATE_RESULT, text, at=run.facts.late_at, attempt=run.attempt, details=details)


def _progress(job: JobView, run: Run) -> Iterator[Entry]:
    stage = None
    for point in run.facts.points:
        if point.stage is not None and point.stage != stage and run.started_at is not None:
            at = run.started_at + timedelta(seconds=point.seconds)
            yield _entry(job, Kind.PROGRESS, f"Stage {_brief(point.stage)}", at=at, attempt=run.attempt)
        stage = point.stage or stage
    done = None if run.facts.fraction is None else percent(run.facts.fraction)
    parts = [_brief(part) for part in (run.facts.stage, done, run.facts.message) if part]
    if parts and (run.ending is not Kind.COMPLETED or not run.facts.points):
        reported = last_report(run) or (job.last_progress_at if _is_within(job.last_progress_at, run) else None)
        yield _entry(job, Kind.PROGRESS, f"Last progress: {', '.join(parts)}", at=reported, attempt=run.attempt)


def _is_within(at: datetime | None, run: Run) -> bool:
    return at is not None and (run.started_at is None or run.started_at <= at) and (run.ended_at is None or at <= run.ended_at)


def _ended(job: JobView, run: Run) -> Entry:
    assert run.ending is not None
    words = ENDINGS[run.ending]
    text = words.entry
    if run.signal is not None:
        text += f": {as_clause(run.signal)}" if run.ending is Kind.KILLED else f" ({as_clause(run.signal)})"
    if words.shows_error and run.error is not None:
        text += f": {_brief(run.error.message if run.error.type in _NAMED_BY_ENTRY else str(run.error))}"
    budget = "" if run.failure is None else f"failure {run.failure} of {job.max_attempts}"
    text = ", ".join(filter(None, (text, at_progress(run), budget)))
    return _entry(job, run.ending, text, at=run.ended_at, attempt=run.attempt, details=tuple(_details(run)))


_NAMED_BY_ENTRY = {"STALLED", "TIMED_OUT"}


def _details(run: Run) -> Iterator[Detail]:
    error = run.error
    if error is not None and error.traceback:
        yield Detail("traceback", error.traceback)
    elif error is not None and "\n" in error.message:
        yield Detail("error", str(error))
    if run.stacks is not None:
        yield Detail("stacks when it was killed", run.stacks)


def is_rescued(job: JobView, run: Run, *, is_last: bool) -> bool:
    """Return whether the job returned to its queue because it was taken from the worker of this attempt."""
    is_taken = run.ending is not None and ENDINGS[run.ending].is_rescue
    return is_taken and not (is_last and (job.state in FINISHED or job.state is State.HELD))


def rescue_note(job: JobView, run: Run) -> str:
    """Return a rescue as the note beside its drawing."""
    by = "" if run.facts.rescued_by is None else f" by {host_of_rescuer(run.facts.rescued_by)}"
    return f"rescued{by}{_crash(job, run)}"


def _crash(job: JobView, run: Run) -> str:
    return "" if run.crash is None else f", crash {run.crash} of {job.max_crashes}"


def _rescued(job: JobView, run: Run) -> Entry:
    by, crash = "" if run.facts.rescued_by is None else f" by {run.facts.rescued_by}", _crash(job, run)
    return _entry(job, Kind.RESCUED, f"Rescued{by}: the job returned to its queue{crash}", at=run.ended_at, attempt=run.attempt)


def _of_state(job: JobView, runs: Sequence[Run], now: datetime) -> Iterator[Entry]:
    since = _latest(job, runs)
    match job.state:
        case State.SCHEDULED:
            yield _entry(job, Kind.WAITING, f"Attempt {job.attempt + 1} {wait_of(job, runs, now)}", at=job.available_at)
        case State.AVAILABLE:
            text = f"Attempt {job.attempt + 1} {wait_of(job, runs, now)}"
            yield _entry(job, Kind.WAITING, text, at=max(job.available_at, since))
        case State.BLOCKED:
            yield _entry(job, Kind.BLOCKED, f"The job {wait_of(job, runs, now)}", at=since)
        case State.HELD:
            held_at = None if job.held_for is HeldFor.PAUSE else since
            yield _entry(job, Kind.HELD, f"Held: {held_why(job)}", at=held_at)
        case State.CLAIMED:
            text = f"Claimed by {job.worker}, which has not started its code"
            yield _entry(job, Kind.CLAIMED, text, at=job.claimed_at)
        case State.COMPLETED:
            is_whole = runs and not missing_attempts(job, runs)
            work = f" after {in_words(work_of(runs))} of work in {counted(job.attempt, 'attempt')}" if is_whole else ""
            yield _entry(job, Kind.COMPLETED, f"Completed{work}", at=job.finished_at, attempt=job.attempt or None)
        case State.FAILED | State.CANCELLED:
            yield _final(job, runs)


def _latest(job: JobView, runs: Sequence[Run]) -> datetime:
    """Return when the last attempt ended, or when the job was enqueued."""
    return (runs[-1].ended_at if runs else None) or job.created_at


def _final(job: JobView, runs: Sequence[Run]) -> Entry:
    kind = Kind.EXPIRED if job.reason is Reason.EXPIRED else _PART_OF_ENDING[job.state]
    why = reason_of(job)
    is_by_attempt = ended_by_attempt(job, runs)
    if is_by_attempt and job.state is State.FAILED and job.failures >= job.max_attempts:
        why = f"no attempts are left, {job.failures} of {job.max_attempts} failed"
    elif is_by_attempt and runs[-1].crash is not None and job.crashes >= job.max_crashes:
        why = f"no crashes are left, {job.crashes} of {job.max_crashes} are spent"
    return _entry(job, kind, f"The job {'failed' if job.state is State.FAILED else 'was cancelled'}: {why}", at=job.finished_at)


def _entry(
    job: JobView,
    kind: Kind,
    text: str,
    *,
    at: datetime | None = None,
    attempt: int | None = None,
    details: tuple[Detail, ...] = (),
) -> Entry:
    after = None if at is None else round((at - job.created_at).total_seconds(), 3)
    return Entry(kind=kind, text=text, at=at, after=after, attempt=attempt, details=details)


def _brief(text: str) -> str:
    """Return the first line of what a handler wrote, shortened."""
    return shortened(text.split("\n", 1)[0])

"""The attempts of a job as its story needs them: one list, from the recorded attempts and from the one that the job's row holds."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct, structs

from holdfast._core.job import AttemptOutcome, Failure, HeldFor, Json, State
from holdfast._core.points import Point
from holdfast._core.story_words import OUTCOMES_OF, Kind, ending_of
from holdfast._core.view import AttemptView, JobView


class AttemptFacts(Struct, frozen=True, kw_only=True):
    """What is known of an attempt beside its record; a fact that no store remembers is left out.

    ``rescued_by``: the supervisor that took the job from its worker. ``late_at``: when its late result arrived.
    """

    points: tuple[Point, ...] = ()
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    rescued_by: str | None = None
    late_at: datetime | None = None


class StoryFacts(Struct, frozen=True, kw_only=True):
    """What is known of a job beside its row. ``trace``: the W3C `traceparent` of its enqueue. ``attempts``: facts by attempt.

    ``beats``: by worker, the times of those of its beats that are remembered.
    """

    trace: str | None = None
    attempts: dict[int, AttemptFacts] = {}
    beats: dict[str, tuple[datetime, ...]] = {}


class Run(Struct, frozen=True, kw_only=True):
    """One attempt. No ``ending``: its code runs. ``crash`` and ``failure``: which of the job's budget it was, where that is known.

    ``is_isolated``: it ran isolated. ``is_repeat``: the attempt before it had ended the job, so an operator ran the job again.
    """

    attempt: int
    worker: str
    started_at: datetime | None
    ended_at: datetime | None
    ending: Kind | None
    signal: str | None = None
    error: Failure | None = None
    stacks: str | None = None
    late_result: Json = None
    crash: int | None = None
    failure: int | None = None
    is_isolated: bool = False
    is_repeat: bool = False
    facts: AttemptFacts = AttemptFacts()
    beats: tuple[datetime, ...] = ()

    @property
    def is_late(self) -> bool:
        """Whether it answered after the job had been taken from its worker: then a lost attempt has a result, or an error of its code."""
        is_lost = self.ending in _LOST and self.error is not None and self.error.type != _CRASH_ERROR
        return self.late_result is not None or is_lost


MOST_BEATS = 60
_FAILURES = {AttemptOutcome.FAILED, AttemptOutcome.STALLED, AttemptOutcome.TIMED_OUT}
_ENDS_JOB = {Kind.COMPLETED, Kind.CANCELLED}
_LOST = {Kind.KILLED, Kind.CRASHED, Kind.SILENT, Kind.CLOSED, Kind.UNRESPONSIVE, Kind.RELEASED}
_CRASH_ERROR = "WorkerCrashed"
"""The type of the error that the last crash of a job leaves, which is not one of its code."""


def runs_of(job: JobView, attempts: Sequence[AttemptView], facts: StoryFacts) -> tuple[Run, ...]:
    """Return the attempts of which something is known, the first one first."""
    rescued = None if job.rescued is None else _last(attempts, OUTCOMES_OF[job.rescued])
    crashes = _numbers(attempts, {AttemptOutcome.CRASHED}, job.crashes)
    failures = _numbers(attempts[:-1] if job.held_for is HeldFor.STEPS else attempts, _FAILURES, job.failures)
    runs = [
        Run(
            attempt=each.attempt,
            worker=each.worker,
            started_at=each.started_at,
            ended_at=each.ended_at,
            ending=ending_of(each.outcome, each.signal, job.rescued if position == rescued else None),
            signal=each.signal,
            error=each.error,
            stacks=each.stacks,
            late_result=each.late_result,
            crash=crashes.get(position),
            failure=failures.get(position),
            facts=AttemptFacts(**{name: getattr(each, name) for name in AttemptFacts.__struct_fields__}),
        )
        for position, each in enumerate(attempts)
    ]
    if job.attempt and all(run.attempt != job.attempt for run in runs) and job.state in (State.RUNNING, State.COMPLETED):
        runs.append(_unrecorded(job))
    return tuple(_in_context(job, runs, position, facts) for position in range(len(runs)))


def missing_attempts(job: JobView, runs: Sequence[Run]) -> tuple[int, ...]:
    """Return the numbers of the attempts whose records are not kept any more."""
    known = {run.attempt for run in runs}
    return tuple(number for number in range(1, job.attempt + 1) if number not in known)


def _unrecorded(job: JobView) -> Run:
    """Return the attempt that runs now, or the first-try success: neither has a record."""
    has_ended = job.state is State.COMPLETED
    return Run(
        attempt=job.attempt,
        worker=job.worker or "",
        started_at=job.started_at,
        ended_at=job.finished_at if has_ended else None,
        ending=Kind.COMPLETED if has_ended else None,
        facts=AttemptFacts(points=job.points),
    )


def _in_context(job: JobView, runs: Sequence[Run], position: int, facts: StoryFacts) -> Run:
    run, before = runs[position], runs[:position]
    crashes = next((each.crash for each in reversed(before) if each.crash is not None), 0)
    return structs.replace(
        run,
        is_isolated=crashes > 0 and job.max_crashes - 1 <= crashes,
        is_repeat=bool(before) and before[-1].ending in _ENDS_JOB,
        facts=_with_progress(job, run, facts.attempts.get(run.attempt, run.facts)),
        beats=_beats(run, facts.beats.get(run.worker, ())),
    )


def _beats(run: Run, beats: Sequence[datetime]) -> tuple[datetime, ...]:
    """Return the beats of the worker while it had the job, at most about ``MOST_BEATS`` of them."""
    if run.started_at is None:
        return ()
    found = [at for at in beats if run.started_at <= at and (run.ended_at is None or at <= run.ended_at)]
    return tuple(found[:: len(found) // MOST_BEATS + 1])


def silent_from(run: Run) -> datetime | None:
    """Return the last sign of life of a worker whose lease ran out: a beat, or a progress report; ``None`` if none is remembered."""
    if run.ending is not Kind.SILENT:
        return None
    return max((at for at in (*run.beats, last_report(run)) if at is not None), default=None)


def last_report(run: Run) -> datetime | None:
    """Return when the attempt last reported progress, as far as its points are kept."""
    points, start = run.facts.points, run.started_at
    return start + timedelta(seconds=points[-1].seconds) if points and start is not None else None


def _with_progress(job: JobView, run: Run, facts: AttemptFacts) -> AttemptFacts:
    """Return the facts with the job's last progress, if this attempt reported it and its own record has none."""
    at, start = job.last_progress_at, run.started_at
    if at is None or start is None or at < start or (run.ended_at is not None and at > run.ended_at):
        return facts
    if facts.stage is not None or facts.fraction is not None or facts.message is not None:
        return facts
    return structs.replace(facts, stage=job.stage, fraction=job.fraction, message=job.message)


def _last(attempts: Sequence[AttemptView], outcomes: set[AttemptOutcome]) -> int | None:
    return next((n for n in range(len(attempts) - 1, -1, -1) if attempts[n].outcome in outcomes), None)


def _numbers(attempts: Sequence[AttemptView], outcomes: set[AttemptOutcome], total: int) -> dict[int, int]:
    """Return which one of its budget each attempt was, by position. They are counted from the last one, because an operator's retry
    starts the budget again and leaves the attempts before it."""
    positions = [n for n, each in enumerate(attempts) if each.outcome in outcomes]
    return {n: total - back for back, n in enumerate(reversed(positions)) if total - back > 0}

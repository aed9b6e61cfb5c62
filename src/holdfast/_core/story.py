"""The story of a job: what happened to it, first in a sentence, then entry by entry.

The page of a job, ``--json`` and the terminal show the same story. Nothing here decides about jobs.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from holdfast._core.durations import in_words
from holdfast._core.job import State
from holdfast._core.points import Point
from holdfast._core.story_entries import (
    Entry,
    at_progress,
    ended_by_attempt,
    entries_of,
    held_why,
    how_it_ended,
    is_rescued,
    note_of,
    reason_of,
    rescue_note,
    wait_of,
)
from holdfast._core.story_runs import Run, StoryFacts, runs_of, silent_from
from holdfast._core.story_words import ENDINGS, Kind, counted, ordinal, sentence
from holdfast._core.view import AttemptView, JobView

MOST_NAMED = 3
"""The most attempts of which a summary describes each one; more are counted."""


class Lane(Struct, frozen=True, kw_only=True):
    """One attempt in a timeline. ``begins`` and ``ends``: seconds since the job was enqueued. No ``ending``: its code runs.

    ``points``, ``stage``, ``fraction`` and ``message``: its progress, as far as it is remembered. ``has_late_result``: it answered after
    the job had been taken from its worker. ``rescue``: that the job was taken from its worker, by which machine, and which crash that
    was. ``beats``: those of its worker that are remembered; ``silent_from``: the last sign of life of a worker whose lease ran out;
    ``late_at``: when the late result came; all three as ``begins``.
    """

    attempt: int
    worker: str
    begins: float | None
    ends: float | None
    ending: Kind | None
    note: str
    is_isolated: bool = False
    has_late_result: bool = False
    points: tuple[Point, ...] = ()
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    rescue: str = ""
    beats: tuple[float, ...] = ()
    silent_from: float | None = None
    late_at: float | None = None


class Story(Struct, frozen=True):
    """What happened to a job. ``lanes``: one for each attempt."""

    summary: str
    lanes: tuple[Lane, ...]
    entries: tuple[Entry, ...]


_NOTHING_MORE = StoryFacts()


def story_of(job: JobView, attempts: Sequence[AttemptView], now: datetime, facts: StoryFacts = _NOTHING_MORE) -> Story:
    """Return what happened to a job. ``attempts``: those that are recorded; ``facts``: what is known beside them."""
    runs = runs_of(job, attempts, facts)
    summary = " ".join(sentence(part) for part in (_now(job, runs, now), _before(job, runs), _late(runs)) if part)
    return Story(summary, tuple(_lane(job, run, is_last=run is runs[-1]) for run in runs), entries_of(job, runs, facts, now))


def _now(job: JobView, runs: Sequence[Run], now: datetime) -> str:
    """Return what is true of the job now."""
    match job.state:
        case State.COMPLETED:
            return f"completed{_when(job, runs)}"
        case State.FAILED | State.CANCELLED:
            return f"{job.state.value}{_when(job, runs)}: {reason_of(job)}"
        case State.RUNNING:
            since = "" if job.started_at is None else f" for {in_words(max((now - job.started_at).total_seconds(), 0.0))}"
            done = at_progress(runs[-1]) if runs else ""
            return f"running{since} on its {ordinal(job.attempt)} attempt, on {job.worker}{done and ', ' + done}"
        case State.CLAIMED:
            return f"claimed by {job.worker}, which has not started its {ordinal(job.attempt + 1)} attempt"
        case State.HELD:
            return f"held: {held_why(job)}"
        case State.BLOCKED:
            return wait_of(job, runs, now)
        case State.SCHEDULED | State.AVAILABLE:
            return f"its {ordinal(job.attempt + 1)} attempt {wait_of(job, runs, now)}"


def _when(job: JobView, runs: Sequence[Run]) -> str:
    """Return on which attempt a job ended, and how long after its enqueue."""
    is_on = job.state is State.COMPLETED or ended_by_attempt(job, runs)
    on = f" {'on' if is_on else 'after'} its {ordinal(job.attempt)} attempt"
    if job.attempt == 0:
        on = "" if job.state is State.COMPLETED else " before its first attempt"
    if job.finished_at is None:
        return on
    after = max((job.finished_at - job.created_at).total_seconds(), 0.0)
    return f"{on}, {in_words(after)} after it was enqueued"


def _before(job: JobView, runs: Sequence[Run]) -> str:
    """Return how the attempts before ended; of the last one only if the job did not end with it."""
    ended = [run for run in (runs[:-1] if ended_by_attempt(job, runs) else runs) if run.ending is not None]
    if len(ended) <= MOST_NAMED:
        alike: dict[str, list[str]] = {}
        for run in ended:
            alike.setdefault(how_it_ended(run), []).append(str(run.attempt))
        return _and([_ended_alike(numbers, how) for how, numbers in alike.items()])
    tally = Counter(ENDINGS[run.ending].tally for run in ended if run.ending is not None)
    return f"{counted(len(ended), 'earlier attempt')}: {', '.join(f'{count} {how}' for how, count in tally.items())}"


def _ended_alike(attempts: Sequence[str], how: str) -> str:
    """Return that attempts ended in one way.

    >>> _ended_alike(["2"], "failed"), _ended_alike(["1", "2"], "failed"), _ended_alike(["1", "3"], "was released by its worker")
    ('attempt 2 failed', 'attempts 1 and 2 failed', 'attempts 1 and 3 were released by their worker')
    """
    if len(attempts) == 1:
        return f"attempt {attempts[0]} {how}"
    return f"attempts {_and(attempts)} {how}".replace(" was ", " were ").replace(" its ", " their ")


def _late(runs: Sequence[Run]) -> str:
    """Return that a worker answered too late; of several, the last one."""
    late = [run.attempt for run in runs if run.is_late]
    return f"what attempt {late[-1]} answered too late was refused and is kept" if late else ""


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _lane(job: JobView, run: Run, *, is_last: bool) -> Lane:
    return Lane(
        attempt=run.attempt,
        worker=run.worker,
        begins=_offset(job, run.started_at),
        ends=_offset(job, run.ended_at),
        ending=run.ending,
        note="" if run.ending is None else note_of(run),
        is_isolated=run.is_isolated,
        has_late_result=run.is_late,
        points=run.facts.points,
        stage=run.facts.stage,
        fraction=run.facts.fraction,
        message=run.facts.message,
        rescue=rescue_note(job, run) if is_rescued(job, run, is_last=is_last) else "",
        beats=tuple(round((at - job.created_at).total_seconds(), 3) for at in run.beats),
        silent_from=_offset(job, silent_from(run)),
        late_at=_offset(job, run.facts.late_at) if run.is_late else None,
    )


def _offset(job: JobView, at: datetime | None) -> float | None:
    return None if at is None else round((at - job.created_at).total_seconds(), 3)

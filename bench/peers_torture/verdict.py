"""Counting: from what the handlers wrote and the peer's own rows contained to the figures of one trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from msgspec import Struct, field

from bench.peers_torture.journal import Run

Span = tuple[float, float]

TOGETHER = 1.0
"""Seconds: two runs of one job that were both at work for so long ran twice at once. What is shorter is still printed."""


class Seen(Struct, kw_only=True):
    """What one trial has seen; times as in the journal. ``thawed`` is ``None`` where no worker was frozen."""

    runs: Sequence[Run]
    victim: str
    fault: float
    thawed: float | None = None
    window: float
    completed: Mapping[int, float]
    """When the peer's own row of a job was first seen completed."""


class Finding(Struct, kw_only=True):
    """The figures of one trial."""

    setting: str
    fault: str
    jobs: int = 0
    completed: int = 0
    """Jobs of the whole trial that its store called completed in the end."""
    in_flight: int = 0
    """Jobs that the victim was running when it was killed or frozen; the figures below are about these."""
    recovered: list[float] = field(default_factory=list)
    """Seconds until each of them began again, if it did within the window."""
    twice: int = 0
    """Jobs, of all, of which two runs were at work at once for a second or more."""
    longest: float = 0.0
    """Seconds: the longest time that two runs of one job were at work at once."""
    ended_late: int = 0
    """Runs of the frozen worker that ended regularly while another worker was running the job."""
    accepted: int = 0
    """Jobs that the store called completed after the frozen worker's end, before the new owner's."""
    frozen_for: float | None = None
    error: str = ""


def find(setting: str, fault: str, jobs: int, seen: Seen) -> Finding:
    """Count the figures of one trial."""
    lost = {run.job: run for run in seen.runs if _was_hit(run, seen)}
    again = {run.job: run.start - seen.fault for run in reversed(seen.runs) if run.job in lost and _is_new(run, seen)}
    both = [_together(one, other, seen) for one, other in combinations(seen.runs, 2) if one.job == other.job]
    late = [run for run in lost.values() if _ended_late(run, seen)]
    return Finding(
        setting=setting,
        fault=fault,
        jobs=jobs,
        completed=len(seen.completed),
        in_flight=len(lost),
        recovered=sorted(round(after, 1) for after in again.values()),
        twice=len({job for job, seconds in both if seconds >= TOGETHER}),
        longest=round(max((seconds for _, seconds in both), default=0.0), 2),
        ended_late=len(late),
        accepted=sum(_was_accepted(run, seen) for run in late),
        frozen_for=None if seen.thawed is None else round(seen.thawed - seen.fault, 1),
    )


def _was_hit(run: Run, seen: Seen) -> bool:
    return run.worker == seen.victim and run.start < seen.fault and (run.last > seen.fault or run.end is None)


def _is_new(run: Run, seen: Seen) -> bool:
    return seen.fault < run.start <= seen.fault + seen.window


def _together(one: Run, other: Run, seen: Seen) -> tuple[int, float]:
    """Return for how long both were at work; a frozen run is not."""
    shared = [_overlap(span, other_span) for span in _spans(one, seen) for other_span in _spans(other, seen)]
    return one.job, sum(shared)


def _spans(run: Run, seen: Seen) -> list[Span]:
    if seen.thawed is None or not _was_hit(run, seen):
        return [(run.start, run.last)]
    return [(run.start, seen.fault), (seen.thawed, run.last)]


def _overlap(one: Span, other: Span) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _ended_late(run: Run, seen: Seen) -> bool:
    return seen.thawed is not None and run.end == "done" and any(_is_owner(other, run.last, seen) for other in _others(run, seen))


def _was_accepted(run: Run, seen: Seen) -> bool:
    """Return whether the row was completed while the only worker with a right to complete it was still at work."""
    at = seen.completed.get(run.job)
    return at is not None and at >= run.last and any(_is_owner(other, at, seen) for other in _others(run, seen))


def _others(run: Run, seen: Seen) -> list[Run]:
    return [other for other in seen.runs if other.job == run.job and other.name != run.name and _is_new(other, seen)]


def _is_owner(run: Run, at: float, seen: Seen) -> bool:
    return run.start < at < run.last

"""The sentences of a log about attempts: one for each that ended, and one for many."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from holdfast._core.job import ActiveJob, AttemptOutcome, Claim, RescueReason, State
from holdfast._core.lifecycle import Transition
from holdfast._core.phrases import as_clause, percent

MOST_NAMED = 5
_DIGITS = 6
_ENDS = {
    AttemptOutcome.STALLED: "stalled",
    AttemptOutcome.TIMED_OUT: "timed out",
    AttemptOutcome.CRASHED: "crashed",
}
_LOST: Final[Mapping[str, str]] = {RescueReason.EXPIRED: "lease ran out", RescueReason.CLOSED: "lease given up"}


def started_line(claim: Claim, waited: float) -> str:
    """Return the sentence of an attempt whose code begins. ``waited``: for how many seconds the job was due."""
    return f"{job_name(claim.job.task, claim.job.id)} started, attempt {claim.job.attempt}, waited {span(max(0.0, waited))}"


def ended_line(claim: Claim, move: Transition, seconds: float | None, error: object) -> str:
    """Return the sentence of an attempt that ended. ``seconds``: how long its code ran. ``error``: what is shown of its failure."""
    name, took = job_name(claim.job.task, claim.job.id), "" if seconds is None else f" in {span(seconds)}"
    because = "" if error is None else f": {error}"
    match move.to:
        case State.COMPLETED:
            again = f", attempt {claim.job.attempt}" if claim.job.attempt > 1 else ""
            return f"{name} completed{took}{again}{', from its checkpoint' if claim.checkpoint is not None else ''}"
        case State.FAILED:
            return f"{name} failed for good, {_budget(claim, move)}{because}"
        case State.HELD:
            return f"{name} is held for an operator{because}"
        case State.CANCELLED:
            return f"{name} cancelled{took}{because}"
        case State.BLOCKED:
            return f"{name} waits for other jobs"
        case State.AVAILABLE if move.record is AttemptOutcome.SNOOZED:
            return f"{name} snoozed for {span(move.delay or 0.0)}"
        case State.AVAILABLE if move.record not in (None, AttemptOutcome.RELEASED):
            end = _ENDS.get(move.record or AttemptOutcome.FAILED, "failed")
            return f"{name} {end}{took}, {_budget(claim, move)}, again {_wait(move.delay)}{because}"
        case _:
            return f"{name} returned to its queue{because}"


def rescued_line(job: ActiveJob, move: Transition, to: State, worker: str, reason: str, after: float | None = None) -> str:
    """Return the sentence of a job that a supervisor took from a worker. ``to``: its state now. ``after``: the seconds that this took."""
    took = "" if after is None else f" after {span(after)}"
    back = f"runs again {_wait(move.delay)}" if move.delay else f"back in its queue{took}"
    ends = {State.AVAILABLE: back, State.HELD: "held for an operator"}
    budget = ""
    if move.crashes > job.crashes:
        budget = f", crash {move.crashes} of {job.policy.max_crashes}"
    elif move.failures > job.failures:
        budget = f", attempt {move.failures} of {job.policy.max_attempts}"
    done = "" if job.fraction is None else f" at {percent(job.fraction)}"
    why = _LOST.get(reason, as_clause(reason))
    return f"{job_name(job.task, job.id)} taken from {worker} ({why}){done}, {ends.get(to, to.value)}{budget}"


def summary_line(seconds: float, completed: Mapping[str, int], failed: int, median: float | None) -> str:
    """Return the sentence of many attempts; ``completed``: how many of each queue.

    >>> summary_line(10, {"mail": 134, "default": 1980}, 3, 0.02)
    '2,114 completed in 10 s (default 1,980, mail 134), 3 failed, median 0.02 s'
    """
    most = sorted(completed.items(), key=lambda each: (-each[1], each[0]))
    named = [f"{queue} {count:,}" for queue, count in most[:MOST_NAMED]]
    named += [f"others {sum(count for _, count in most[MOST_NAMED:]):,}"] if len(most) > MOST_NAMED else []
    text = f"{sum(completed.values()):,} completed in {span(seconds)}" + (f" ({', '.join(named)})" if named else "")
    return f"{text}, {failed:,} failed" + ("" if median is None else f", median {span(median)}")


def job_name(task: str, job: UUID) -> str:
    """Return a job as a line names it: its task and the last digits of its id, which every command takes.

    >>> job_name("mail", UUID("01a20386-38bd-746c-85ed-47a9829d8f2c"))
    'mail 9d8f2c'
    """
    return f"{task} {job.hex[-_DIGITS:]}"


def span(seconds: float) -> str:
    """Return a time as a reader needs it, with about two digits.

    >>> [span(seconds) for seconds in (0.00001, 0.0042, 0.21, 1.25, 10, 64, 7440)]
    ['under 1 ms', '4 ms', '0.21 s', '1.2 s', '10 s', '1 min 04 s', '2 h 04 min']
    """
    if 0 < seconds < 0.0005:
        return "under 1 ms"
    if seconds == 0:
        return "0 s"
    if seconds < 0.01:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s" if seconds < 0.995 else f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _budget(claim: Claim, move: Transition) -> str:
    policy = claim.job.policy
    if move.record is AttemptOutcome.CRASHED:
        return f"crash {move.crashes} of {policy.max_crashes}"
    return f"attempt {move.failures} of {policy.max_attempts}"


def _wait(delay: float | None) -> str:
    return f"in {span(delay)}" if delay else "at once"

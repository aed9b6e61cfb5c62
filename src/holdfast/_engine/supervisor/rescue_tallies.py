"""What a supervisor counts of a job that it took from a worker: the worker itself can report nothing any more."""

from holdfast._core.job import FINISHED, ActiveJob, State
from holdfast._core.lifecycle import Transition
from holdfast._core.tallies import Tallies


def count_rescue(
    tallies: Tallies, job: ActiveJob, move: Transition, to: State, *, reason: str, is_own: bool, delay: float, wall: float
) -> None:
    """Count the rescue, the attempt that it ended if code ran, and the job if it is finished by it."""
    tallies.count("jobs_rescued", job.task, reason, "own" if is_own else "other")
    tallies.observe("rescue_delay_seconds", delay, reason)
    state, why = (to.value, str(move.reason or "")) if to in FINISHED else ("", "")
    if move.record is not None:
        tallies.ended((job.queue, job.task, move.record.value, state, why), [job.id], (), wall)
    elif state:
        tallies.count("jobs_finished", job.queue, job.task, state, why)

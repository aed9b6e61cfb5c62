"""What a worker counts of attempts whose end is in the store."""

from collections.abc import Callable, Sequence

from holdfast._core.answers import Answer
from holdfast._core.job import FINISHED, AttemptOutcome, State
from holdfast._core.lifecycle import Transition
from holdfast._core.tallies import Ended, Ending, Tallies, age_of
from holdfast._engine.worker.finished_runs import FinishedRun

COMPLETED = AttemptOutcome.COMPLETED.value
_APPLIED, _COMPLETED = Answer.APPLIED, State.COMPLETED  # a look into an enum costs as much as all else that one job costs here


def count_exchange(
    tallies: Tallies | None, batch: Sequence[FinishedRun], answers: Sequence[Answer], seconds: float, wall: Callable[[], float]
) -> None:
    """Count a call of the store, and the attempts that it ended; a claim that was returned before its code ran is not an attempt."""
    if tallies is None:
        return
    tallies.observe("store_call_seconds", seconds, "exchange")
    # Most attempts complete, and the same task's come in a row: a worker at its limit pays half a microsecond for each.
    task, queue, now = "", "", wall()
    found, ended = Ended(), dict[Ending, Ended]()
    for run, answer in zip(batch, answers, strict=True):
        move = run.transition
        if answer is not _APPLIED or move is None:
            continue
        job = run.claim.job
        if move.to is not _COMPLETED:
            if move.record is None:
                continue
            task, found = "", _of(ended, (job.queue, job.task, *_ending_of(move, move.record)))
        elif job.task != task or job.queue != queue:
            task, queue = job.task, job.queue
            found = _of(ended, (queue, task, COMPLETED, COMPLETED, ""))
        found.number += 1
        if run.seconds is not None:
            found.run.append(run.seconds)
        if (age := age_of(job.id, now)) is not None:
            found.whole.append(age)
    tallies.all_ended(ended)


def _of(ended: dict[Ending, Ended], ending: Ending) -> Ended:
    if (found := ended.get(ending)) is None:
        found = ended[ending] = Ended()
    return found


def _ending_of(move: Transition, outcome: AttemptOutcome) -> tuple[str, str, str]:
    state, reason = (move.to.value, str(move.reason or "")) if move.to in FINISHED else ("", "")
    return outcome.value, state, reason

"""What a settle is told when its job is not active under its token: the same outcome sent again gets the same answer.

A worker whose answer was lost sends its transition again, perhaps long after the first copy landed. Finished rows
and attempt records remember what each token did; a free release, which leaves neither, is remembered by itself.
"""

from msgspec import Struct

from holdfast._core.job import PLACE_OF, AttemptOutcome, Failure, JobRecord, Place, State, Token
from holdfast._core.lifecycle import Judge, Transition
from holdfast._core.rows import OUTCOME_OF, Ended


class Release(Struct, frozen=True):
    """The last move of a job back to the waiting ones that left no attempt record."""

    token: Token
    is_lease_alive: bool


def is_repeated(
    transition: Transition, row: JobRecord | None, attempt: Ended | None = None, release: Release | None = None
) -> bool:
    """Whether an earlier copy of this transition is why its job is no longer active under its token.

    ``row``: the job as it is now; ``attempt``: what is remembered of the transition's token; ``release``: of the job.
    """
    if row is not None and PLACE_OF[row.state] is Place.FINISHED and row.token == transition.token:
        return _is_outcome_of(transition, row)
    if attempt is not None:
        return _is_outcome_in(transition, attempt)
    if release is None or transition.judge is not Judge.OWNER:
        return False
    # Only its owner could release it while its lease was never ended; and only a free release leaves no record.
    is_free = transition.to is State.AVAILABLE and transition.record is None
    return is_free and release.token == transition.token and release.is_lease_alive


def _is_outcome_of(transition: Transition, row: JobRecord) -> bool:
    moved = transition.moved_by(cancel_requested=row.cancel_requested)
    same = (moved.to, moved.reason, moved.result) == (row.state, row.reason, row.result)
    return same and _kind(moved.error) == _kind(row.error)


def _is_outcome_in(transition: Transition, attempt: Ended) -> bool:
    outcome = transition.record or OUTCOME_OF.get(transition.to, AttemptOutcome.RELEASED)
    same = (transition.to, outcome) == (attempt.to, attempt.record.outcome)
    # A late error may have been noted on a record that had none.
    return same and (transition.error is None or _kind(transition.error) == _kind(attempt.record.error))


def _kind(error: Failure | None) -> tuple[str, str] | None:
    return None if error is None else (error.type, error.message)

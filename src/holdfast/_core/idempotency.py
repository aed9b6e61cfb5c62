"""The answer to a settle whose job is not active under its token: the same outcome sent again gets the same answer.

A worker whose answer was lost sends its transition again, perhaps long after the first copy was applied. Finished rows and the records
of attempts keep the outcome of every token.
"""

from holdfast._core.apart import are_equal
from holdfast._core.job import PLACE_OF, Failure, Place, Reason
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.record import OUTCOME_OF, JobRecord, SettledAttempt


def is_duplicate_settle(transition: Transition, row: JobRecord | None, ended: SettledAttempt | None) -> bool:
    """Return whether an earlier copy of this transition moved the job: then the repeated settle is answered as applied.

    ``row``: the job as it is now. ``ended``: the record of the attempt under the transition's token.
    """
    if row is not None and PLACE_OF[row.state] is Place.FINISHED and row.token == transition.token:
        return _is_outcome_of(transition, row)
    return ended is not None and _is_outcome_in(transition, ended)


def _is_outcome_of(transition: Transition, row: JobRecord) -> bool:
    by = Reason.BY_WORKFLOW if row.reason is Reason.BY_WORKFLOW else Reason.BY_OPERATOR
    moved = transition.with_cancellation(cancel_requested=row.cancel_requested, by=by)
    if row.is_stub:
        return (moved.to, moved.reason) == (row.state, row.reason)
    same = (moved.to, moved.reason) == (row.state, row.reason) and are_equal(moved.result, row.result)
    # The totals tell the worker's own cancellation from a rescue that a requested cancellation turned into one.
    is_charged_alike = (moved.failures, moved.crashes) == (row.failures, row.crashes)
    return same and is_charged_alike and _kind(moved.error) == _kind(row.error)


def _is_outcome_in(transition: Transition, ended: SettledAttempt) -> bool:
    record = ended.record
    if transition.to is not ended.requested_state:
        return False
    if record is None:
        return transition.record is None
    if (transition.record or OUTCOME_OF.get(transition.to)) is not record.outcome:
        return False
    # A worker that lost its job may have added its late error to the record, which the rescue left without one.
    is_noted = transition.precondition is Precondition.LEASE_ENDED and transition.error is None
    return is_noted or _kind(transition.error) == _kind(record.error)


def _kind(error: Failure | None) -> tuple[str, str] | None:
    return None if error is None else (error.type, error.message)

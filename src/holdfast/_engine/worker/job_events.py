"""The events of claims and outcomes: their names and fields."""

from holdfast._core.job import AttemptOutcome, Claim, State
from holdfast._engine.events import EventName
from holdfast._ports.transport import ClaimSource


def origin_of(claim: Claim, via: ClaimSource) -> dict[str, str]:
    """Return what led to the claim, why its job was last rescued, and what recovers it if its last attempt was interrupted.

    ``recovery`` is ``store`` if a rescue had returned the job, and ``redelivery`` if the transport delivered it again.
    """
    rescue, found = claim.rescue, {"via": via.value}
    if rescue is not None:
        found["rescued"] = rescue.reason
    if rescue is not None and rescue.attempt == claim.job.attempt - 1:
        found["recovery"] = "store"
    elif via is ClaimSource.REDELIVERY:
        found["recovery"] = "redelivery"
    return found


EVENT_OF: dict[tuple[State, AttemptOutcome | None], EventName] = {
    (State.COMPLETED, None): EventName.JOB_COMPLETED,
    (State.COMPLETED, AttemptOutcome.COMPLETED): EventName.JOB_COMPLETED,
    (State.AVAILABLE, AttemptOutcome.FAILED): EventName.JOB_RETRIED,
    (State.AVAILABLE, AttemptOutcome.SNOOZED): EventName.JOB_SNOOZED,
    (State.AVAILABLE, AttemptOutcome.STALLED): EventName.JOB_RETRIED,
    (State.AVAILABLE, AttemptOutcome.TIMED_OUT): EventName.JOB_RETRIED,
    (State.AVAILABLE, AttemptOutcome.CRASHED): EventName.JOB_RETRIED,
    (State.HELD, AttemptOutcome.FAILED): EventName.JOB_HELD,
    (State.FAILED, AttemptOutcome.FAILED): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.STALLED): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.TIMED_OUT): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.CRASHED): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.RELEASED): EventName.JOB_FAILED,
    (State.CANCELLED, AttemptOutcome.CANCELLED): EventName.JOB_CANCELLED,
}

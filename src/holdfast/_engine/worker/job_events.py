"""The events of claims and outcomes: their names and fields."""

from functools import partial
from typing import Any
from uuid import UUID

from holdfast._core.job import AttemptOutcome, Claim, State
from holdfast._engine.events import Event, EventName, Events
from holdfast._engine.worker.attempt_log import AttemptLog
from holdfast._engine.worker.finished_runs import FinishedRun
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


class OutcomeEvents:
    """Emits the events of outcomes that the store has applied. ``left``: the jobs that this worker released once it was to end.
    ``log``: what has a line for each of them."""

    def __init__(self, events: Events, log: AttemptLog) -> None:
        self._events, self.log = events, log
        self.left: list[UUID] = []
        self._is_ending = False

    def begin_end(self) -> None:
        """Remember from now on which jobs are released."""
        self._is_ending = True

    @property
    def has_listener(self) -> bool:
        """Whether completed jobs are logged, or have subscribers."""
        return self._events.has_subscriber(EventName.JOB_COMPLETED) or self.log.has_completed

    def announce(self, ended: FinishedRun, **fields: Any) -> None:
        """Log a job's outcome and emit its event; ``fields`` are those of the job."""
        transition = ended.transition
        if transition is None:
            return
        name = EVENT_OF.get((transition.to, transition.record), EventName.JOB_RELEASED)
        if self._is_ending and name is EventName.JOB_RELEASED:
            self.left.append(transition.job)
        has_line = self.log.takes(ended, name)
        if not has_line and not self._events.has_subscriber(name):
            return
        error = transition.error.type if transition.error else None
        event = Event(name, {**fields, "reason": transition.reason, "error": error, "delay": transition.delay or None})
        if has_line:
            self._events.deliver(partial(self.log.ended, ended), event)
        self._events.pass_on(event)

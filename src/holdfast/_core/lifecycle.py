"""The one state machine: the transition that an outcome, a release or a rescue leads to.

A ``Transition`` is the only value that moves an active job. It cannot be constructed without a token, so an unfenced write cannot be
expressed.
"""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.children import Children
from holdfast._core.fingerprint import error_key
from holdfast._core.job import RUNNER_UNAVAILABLE, ActiveJob, AttemptOutcome, Failure, HeldFor, Reason, RescueReason, State, Token
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze, StepsChanged, Suspend, WaitFor
from holdfast._core.policy import ChangePolicy, CrashPolicy


class Precondition(StrEnum):
    """The condition that must still be true in the write that moves the job."""

    TOKEN = "token"
    LEASE_ENDED = "lease_ended"
    OVERDUE = "overdue"
    VOIDED = "voided"


class Transition(Struct, frozen=True, kw_only=True):
    """One move of one active job, carrying its token.

    ``to`` is AVAILABLE, BLOCKED, HELD, or a finished state. ``delay``: an intended wait in seconds from now, perhaps zero; ``None``: the
    job keeps its position in its queue. ``failures`` and ``crashes`` are new totals, not increments, so that sending the transition
    twice counts once. ``record`` is the outcome to keep in the attempt record; ``None`` for a first-try success. ``rescued``: why the
    job's code was interrupted, if it ran; ``rescued_by``: which supervisor took the job; ``owes_hook``: the task has an ``on_rescue``
    to run for it. ``voids``: with VOIDED, the voids that the lease must still have. ``awaits``: the signal that makes the job due
    before its wait is over. ``held_for``: why it is held. ``children``: with BLOCKED, what it waits for. ``forgets_steps``: with
    COMPLETED, the job's steps and signals are deleted; with AVAILABLE, its steps and its checkpoint. ``flow``: the workflow of the job,
    whose lock the write takes first.
    """

    job: UUID
    token: Token
    to: State
    failures: int
    crashes: int
    retention: float
    precondition: Precondition = Precondition.TOKEN
    delay: float | None = None
    reason: Reason | None = None
    error: Failure | None = None
    result: bytes | None = None
    record: AttemptOutcome | None = None
    signal: str | None = None
    stacks: str | None = None
    rescued: RescueReason | None = None
    rescued_by: str | None = None
    owes_hook: bool = False
    voids: int = 0
    awaits: str | None = None
    held_for: HeldFor | None = None
    forgets_steps: bool = False
    flow: UUID | None = None
    children: Children | None = None

    @property
    def has_flow(self) -> bool:
        """Whether the write moves other jobs, too: the job belongs to a workflow, or begins one."""
        return self.flow is not None or self.children is not None

    @property
    def never_ran(self) -> bool:
        """Whether the code of this claim never ran, so that its attempt does not count."""
        return self.record is None and self.to is not State.COMPLETED

    def with_cancellation(self, *, cancel_requested: bool, by: Reason = Reason.BY_OPERATOR) -> "Transition":
        """Return the transition that applies to a row: a job with a requested cancellation that does not complete ends cancelled.

        ``by``: BY_WORKFLOW if it is cancelled with its workflow.
        """
        if not cancel_requested or self.to is State.COMPLETED:
            return self
        if self.to is State.CANCELLED:
            return structs.replace(self, reason=by) if self.reason is Reason.BY_OPERATOR is not by else self
        ended = structs.replace(self, to=State.CANCELLED, reason=by, delay=None, awaits=None, held_for=None, children=None)
        return structs.replace(ended, forgets_steps=False)


class LeaseEnd(Struct, frozen=True):
    """The reason why a lease ended (CRASHED, EXPIRED or CLOSED); stored with its end and applied by each rescue of its claims.

    ``is_free``: no job pays a crash, because the cause is known (a drain, a self-stop, a deliberate kill).
    ``charged_jobs``: jobs that pay, and why, although the end is free for all others.
    """

    reason: RescueReason
    signal: str | None = None
    is_free: bool = False
    charged_jobs: dict[UUID, RescueReason] = {}
    stacks: str | None = None

    def with_drain(self, *, is_draining: bool) -> "LeaseEnd":
        """Return the end, free of charge if the worker was asked to drain: that is the cause then, in any case."""
        return structs.replace(self, is_free=True) if is_draining else self

    def charges_crash_of(self, job: ActiveJob) -> bool:
        """Return whether this job's crash budget pays for the end."""
        return job.state is State.RUNNING and (job.id in self.charged_jobs or not self.is_free)


def finish(job: ActiveJob, outcome: Outcome, *, jitter: float) -> Transition:
    """Return the transition for a handler's outcome; ``jitter`` is a random number in [-1, 1]."""
    match outcome:
        case Done(result=result):
            record = AttemptOutcome.COMPLETED if job.attempt > 1 else None
            return _settle(job, State.COMPLETED, result=result, record=record)
        case Retry(after=after, reason=reason):
            failure = Failure("Retry", reason)
            return _failed_attempt(job, failure, after=after, jitter=jitter)
        case Raised(failure=failure, is_final=is_final):
            if is_final:
                return _fail(job, Reason.HANDLER_ERROR, failure, failures=job.failures + 1)
            return _failed_attempt(job, failure, after=None, jitter=jitter)
        case Snooze(for_=wait):
            return _settle(job, State.AVAILABLE, delay=wait, record=AttemptOutcome.SNOOZED)
        case Cancel(reason=reason):
            error = Failure("Cancel", reason)
            return _settle(job, State.CANCELLED, reason=Reason.BY_HANDLER, error=error, record=AttemptOutcome.CANCELLED)
        case Fail(reason=reason):
            return _fail(job, Reason.PERMANENT, Failure("Fail", reason), failures=job.failures + 1)
        case Invalid(reason=why, failure=failure):
            return _fail(job, why, failure, failures=job.failures + 1)
        case Suspend(for_=wait, awaits=awaits):
            return structs.replace(_settle(job, State.AVAILABLE, delay=wait, record=AttemptOutcome.SNOOZED), awaits=awaits)
        case WaitFor(children=children):
            return structs.replace(_settle(job, State.BLOCKED, delay=0.0, record=AttemptOutcome.SNOOZED), children=children)
        case StepsChanged(failure=failure, then=then):
            return _changed(job, failure, then, jitter=jitter)
        case _:
            assert_never(outcome)


def release(job: ActiveJob, *, code_ran: bool, unavailable: str | None = None) -> Transition:
    """Return a job to its queue free of charge; under ``on_crash`` ``hold`` or ``fail``, interrupted code is not run again.

    ``unavailable``: why no process could be started for it.
    """
    if not code_ran:
        return _settle(job, State.AVAILABLE, error=None if unavailable is None else Failure(RUNNER_UNAVAILABLE, unavailable))
    if job.policy.on_crash is CrashPolicy.RETRY:
        moved = _settle(job, State.AVAILABLE, record=AttemptOutcome.RELEASED)
    else:
        moved = _crashed(job, crashes=job.crashes, record=AttemptOutcome.RELEASED, delay=None)
    return _interrupted(job, moved, RescueReason.RELEASED)


def voided(job: ActiveJob, voids: int) -> Transition:
    """Take a job that has not started from a worker that lives but starts nothing, after its lease got this number of voids."""
    return structs.replace(_settle(job, State.AVAILABLE), precondition=Precondition.VOIDED, voids=voids)


def deadline_exceeded(job: ActiveJob, charge: RescueReason, *, jitter: float) -> Transition:
    """Return the transition of a job that stalled or timed out, once its code has stopped: a failed attempt."""
    limits = {RescueReason.STALLED: job.policy.progress_within, RescueReason.TIMED_OUT: job.policy.timeout}
    reason = Reason.STALLED if charge is RescueReason.STALLED else Reason.TIMED_OUT
    passed = "no progress for" if charge is RescueReason.STALLED else "still running after"
    failure = Failure(reason.value, f"{passed} {limits.get(charge) or 0:g} s")
    moved = _failed_attempt(job, failure, after=None, jitter=jitter, reason=reason)
    record = AttemptOutcome.STALLED if charge is RescueReason.STALLED else AttemptOutcome.TIMED_OUT
    return _interrupted(job, structs.replace(moved, record=record), charge)


def deadline_exceeded_elsewhere(job: ActiveJob, charge: RescueReason, *, jitter: float, by: str | None = None) -> Transition:
    """Return the same transition for another supervisor, long after the owner's should have acted; the write checks the limit again."""
    moved = deadline_exceeded(job, charge, jitter=jitter)
    return structs.replace(moved, precondition=Precondition.OVERDUE, rescued_by=by)


def cancelled(job: ActiveJob, *, was_killed: bool = False) -> Transition:
    """Return the transition of a cancelled job whose code has stopped; ``was_killed``: it was unresponsive and was killed."""
    moved = _settle(job, State.CANCELLED, reason=Reason.BY_OPERATOR, record=AttemptOutcome.CANCELLED)
    return _interrupted(job, moved, RescueReason.UNRESPONSIVE) if was_killed else moved


def rescue(job: ActiveJob, why: LeaseEnd, *, jitter: float, by: str | None = None) -> Transition:
    """Take a job from an owner whose lease has ended. ``by``: the supervisor that takes it, for people to read.

    After the first rescue the job has its old position in its queue. Later rescues wait ``backoff(n - 1)``, because a job that
    repeatedly kills its workers should not do it in a tight loop.
    """
    charge = why.charged_jobs.get(job.id)
    if job.state is State.CLAIMED:
        moved = _settle(job, State.AVAILABLE)
    elif not why.charges_crash_of(job):
        moved = release(job, code_ran=True)
    elif charge in (RescueReason.STALLED, RescueReason.TIMED_OUT):
        moved = deadline_exceeded(job, charge, jitter=jitter)
    else:
        moved = _charged(job, jitter=jitter)
    if job.state is State.RUNNING:
        moved = structs.replace(_interrupted(job, moved, charge or why.reason), rescued_by=by)
    stacks = why.stacks if why.charges_crash_of(job) else None
    return structs.replace(moved, precondition=Precondition.LEASE_ENDED, signal=why.signal, stacks=stacks)


def runner_crashed(job: ActiveJob, signal: str, *, jitter: float) -> Transition:
    """Return the transition of a job whose runner process died; its worker lives on, still owns the job, and settles it."""
    moved = _interrupted(job, _charged(job, jitter=jitter), RescueReason.CRASHED)
    return structs.replace(moved, signal=signal)


def _interrupted(job: ActiveJob, moved: Transition, why: RescueReason) -> Transition:
    return structs.replace(moved, rescued=why, owes_hook=job.policy.has_rescue_hook)


def _charged(job: ActiveJob, *, jitter: float) -> Transition:
    crashes = job.crashes + 1
    delay = None if crashes == 1 else job.policy.backoff.delay(crashes - 2, jitter=jitter)
    return _crashed(job, crashes=crashes, record=AttemptOutcome.CRASHED, delay=delay)


def _crashed(job: ActiveJob, *, crashes: int, record: AttemptOutcome, delay: float | None) -> Transition:
    match job.policy.on_crash:
        case CrashPolicy.HOLD:
            # A delay of 0: the job leaves its position in its queue, and the age of its rescue hook counts from now.
            held = _settle(job, State.HELD, crashes=crashes, record=record, delay=0.0)
            return structs.replace(held, held_for=HeldFor.CRASH)
        case CrashPolicy.RETRY if crashes < job.policy.max_crashes:
            return _settle(job, State.AVAILABLE, crashes=crashes, record=record, delay=delay)
        case CrashPolicy.RETRY | CrashPolicy.FAIL:
            error = Failure(
                "WorkerCrashed", f"the worker ended while the job ran ({crashes} of {job.policy.max_crashes} crashes)"
            )
            error = _with_key(error, job, Reason.WORKER_CRASHED)
            return _settle(job, State.FAILED, reason=Reason.WORKER_CRASHED, crashes=crashes, record=record, error=error)
        case _:
            assert_never(job.policy.on_crash)


def _changed(job: ActiveJob, failure: Failure, then: ChangePolicy, *, jitter: float) -> Transition:
    match then:
        case ChangePolicy.HOLD:
            error = _with_key(failure, job, Reason.STEPS_CHANGED)
            held = _settle(job, State.HELD, delay=0.0, error=error, record=AttemptOutcome.FAILED)
            return structs.replace(held, held_for=HeldFor.STEPS)
        case ChangePolicy.FAIL:
            return _fail(job, Reason.STEPS_CHANGED, failure, failures=job.failures + 1)
        case ChangePolicy.RESTART:
            # It spends an attempt: code whose steps differ at random, or two versions in turn, would start over without end.
            moved = _failed_attempt(job, failure, after=None, jitter=jitter, reason=Reason.STEPS_CHANGED)
            return structs.replace(moved, forgets_steps=moved.to is State.AVAILABLE)
        case _:
            assert_never(then)


def _failed_attempt(
    job: ActiveJob, failure: Failure, *, after: float | None, jitter: float, reason: Reason = Reason.HANDLER_ERROR
) -> Transition:
    failures = job.failures + 1
    if failures >= job.policy.max_attempts:
        return _fail(job, reason, failure, failures=failures)
    delay = job.policy.backoff.delay(failures - 1, jitter=jitter) if after is None else after
    error = _with_key(failure, job, reason)
    return _settle(job, State.AVAILABLE, failures=failures, error=error, delay=delay, record=AttemptOutcome.FAILED)


def _fail(job: ActiveJob, reason: Reason, failure: Failure, *, failures: int) -> Transition:
    error = _with_key(failure, job, reason)
    return _settle(job, State.FAILED, reason=reason, error=error, failures=failures, record=AttemptOutcome.FAILED)


def _with_key(failure: Failure, job: ActiveJob, reason: Reason) -> Failure:
    """Return the failure with a fingerprint; one that was raised has its own, because only its process knows the frames."""
    return failure if failure.key else structs.replace(failure, key=error_key(job.task, reason, failure.type, ()))


def _settle(
    job: ActiveJob,
    to: State,
    *,
    failures: int | None = None,
    crashes: int | None = None,
    delay: float | None = None,
    reason: Reason | None = None,
    error: Failure | None = None,
    result: bytes | None = None,
    record: AttemptOutcome | None = None,
) -> Transition:
    return Transition(
        job=job.id,
        token=job.token,
        to=to,
        failures=job.failures if failures is None else failures,
        crashes=job.crashes if crashes is None else crashes,
        retention=job.policy.retention_of(is_failed=to is State.FAILED),
        delay=delay,
        reason=reason,
        error=error,
        result=result,
        record=record,
        flow=job.flow,
    )

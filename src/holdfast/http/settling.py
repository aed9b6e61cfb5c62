"""The calls of a worker about a job that it claimed: heartbeats, checkpoints, and its end. Each is fenced by the token of the claim."""

from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import Meta, Struct

from holdfast._core.answers import Answer
from holdfast._core.durations import seconds
from holdfast._core.job import ActiveJob, Failure, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition, finish, release
from holdfast._core.outcome import Done, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._core.payload import ERROR_TEXT_LIMIT, MESSAGE_LIMIT, cut_text, encode_checkpoint, encode_result
from holdfast._core.requests import ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast._engine.environment import Environment
from holdfast._engine.flow_events import report_flows
from holdfast._ports.transport import Hint
from holdfast.errors import ConfigurationError
from holdfast.http.claim_token import ClaimToken
from holdfast.http.claiming import BEATS
from holdfast.http.identity import Role
from holdfast.http.operation import Call, Operation, Reply
from holdfast.http.problems import ApiError
from holdfast.http.submitting import id_of_path, not_found

TYPE_LIMIT: Final = 200

Text = Annotated[str, Meta(max_length=200)]


class Progress(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a job is; what is left out stays as it was. ``fraction``: from 0 to 1."""

    stage: Text | None = None
    fraction: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    message: str | None = None


class Heartbeat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign of life, with progress or without."""

    token: str
    progress: Progress | None = None


class HeartbeatAnswer(Struct, frozen=True):
    """The seconds within which the next heartbeat must come, and whether the job should end because it was cancelled."""

    beat_within: float
    cancel_requested: bool


class Checkpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value from which the next attempt starts, as JSON."""

    token: str
    data: Any


class Complete(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a job, as JSON."""

    token: str
    result: Any = None


class ErrorText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error of a handler."""

    type: Annotated[str, Meta(min_length=1)] = "Error"
    message: str = ""
    traceback: str = ""


class Failing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The failure of an attempt. ``retry=False``: the job fails at once. ``after``: the wait before the next attempt, instead of that of
    its policy. ``payload_invalid``: the payload does not fit, so that no attempt can succeed."""

    token: str
    error: ErrorText = ErrorText()
    retry: bool = True
    after: float | str | None = None
    payload_invalid: bool = False


class Snoozing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"for_": "for"}):
    """The wait before the job runs again, at no cost to its attempts."""

    token: str
    for_: float | str


class Releasing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The job returns to its queue, at no cost to its attempts."""

    token: str


class Settled(Struct, frozen=True):
    """The state of the job after the call."""

    state: State


class Settling:
    """The calls about one claimed job."""

    def __init__(self, environment: Environment, timing: LeaseTiming) -> None:
        self._environment, self._store, self._timing = environment, environment.store, timing

    def operations(self) -> list[Operation]:
        """Describe each call about a claimed job."""
        return [
            self._operation("heartbeat", "Keep a job, and report its progress.", Heartbeat, HeartbeatAnswer, self._beat),
            self._operation(
                "checkpoint", "Store the value from which the next attempt starts.", Checkpoint, HeartbeatAnswer, self._save
            ),
            self._operation("complete", "End a job with its result.", Complete, Settled, self._complete),
            self._operation("fail", "Report a failed attempt.", Failing, Settled, self._fail),
            self._operation("snooze", "Run the job again later.", Snoozing, Settled, self._snooze),
            self._operation("release", "Return the job to its queue.", Releasing, Settled, self._release),
        ]

    def _operation(self, verb: str, summary: str, body: Any, answer: Any, run: Any) -> Operation:
        return Operation(
            method="POST",
            path=f"/jobs/{{id}}/{verb}",
            summary=summary,
            roles=frozenset((Role.WORKER,)),
            body=body,
            answers={200: answer},
            refusals=(404, 409, 413),
            run=run,
        )

    async def _beat(self, call: Call) -> Reply:
        body: Heartbeat = call.body
        job, claim, progress = id_of_path(call), ClaimToken.of(body.token), body.progress
        if progress is None:
            return await self._renew(job, claim)
        message = None if progress.message is None else cut_text(progress.message, MESSAGE_LIMIT)
        update = ProgressUpdate(job=job, token=claim.token, stage=progress.stage, fraction=progress.fraction, message=message)
        return await self._report(job, claim, update)

    async def _save(self, call: Call) -> Reply:
        body: Checkpoint = call.body
        job, claim = id_of_path(call), ClaimToken.of(body.token)
        return await self._report(job, claim, ProgressUpdate(job=job, token=claim.token, checkpoint=encode_checkpoint(body.data)))

    async def _report(self, job: UUID, claim: ClaimToken, update: ProgressUpdate) -> Reply:
        if await self._store.report([update]):
            raise await self._lost(job)
        return await self._renew(job, claim)

    async def _renew(self, job: UUID, claim: ClaimToken) -> Reply:
        answer = await self._store.beat([claim.lease])
        if claim.lease in answer.gone or not await self._active(job, claim):
            raise await self._lost(job)
        if claim.lease not in answer.alive:
            raise _busy(job)
        is_cancelled = job in answer.cancelled.get(claim.lease, ())
        return Reply(HeartbeatAnswer((self._timing.ttl - self._timing.margin) / BEATS, is_cancelled))

    async def _complete(self, call: Call) -> Reply:
        return await self._settle(call, Done(encode_result(call.body.result)))

    async def _fail(self, call: Call) -> Reply:
        body: Failing = call.body
        texts = (cut_text(body.error.type, TYPE_LIMIT), *(cut_text(each, ERROR_TEXT_LIMIT) for each in _texts(body.error)))
        failure = Failure(*texts)
        if body.payload_invalid:
            return await self._settle(call, Invalid(Reason.PAYLOAD_INVALID, failure))
        if body.after is not None and body.retry:
            return await self._settle(call, Retry(_seconds("after", body.after), str(failure)))
        return await self._settle(call, Raised(failure, is_final=not body.retry))

    async def _snooze(self, call: Call) -> Reply:
        return await self._settle(call, Snooze(_seconds("for", call.body.for_)))

    async def _release(self, call: Call) -> Reply:
        return await self._settle(call, None)

    async def _settle(self, call: Call, outcome: Outcome | None) -> Reply:
        """Move the job by its outcome, ``None``: released. The second copy of a call gets the answer of the first."""
        job, claim = id_of_path(call), ClaimToken.of(call.body.token)
        active = await self._active(job, claim)
        move = await self._copy_of(job, claim, outcome) if active is None else self._move(active, outcome)
        (answer,) = (await self._store.exchange([move])).answers
        match answer:
            case Answer.APPLIED:
                await self._store.end_lease(claim.lease, LeaseEnd(RescueReason.CLOSED, is_free=True))
                report_flows(self._store, self._environment.events)
            case Answer.BUSY:
                raise _busy(job)
            case _:
                raise await self._lost(job)
        record = await self._store.get(job)
        if record is None:
            return Reply(Settled(move.to))
        await self._environment.transport.publish([Hint(record.queue) if record.state is State.AVAILABLE else Hint(ids=(job,))])
        return Reply(Settled(record.state))

    def _move(self, active: ActiveJob, outcome: Outcome | None) -> Transition:
        return (
            release(active, code_ran=True)
            if outcome is None
            else finish(active, outcome, jitter=self._environment.chance.jitter())
        )

    async def _copy_of(self, job: UUID, claim: ClaimToken, outcome: Outcome | None) -> Transition:
        """Return the move of a job that the claim has no more: the store knows whether it has settled it before."""
        record = await self._store.get(job)
        if record is None:
            raise not_found(job)
        active = ActiveJob(
            id=job,
            token=claim.token,
            lease=claim.lease,
            task=record.task,
            state=State.RUNNING,
            attempt=record.attempt,
            failures=record.failures,
            crashes=record.crashes,
            policy=record.policy,
            queue=record.queue,
            flow=None if record.member is None else record.member.flow,
        )
        return self._move(active, outcome)

    async def _active(self, job: UUID, claim: ClaimToken) -> ActiveJob | None:
        held = await self._store.held(claim.lease)
        return next((each for each in held if each.id == job and each.token == claim.token), None)

    async def _lost(self, job: UUID) -> Exception:
        if await self._store.get(job) is None:
            return not_found(job)
        return ApiError(409, "lost", f"job {job} belongs to another claim now", "end its work: nothing of it counts any more")


def _busy(job: UUID) -> ApiError:
    return ApiError(503, "busy", f"another session has job {job} locked", "send it again")


def _texts(error: ErrorText) -> tuple[str, str]:
    return error.message, error.traceback


def _seconds(name: str, duration: float | str) -> float:
    try:
        return seconds(duration)
    except ValueError as error:
        raise ConfigurationError([f"{name}: {error}"]) from None

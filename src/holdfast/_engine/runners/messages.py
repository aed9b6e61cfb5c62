"""Messages between a worker and its runner over their pipe."""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.children import Children
from holdfast._core.job import Claim, Failed, Failure, NewJob, Reason
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze, StepsChanged, Suspend, WaitFor
from holdfast._core.steps import SignalTaken, StepList, StepRecord


class Run(Struct, frozen=True, tag="run"):
    """Worker: run this job's handler. ``worker``: the name that its log lines show."""

    claim: Claim
    worker: str | None = None


class CancelRequested(Struct, frozen=True, tag="told"):
    """Worker: the handler is to end soon."""


class JobLostNotice(Struct, frozen=True, tag="lost"):
    """Worker: the job no longer belongs to this attempt."""


class CallProblem(StrEnum):
    """Why a handler's call had no effect."""

    LOST = "lost"
    STOPPED = "stopped"
    UNAVAILABLE = "unavailable"


class CallAnswered(Struct, frozen=True, tag="answered"):
    """Worker: that call is done, or cannot be."""

    call: int
    problem: CallProblem | None = None
    text: str = ""
    answer: EnqueueAnswer | None = None
    steps: StepList | None = None
    taken: SignalTaken | None = None
    outcomes: dict[UUID, bytes | Failed] | None = None
    parents: dict[str, tuple[UUID, ...]] | None = None


class Shutdown(Struct, frozen=True, tag="finish"):
    """Worker: no more messages follow; close the lifespan and exit."""


class Ready(Struct, frozen=True, tag="ready"):
    """Runner: the app is loaded and its lifespan entered."""


class Refused(Struct, frozen=True, tag="refused"):
    """Runner: the app cannot be loaded here, or its lifespan failed."""

    problems: tuple[str, ...]


class RunStarted(Struct, frozen=True, tag="begun"):
    """Runner: from now on code of the user runs for this job. ``ignored``: fields of its payload that the handler does not know.
    They come in a second message, because constructors of the user run while the payload is read."""

    ignored: tuple[str, ...] = ()


class TaskMissing(Struct, frozen=True, tag="unknown"):
    """Runner: the code that this process loaded does not have the task of this job."""


class Progressed(Struct, frozen=True, tag="progressed"):
    """Runner: how far the job is."""

    stage: str | None = None
    fraction: float | None = None
    message: str | None = None


class Checkpointed(Struct, frozen=True, tag="checkpointed"):
    """Runner: save this, and answer once it is durable."""

    call: int
    data: bytes


class Enqueued(Struct, frozen=True, tag="enqueued"):
    """Runner: enqueue this child under the job's token, and answer once it is durable."""

    call: int
    child: NewJob
    joins: bool = False


class OutcomesAsked(Struct, frozen=True, tag="outcomes"):
    """Runner: answer the outcomes of those of these children that have ended."""

    call: int
    children: tuple[UUID, ...]


class ParentsAsked(Struct, frozen=True, tag="parents"):
    """Runner: answer the nodes that the job depends on, by their names, with the jobs whose outcomes are theirs."""

    call: int


class StepsAsked(Struct, frozen=True, tag="steps"):
    """Runner: answer the steps that are recorded."""

    call: int


class StepRecorded(Struct, frozen=True, tag="recorded"):
    """Runner: record this step under the job's token, and answer once it is durable."""

    call: int
    record: StepRecord


class SignalAsked(Struct, frozen=True, tag="signal"):
    """Runner: consume the oldest signal of this name as the result of this step, and answer its value."""

    call: int
    name: str
    record: StepRecord


class OutcomeKind(StrEnum):
    """Which outcome a verdict stands for."""

    DONE = "done"
    RETRY = "retry"
    SNOOZE = "snooze"
    CANCEL = "cancel"
    FAIL = "fail"
    RAISED = "raised"
    INVALID = "invalid"
    SUSPEND = "suspend"
    WAIT_FOR = "wait_for"
    STEPS_CHANGED = "steps_changed"


class OutcomeData(Struct, frozen=True, kw_only=True):
    """An outcome as plain data: those that handlers raise are exceptions, which no pipe carries."""

    kind: OutcomeKind
    result: bytes = b""
    seconds: float | None = None
    text: str = ""
    failure: Failure | None = None
    is_final: bool = False
    reason: Reason | None = None
    awaits: str | None = None
    children: Children | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> "OutcomeData":
        """Return the outcome as plain data."""
        match outcome:
            case Done(result=result):
                return cls(kind=OutcomeKind.DONE, result=result)
            case Retry():
                return cls(kind=OutcomeKind.RETRY, seconds=outcome.after, text=outcome.reason)
            case Snooze():
                return cls(kind=OutcomeKind.SNOOZE, seconds=outcome.for_)
            case Cancel():
                return cls(kind=OutcomeKind.CANCEL, text=outcome.reason)
            case Fail():
                return cls(kind=OutcomeKind.FAIL, text=outcome.reason)
            case Raised(failure=failure, is_final=is_final):
                return cls(kind=OutcomeKind.RAISED, failure=failure, is_final=is_final)
            case Invalid(reason=reason, failure=failure):
                return cls(kind=OutcomeKind.INVALID, reason=reason, failure=failure)
            case Suspend(for_=wait, awaits=awaits):
                return cls(kind=OutcomeKind.SUSPEND, seconds=wait, awaits=awaits)
            case WaitFor(children=children):
                return cls(kind=OutcomeKind.WAIT_FOR, children=children)
            case StepsChanged(failure=failure):
                return cls(kind=OutcomeKind.STEPS_CHANGED, failure=failure)
            case _:
                assert_never(outcome)

    def outcome(self) -> Outcome:
        """Return the outcome that this data stands for."""
        match self.kind:
            case OutcomeKind.DONE:
                return Done(self.result)
            case OutcomeKind.RETRY:
                return Retry(self.seconds, self.text)
            case OutcomeKind.SNOOZE:
                return Snooze(self.seconds or 0.0)
            case OutcomeKind.CANCEL:
                return Cancel(self.text)
            case OutcomeKind.FAIL:
                return Fail(self.text)
            case OutcomeKind.RAISED:
                return Raised(self.failure or Failure("Exception", ""), self.is_final)
            case OutcomeKind.SUSPEND:
                return Suspend(self.seconds or 0.0, self.awaits)
            case OutcomeKind.WAIT_FOR:
                return WaitFor(self.children or Children())
            case OutcomeKind.STEPS_CHANGED:
                return StepsChanged(self.failure or Failure("Exception", ""))
            case OutcomeKind.INVALID:
                return Invalid(self.reason or Reason.RESULT_INVALID, self.failure or Failure("Exception", ""))
            case _:
                assert_never(self.kind)


class RunEnded(Struct, frozen=True, tag="ended"):
    """Runner: the handler's code has stopped. No verdict: it stopped because it was cancelled. ``memory``: bytes occupied since.
    ``unused_steps``: recorded, but not asked for."""

    verdict: OutcomeData | None = None
    memory: int = 0
    unused_steps: tuple[str, ...] = ()


FromWorker = Run | CancelRequested | JobLostNotice | CallAnswered | Shutdown
Calls = Checkpointed | Enqueued | OutcomesAsked | ParentsAsked | StepsAsked | StepRecorded | SignalAsked
FromRunner = Ready | Refused | RunStarted | TaskMissing | Progressed | Calls | RunEnded
Message = FromWorker | FromRunner

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return one message as bytes."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Read one message from its bytes."""
    return _decoder.decode(data)

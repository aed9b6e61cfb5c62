"""What a worker and a runner say to each other over their pipe."""

from enum import StrEnum
from typing import assert_never

import msgspec
from msgspec import Struct

from holdfast._core.job import Claim, Failure, NewJob, Reason
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze
from holdfast._ports.store import EnqueueAnswer


class Run(Struct, frozen=True, tag="run"):
    """Worker: run this job's handler."""

    claim: Claim


class Told(Struct, frozen=True, tag="told"):
    """Worker: the handler is to end soon."""


class Lost(Struct, frozen=True, tag="lost"):
    """Worker: the job is somebody else's."""


class Problem(StrEnum):
    """Why a call of a handler did not do what it should."""

    LOST = "lost"
    STOPPED = "stopped"
    UNAVAILABLE = "unavailable"


class Answered(Struct, frozen=True, tag="answered"):
    """Worker: that call is done, or cannot be."""

    call: int
    problem: Problem | None = None
    text: str = ""
    answer: EnqueueAnswer | None = None


class Finish(Struct, frozen=True, tag="finish"):
    """Worker: nothing more will come; end in good order."""


class Ready(Struct, frozen=True, tag="ready"):
    """Runner: the app is loaded and its lifespan entered."""


class Refused(Struct, frozen=True, tag="refused"):
    """Runner: the app cannot be loaded here, or its lifespan failed."""

    problems: tuple[str, ...]


class Begun(Struct, frozen=True, tag="begun"):
    """Runner: from now on code of the user runs for this job. ``ignored``: fields of its payload the handler does not know,
    said in a second one, because constructors of the user's run while the payload is read."""

    ignored: tuple[str, ...] = ()


class Unknown(Struct, frozen=True, tag="unknown"):
    """Runner: the code that I loaded does not have the task of this job."""


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


class Kind(StrEnum):
    """Which outcome a verdict stands for."""

    DONE = "done"
    RETRY = "retry"
    SNOOZE = "snooze"
    CANCEL = "cancel"
    FAIL = "fail"
    RAISED = "raised"
    INVALID = "invalid"


class Verdict(Struct, frozen=True, kw_only=True):
    """An outcome as plain data: those that handlers raise are exceptions, which no pipe carries."""

    kind: Kind
    result: bytes = b""
    seconds: float | None = None
    text: str = ""
    failure: Failure | None = None
    is_final: bool = False
    reason: Reason | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> "Verdict":
        """The outcome as data."""
        match outcome:
            case Done(result=result):
                return cls(kind=Kind.DONE, result=result)
            case Retry():
                return cls(kind=Kind.RETRY, seconds=outcome.after, text=outcome.reason)
            case Snooze():
                return cls(kind=Kind.SNOOZE, seconds=outcome.for_)
            case Cancel():
                return cls(kind=Kind.CANCEL, text=outcome.reason)
            case Fail():
                return cls(kind=Kind.FAIL, text=outcome.reason)
            case Raised(failure=failure, is_final=is_final):
                return cls(kind=Kind.RAISED, failure=failure, is_final=is_final)
            case Invalid(reason=reason, failure=failure):
                return cls(kind=Kind.INVALID, reason=reason, failure=failure)
            case _:
                assert_never(outcome)

    def outcome(self) -> Outcome:
        """The outcome again."""
        match self.kind:
            case Kind.DONE:
                return Done(self.result)
            case Kind.RETRY:
                return Retry(self.seconds, self.text)
            case Kind.SNOOZE:
                return Snooze(self.seconds or 0.0)
            case Kind.CANCEL:
                return Cancel(self.text)
            case Kind.FAIL:
                return Fail(self.text)
            case Kind.RAISED:
                return Raised(self.failure or Failure("Exception", ""), self.is_final)
            case Kind.INVALID:
                return Invalid(self.reason or Reason.RESULT_INVALID, self.failure or Failure("Exception", ""))
            case _:
                assert_never(self.kind)


class Ended(Struct, frozen=True, tag="ended"):
    """Runner: the handler's code has stopped. Without a verdict it was told to and did. ``memory``: bytes occupied since."""

    verdict: Verdict | None = None
    memory: int = 0


FromWorker = Run | Told | Lost | Answered | Finish
FromRunner = Ready | Refused | Begun | Unknown | Progressed | Checkpointed | Enqueued | Ended
Message = FromWorker | FromRunner

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One message as bytes."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Bytes as one message."""
    return _decoder.decode(data)

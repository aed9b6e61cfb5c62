"""Messages between a supervisor and its worker over their pipe."""

from collections.abc import Sequence
from itertools import accumulate
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.declared import Declared
from holdfast._core.job import RescueReason, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.schedule import DeclaredSchedule
from holdfast._core.table_spec import RowsSettings
from holdfast._core.tallies import TallyDelta
from holdfast._engine.events import Event, EventName
from holdfast.settings import Settings

IDS = ("job", "lease")
"""Fields of events that are UUIDs."""
MOST_RESULTS = 16 * 2**20
"""Bytes of results in one message."""


class WorkerHello(Struct, frozen=True, tag="hello"):
    """Worker: the App is loaded; these are its settings, tasks and queues."""

    settings: Settings
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    limits: tuple[str, ...] = ()
    slots: int = 0
    listens: bool = False
    rows: tuple[RowsSettings, ...] = ()
    schedules: tuple[DeclaredSchedule, ...] = ()
    declared: Declared = Declared()

    @property
    def declares(self) -> tuple[str, ...]:
        """The entries in the list of its lease: all definitions in its code."""
        return (*(each.declaration for each in self.schedules), *self.declared.declarations)


class StartRefused(Struct, frozen=True, tag="refused"):
    """Worker: the App cannot be loaded, or the store is damaged; trying again will not help."""

    problems: tuple[str, ...]


class LeaseGranted(Struct, frozen=True, tag="leased"):
    """Supervisor: the worker's lease is open; start nothing past ``deadline`` (seconds on the lease's clock).

    ``is_isolated``: run one job that crashed before, and nothing else, then end.
    """

    lease: UUID
    worker: str
    deadline: float
    is_isolated: bool = False


class Ready(Struct, frozen=True, tag="ready"):
    """Worker: the store answers; the worker claims."""


class LeaseRenewed(Struct, frozen=True, tag="beaten"):
    """Supervisor: the lease was renewed by a beat that was sent early enough for this deadline."""

    deadline: float


class LeaseLost(Struct, frozen=True, tag="gone"):
    """Supervisor: the worker's lease has ended, and with it the right to its jobs."""


class CancelJobs(Struct, frozen=True, tag="cancelled"):
    """Supervisor: an operator wants these jobs stopped."""

    jobs: tuple[UUID, ...]


class ClaimsVoided(Struct, frozen=True, tag="voided"):
    """Supervisor: the jobs that the worker had claimed and not started are back in their queues; ``voids``: of its lease now."""

    voids: int


class ClaimsLost(Struct, frozen=True, tag="claims_lost"):
    """Worker: the answer of a claim of jobs that start later is lost, and the claim may still land; asks to void its claims."""


class Ping(Struct, frozen=True, tag="ping"):
    """Supervisor: asks for a ``Pong``, which shows that the worker's event loop runs."""


class Pong(Struct, frozen=True, tag="pong"):
    """Worker: its event loop runs. ``answered``: when the store last answered the worker, on the lease's clock.

    ``running``: its jobs whose code runs. ``claimed``: those it holds beside them. ``runners``: its processes for handlers.
    """

    answered: float
    is_idle: bool = False
    running: int = 0
    claimed: int = 0
    runners: int = 0


class TalliesSent(Struct, frozen=True, tag="tallies"):
    """Worker: what it counted since its last message of this kind; the counts outlive it in its supervisor."""

    delta: TallyDelta


class UndeliveredOutcomes(Struct, frozen=True, tag="undelivered"):
    """Worker: outcomes that the store has not acknowledged, in case the worker dies before it delivers them."""

    transitions: tuple[Transition, ...]

    @classmethod
    def of(cls, transitions: Sequence[Transition]) -> "UndeliveredOutcomes":
        """Return a message with as many as fit: more than the pipe takes would close it, and end the worker in the midst of an outage."""
        sizes = accumulate(len(each.result or b"") for each in transitions)
        return cls(tuple(each for each, size in zip(transitions, sizes, strict=True) if size <= MOST_RESULTS))


class AttemptWaiting(Struct, frozen=True, tag="waiting"):
    """Worker: a job with a limit on its progress waits for a runner; its clocks start with its code."""

    job: UUID
    token: Token
    progress_within: float


class AttemptStarted(Struct, frozen=True, tag="begun"):
    """Worker: the code of a job that has a limit started ``at`` this time of the lease's clock."""

    job: UUID
    token: Token
    at: float
    progress_within: float | None = None
    timeout: float | None = None


class AttemptProgressed(Struct, frozen=True, tag="moved"):
    """Worker: that job reported progress ``at`` this time; sent at once, even while the store is away."""

    job: UUID
    at: float


class AttemptStopped(Struct, frozen=True, tag="stopped"):
    """Worker: the code of that attempt has stopped."""

    job: UUID
    token: Token


class AttemptOverdue(Struct, frozen=True, tag="overdue"):
    """Worker: by its clock, an attempt in a runner has passed its ``timeout``; judge the limits now, not with the next watch."""


class DeadlineExceeded(Struct, frozen=True, tag="overrun"):
    """Supervisor: that attempt has passed a limit; stop its code."""

    job: UUID
    token: Token
    charge: RescueReason


class CodeUnresponsive(Struct, frozen=True, tag="deaf"):
    """Worker: the code of these jobs does not stop; only the end of the worker's process can end it."""

    jobs: tuple[UUID, ...]


class EventForwarded(Struct, frozen=True, tag="told"):
    """Supervisor: one of its events, for the worker's subscribers; fields that are not numbers are strings."""

    name: str
    fields: dict[str, str | bool | int | float | None]

    def event(self) -> Event:
        """Return the event as its subscribers would have received it in the supervisor."""
        fields = {key: UUID(value) if key in IDS and isinstance(value, str) else value for key, value in self.fields.items()}
        return Event(EventName(self.name), fields)


class DumpStacks(Struct, frozen=True, tag="dump"):
    """Supervisor: log where the coroutines of the worker's jobs wait; a dump of threads does not show it."""


class Drain(Struct, frozen=True, tag="drain"):
    """Supervisor: claim nothing more, let running jobs end within ``grace`` seconds, then stop them and exit."""

    grace: float


FromSupervisor = (
    LeaseGranted
    | LeaseRenewed
    | LeaseLost
    | CancelJobs
    | ClaimsVoided
    | DeadlineExceeded
    | Ping
    | EventForwarded
    | DumpStacks
    | Drain
)
FromWorker = (
    WorkerHello
    | StartRefused
    | Ready
    | AttemptWaiting
    | AttemptStarted
    | AttemptProgressed
    | AttemptStopped
    | AttemptOverdue
    | Pong
    | TalliesSent
    | UndeliveredOutcomes
    | CodeUnresponsive
    | ClaimsLost
)
Message = FromSupervisor | FromWorker

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return one message as bytes."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Read one message from its bytes."""
    return _decoder.decode(data)

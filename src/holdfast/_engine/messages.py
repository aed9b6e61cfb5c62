"""What a supervisor and its worker say to each other over their pipe."""

from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.lifecycle import Transition
from holdfast.settings import Settings


class Hello(Struct, frozen=True, tag="hello"):
    """Worker: the app is loaded; this is what it says."""

    settings: Settings
    tasks: tuple[str, ...]
    queues: tuple[str, ...]
    limits: tuple[str, ...] = ()


class Refused(Struct, frozen=True, tag="refused"):
    """Worker: the app cannot be loaded; trying again will not help."""

    problems: tuple[str, ...]


class Leased(Struct, frozen=True, tag="leased"):
    """Supervisor: your lease is open; start nothing past ``deadline`` (seconds on the lease's clock)."""

    lease: UUID
    worker: str
    deadline: float


class Ready(Struct, frozen=True, tag="ready"):
    """Worker: the store answers me; I claim."""


class Beaten(Struct, frozen=True, tag="beaten"):
    """Supervisor: the lease was renewed by a beat that was sent early enough for this deadline."""

    deadline: float


class Gone(Struct, frozen=True, tag="gone"):
    """Supervisor: your lease has ended; your jobs are not yours any more."""


class Cancelled(Struct, frozen=True, tag="cancelled"):
    """Supervisor: an operator wants these jobs stopped."""

    jobs: tuple[UUID, ...]


class Ping(Struct, frozen=True, tag="ping"):
    """Supervisor: does your event loop run?"""


class Pong(Struct, frozen=True, tag="pong"):
    """Worker: it runs. ``answered``: when the store last answered me, on the lease's clock."""

    answered: float
    is_idle: bool = False


class Undelivered(Struct, frozen=True, tag="undelivered"):
    """Worker: outcomes the store has not answered for a beat, in case I do not live to deliver them."""

    transitions: tuple[Transition, ...]


class Deaf(Struct, frozen=True, tag="deaf"):
    """Worker: the code of these jobs does not stop; only the end of my process can end it."""

    jobs: tuple[UUID, ...]


class Drain(Struct, frozen=True, tag="drain"):
    """Supervisor: claim nothing more, let running jobs end within ``grace`` seconds, then stop them and go."""

    grace: float


Message = Hello | Refused | Leased | Ready | Beaten | Gone | Cancelled | Ping | Pong | Undelivered | Deaf | Drain

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """One message as bytes."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Bytes as one message."""
    return _decoder.decode(data)

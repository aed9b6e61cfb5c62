"""What a message says, and where it goes: ids only, never a payload."""

import re
from collections.abc import Sequence
from urllib.parse import unquote
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._ports.transport import ClaimSource, Delivery, Hint

ALL = "=all"
"""The consumer of workers that serve every queue; no queue is called so."""


class Message(Struct, frozen=True, omit_defaults=True):
    """One job that is due. ``rescued``: why it was taken from its last worker. ``again``: nobody had come for it."""

    id: UUID
    rescued: str = ""
    again: bool = False


_NO_WORD = re.compile(r"[^A-Za-z0-9_:-]")
_message = msgspec.json.Decoder(Message)
_hint = msgspec.json.Decoder(Hint)
encode = msgspec.json.Encoder().encode


def subject_of(stream: str, queue: str) -> str:
    """Where jobs of a queue are published."""
    return f"{stream}.job.{_escaped(queue)}"


def subjects(stream: str) -> str:
    """Everything that the stream keeps."""
    return f"{stream}.job.*"


def wake_subject(stream: str) -> str:
    """Where hints go that are for everybody and kept for nobody."""
    return f"{stream}.wake"


def consumers(queues: Sequence[str] | None) -> tuple[str, ...]:
    """One for each queue."""
    return (ALL,) if queues is None else tuple(_escaped(queue) for queue in queues)


def filter_of(stream: str, consumer: str) -> str:
    """What a consumer gets."""
    return subjects(stream) if consumer == ALL else f"{stream}.job.{consumer}"


def delivery_of(subject: str, data: bytes, times: int, receipt: object) -> Delivery | None:
    """What was delivered, for the so-manieth time; ``None`` for rubbish, which anybody may send."""
    try:
        message = _message.decode(data)
    except msgspec.MsgspecError:
        return None
    via = ClaimSource.REDELIVERY if times > 1 else ClaimSource.SWEEP if message.again else ClaimSource.DELIVERY
    return Delivery(message.id, _plain(subject.rpartition(".")[2]), via, message.rescued, receipt)


def hint_of(data: bytes) -> Hint | None:
    """A hint for everybody."""
    try:
        return _hint.decode(data)
    except msgspec.MsgspecError:
        return None


def _escaped(queue: str) -> str:
    """A name that is one word of a subject, in which a dot, for one, ends a word."""
    return _NO_WORD.sub(lambda found: "".join(f"={byte:02x}" for byte in found[0].encode(errors="replace")), queue)


def _plain(escaped: str) -> str:
    return unquote(escaped.replace("=", "%"), errors="replace")

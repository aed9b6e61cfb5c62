"""What a message contains, and its subject: ids only, never a payload."""

import re
from collections.abc import Sequence
from urllib.parse import unquote
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._ports.transport import ClaimSource, Delivery, Hint

ALL = "=all"
"""The consumer of workers that serve every queue; no queue has this name."""


class Message(Struct, frozen=True, omit_defaults=True):
    """One job that is due. ``rescued``: why it was taken from its last worker. ``again``: no worker had fetched it."""

    id: UUID
    rescued: str = ""
    again: bool = False


_NO_WORD = re.compile(r"[^A-Za-z0-9_:-]")
_message = msgspec.json.Decoder(Message)
_hint = msgspec.json.Decoder(Hint)
encode = msgspec.json.Encoder().encode


def subject_of(stream: str, queue: str) -> str:
    """Return the subject for jobs of a queue."""
    return f"{stream}.job.{_escaped(queue)}"


def subjects(stream: str) -> str:
    """Return the pattern of all subjects that the stream keeps."""
    return f"{stream}.job.*"


def wake_subject(stream: str) -> str:
    """Return the subject of hints that go to every worker and are kept for none."""
    return f"{stream}.wake"


def consumers(queues: Sequence[str] | None) -> tuple[str, ...]:
    """Name one consumer for each queue."""
    return (ALL,) if queues is None else tuple(_escaped(queue) for queue in queues)


def filter_of(stream: str, consumer: str) -> str:
    """Return the subject that a consumer filters by."""
    return subjects(stream) if consumer == ALL else f"{stream}.job.{consumer}"


def delivery_of(subject: str, data: bytes, times: int, receipt: object) -> Delivery | None:
    """Decode a message that was delivered for the ``times``-th time; ``None`` for rubbish, which any client may send."""
    try:
        message = _message.decode(data)
    except msgspec.MsgspecError:
        return None
    via = ClaimSource.REDELIVERY if times > 1 else ClaimSource.SWEEP if message.again else ClaimSource.DELIVERY
    return Delivery(message.id, _plain(subject.rpartition(".")[2]), via, message.rescued, receipt)


def hint_of(data: bytes) -> Hint | None:
    """Decode a hint that goes to every worker."""
    try:
        return _hint.decode(data)
    except msgspec.MsgspecError:
        return None


def _escaped(queue: str) -> str:
    """Escape a name to one word of a subject, in which a dot, for example, ends a word."""
    return _NO_WORD.sub(lambda found: "".join(f"={byte:02x}" for byte in found[0].encode(errors="replace")), queue)


def _plain(escaped: str) -> str:
    return unquote(escaped.replace("=", "%"), errors="replace")

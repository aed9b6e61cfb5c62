"""The JSON of an enqueue: what ``enqueue.sql`` and ``enqueue_plain.sql`` read from their parameter."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct


class EnqueueKind(Struct, omit_defaults=True):
    """The values that some new jobs share, with the id and payload of each; a missing payload is in ``LongPayload``."""

    task: str
    queue: str
    priority: int
    delay: float
    policy: str
    ids: list[UUID]
    payloads: list[str | None]
    run_at: datetime | None = None
    tags: str | None = None
    extra: str | None = None
    expires_in: float | None = None
    key: str = ""
    unique_key: str | None = None
    state: str | None = None


class LongPayload(Struct, omit_defaults=True):
    """A payload that is too long for its job's row, or that is not text; then it is sent as hexadecimal digits."""

    job: UUID
    payload: str | None = None
    hex: str | None = None


class KeyRequest(Struct):
    """A unique key, the first job of the call that has it, and the terms of that job."""

    task: str
    key: str
    job: UUID
    digest: str
    period: float | None = None
    starts: bool = False


class Enqueue(Struct, omit_defaults=True):
    """The parameter of ``enqueue.sql`` and, without keys and parent, of ``enqueue_plain.sql``."""

    call: UUID
    kinds: list[EnqueueKind]
    payloads: list[LongPayload]
    is_durable: bool = False
    keys: list[KeyRequest] = []
    is_refused: bool = False
    parent: UUID | None = None
    parent_claim: UUID | None = None
    parent_number: int | None = None
    flow: UUID | None = None

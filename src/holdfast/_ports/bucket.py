"""The port to a bucket: objects by key, a conditional write, and a read.

Two answers count: a write that succeeded, and a read. Every other end of a write raises one error, ``BucketUnavailable``: the write may
have happened, may not have, or may still happen. A server reports a failed condition for a write that did land, and a client cannot
recognise that. The caller reads the object and looks for what it wrote.
"""

from datetime import datetime
from enum import Enum, StrEnum
from typing import Final, Literal, Protocol

from msgspec import Struct

from holdfast.errors import StoreUnavailable


class Marker(Enum):
    """What stands where there is no object to return."""

    ABSENT = "absent"
    UNCHANGED = "unchanged"


ABSENT: Final = Marker.ABSENT
"""There is no object of that key; as the condition of a write: there must not be one."""
UNCHANGED: Final = Marker.UNCHANGED
"""The object is still the one whose ETag the reader named."""

Absent = Literal[Marker.ABSENT]
Unchanged = Literal[Marker.UNCHANGED]


class Found(Struct, frozen=True):
    """An object as it was read. ``etag``: opaque, for conditions. ``modified``: when it was written, by the bucket's clock.

    A caller that reads what it has just written compares ``modified`` with its own clock.
    """

    body: bytes
    etag: str
    modified: datetime


class Listed(Struct, frozen=True):
    """An object in a list. ``modified``: when it was written, by the bucket's clock."""

    key: str
    size: int
    modified: datetime


class BucketProblem(StrEnum):
    """Why a call has no answer: for messages and for the pace of the next call. It never decides whether a write happened.

    ``CONDITION``: the server reports a failed condition. ``THROTTLED``: too many requests. ``DENIED``: missing permission or credentials.
    ``NO_BUCKET``: the bucket does not exist. ``REGION``: it is in another region. ``UNREACHABLE``: no connection, or no answer in time.
    ``SERVER``: every other answer, and a connection that was cut.
    """

    CONDITION = "condition"
    THROTTLED = "throttled"
    DENIED = "denied"
    NO_BUCKET = "no_bucket"
    REGION = "region"
    UNREACHABLE = "unreachable"
    SERVER = "server"


class BucketUnavailable(StoreUnavailable):
    """The bucket gave no answer that counts: whether a write happened is unknown. The message names the remedy."""

    def __init__(self, message: str, problem: BucketProblem) -> None:
        super().__init__(message)
        self.problem = problem


class Bucket(Protocol):
    """Objects below one prefix of a bucket. Keys are relative to the prefix. No call is repeated, and every error is
    ``BucketUnavailable``."""

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        """Read an object; ``UNCHANGED`` if its ETag is still ``unless``. A missing bucket is an error, not ``ABSENT``."""
        ...

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        """Write an object if the condition holds, and return its new ETag.

        ``match``: the ETag that the object must have, or ``ABSENT``. ``None`` writes in any case: for keys that are never written twice.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; succeed if it is absent."""
        ...

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        """Return all objects below a folder such as ``runs``, sorted by key; without a folder, all."""
        ...

    async def close(self) -> None:
        """Close all connections after the calls that wait already."""
        ...

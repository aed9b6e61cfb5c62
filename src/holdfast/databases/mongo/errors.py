"""The meaning of a driver's error, and of a reply of the server, for the caller of a verb."""

from collections.abc import Mapping
from typing import Any, Final

from pymongo import errors

from holdfast.errors import ConfigurationError, HoldfastError, StoreRefused, StoreUnavailable

DUPLICATE: Final = 11000
"""The code of a write that a unique index refuses."""

_REFUSED: Final = {
    13: "use a user that may read and write this database",
    18: "correct the user or the password",
    20: "this mongod is no replica set member: start it with --replSet rs0 and run rs.initiate() once; one member is enough",
    121: "the validator of this collection refuses the document: remove it, only Holdfast writes here",
    10334: "the document is larger than MongoDB's 16 MiB",
}
"""Codes that the same command gets again after any wait, with the remedy."""

_HOPELESS: Final = (errors.ConfigurationError, errors.InvalidURI, errors.InvalidOperation)


class Duplicate(Exception):
    """A unique index has refused a write, of which nothing was written. ``index``: its name."""

    def __init__(self, index: str) -> None:
        super().__init__(index)
        self.index = index


def raise_for_reply(public: str, reply: Mapping[str, Any]) -> None:
    """Raise what a reply with ``ok: 1`` reports of a write that failed, or whose majority did not answer.

    A primary that was deposed answers ``ok: 1`` with ``writeErrors`` or ``writeConcernError``, for a write that is undone later.
    """
    for failure in reply.get("writeErrors", ()):
        if failure.get("code") == DUPLICATE:
            raise Duplicate(index_in(failure.get("errmsg", "")))
        raise _failure(public, failure.get("code"), failure.get("errmsg", ""))
    if concern := reply.get("writeConcernError"):
        raise StoreUnavailable(f"{public}: a majority of the members did not confirm the write: {concern.get('errmsg', '')}")


def index_in(message: str) -> str:
    """Return the name of the index in the message of a duplicate key.

    >>> index_in("E11000 duplicate key error collection: d.jobs index: lock dup key: { lock: 1 }")
    'lock'
    """
    return message.partition(" index: ")[2].partition(" ")[0]


def statement_error(public: str, error: errors.PyMongoError) -> HoldfastError:
    """Return the error to raise for a verb whose command failed, with its remedy."""
    if isinstance(error, _HOPELESS):
        return ConfigurationError([f"{public}: {first_line(error)}: correct the URL"])
    if isinstance(error, errors.OperationFailure):
        return _failure(public, error.code, first_line(error))
    return StoreUnavailable(f"{public}: {first_line(error)}")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without the driver's description of the servers; or its kind if it is empty."""
    first = str(error).strip().partition("\n")[0].partition(", Timeout: ")[0]
    return first.partition(", full error: ")[0] or type(error).__name__


def _failure(public: str, code: int | None, message: str) -> HoldfastError:
    remedy = _REFUSED.get(code or 0)
    if remedy is None:
        return StoreUnavailable(f"{public}: {message}")
    if code == 10334 or code == 121:
        return StoreRefused(f"{public}: {message}: {remedy}")
    return ConfigurationError([f"{public}: {message}: {remedy}"])

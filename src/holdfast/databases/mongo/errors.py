"""The meaning of a driver's error, and of a reply of the server, for the caller of a verb."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pymongo import errors

from holdfast.errors import ConfigurationError, HoldfastError, StoreRefused, StoreUnavailable, Unsupported

DUPLICATE: Final = 11000
"""The code of a write that a unique index refuses."""

NOT_PERMITTED: Final = 13
TOO_LARGE: Final = 388
"""The code of a transaction that does not fit into the cache of the server."""
STANDALONE: Final = (
    "this mongod is no replica set member: start it with --replSet rs0 and run rs.initiate() once; one member is enough"
)
_OF_DOCUMENTS: Final = (121, TOO_LARGE, 10334)
_OF_USER: Final = (11, NOT_PERMITTED, 18, 391)
_OF_STANDALONE: Final = 20  # "Transaction numbers are only allowed on a replica set member or mongos"

_REFUSED: Final = {
    NOT_PERMITTED: "use a user that may read and write this database, such as one with its role readWrite",
    18: "correct the user or the password, or add authSource=admin to the URL if the user is one of the database admin",
    121: "the validator of this collection refuses the document: remove it, only Holdfast writes here",
    TOO_LARGE: "write fewer jobs in one call, or give the server a larger cache",
    10334: "the document is larger than MongoDB's 16 MiB",
}
"""Codes that the same command gets again after any wait, with the remedy."""

PASSING: Final = frozenset(
    (
        *(
            1,
            6,
            7,
            24,
            26,
            43,
            46,
            48,
            50,
            64,
            89,
            90,
            91,
            100,
            107,
            112,
            117,
            133,
            134,
            146,
            175,
            189,
            202,
            211,
            216,
            225,
            237,
            239,
        ),
        *(246, 251, 262, 264, 267, 276, 279, 290, 308, 355, 365, 371, 402, 407, 433, 449, 462),
        *(8000, 9001, 10107, 11600, 11601, 11602, 13435, 13436, 14031),
    )
)
"""Codes of failures that end by themselves, or by what an operator does: elections, interruptions, limits of time, memory and disks."""

_ANONYMOUS: Final = "requires authentication"
_SIGN_IN: Final = "name a user and a password in the URL: mongodb://user:password@host/database?authSource=admin"
_COMMAND: Final = re.compile(r"\bcommand \{ (\w+):.*\}")
"""A command as the server repeats it in a refusal, with all that the driver adds to it."""
_RETRYABLE: Final = "RetryableWriteError"
_HOPELESS: Final = (errors.ConfigurationError, errors.InvalidURI, errors.InvalidOperation)
_NO_SESSIONS: Final = "Sessions are not supported"
"""What the driver reports of a member that starts, recovers or rolls back, and is reached directly."""


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
    if _is_hopeless(error):
        return ConfigurationError([f"{public}: {first_line(error)}: correct the URL"])
    if isinstance(error, errors.OperationFailure):
        return _failure(public, error.code, first_line(error))
    return StoreUnavailable(f"{public}: {first_line(error)}")


def refusal_of(error: HoldfastError) -> str | None:
    """Return what the server, or the driver for it, cannot do at all; ``None`` if the error may pass, or comes from a missing right."""
    cause = error.__cause__
    if isinstance(cause, errors.OperationFailure):
        is_lasting = cause.code not in PASSING and cause.code not in _OF_USER and not cause.has_error_label(_RETRYABLE)
        return first_line(cause) if is_lasting else None
    return first_line(cause) if cause is not None and _is_hopeless(cause) else None


def is_not_permitted(error: HoldfastError) -> bool:
    """Return whether the server refuses a command because the user has no right to it."""
    return isinstance(error.__cause__, errors.OperationFailure) and error.__cause__.code == NOT_PERMITTED


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without the driver's description of the servers; or its kind if it is empty."""
    first = str(error).strip().partition("\n")[0].partition(", Timeout: ")[0]
    return _COMMAND.sub(r"the command \1", first.partition(", full error: ")[0]) or type(error).__name__


def _is_hopeless(error: BaseException) -> bool:
    return isinstance(error, _HOPELESS) and not str(error).startswith(_NO_SESSIONS)


def _failure(public: str, code: int | None, message: str) -> HoldfastError:
    if code == _OF_STANDALONE:
        return Unsupported(f"{public}: {STANDALONE}")
    remedy = _SIGN_IN if code == NOT_PERMITTED and _ANONYMOUS in message else _REFUSED.get(code or 0)
    if remedy is None:
        return StoreUnavailable(f"{public}: {message}")
    if code in _OF_DOCUMENTS:
        return StoreRefused(f"{public}: {message}: {remedy}")
    return ConfigurationError([f"{public}: {message}: {remedy}"])

"""Whether the token of a job can be checked in a transaction on the user's own connection."""

from uuid import UUID

from holdfast._core.job import Token
from holdfast.errors import JobLost, Unsupported

READ_COMMITTED = "read committed"


def require_none_open(*, is_open: bool) -> None:
    """Raise ``Unsupported`` if a transaction is open: the block would not end it, so its check would not be the last statement."""
    if is_open:
        raise Unsupported(
            "within: the connection has an open transaction, and job.transaction() needs one that begins and ends with its block: "
            "commit or roll back before the block; a session begins a transaction with its first query or object"
        )


def require_level(isolation: str, *, is_lasting: bool) -> None:
    """Raise ``Unsupported`` unless the transaction is READ COMMITTED and lasts for more than one statement."""
    if not is_lasting:
        raise Unsupported(
            "within: the connection commits each statement by itself, so no check can be part of its transaction: "
            "give job.transaction() one without AUTOCOMMIT"
        )
    if isolation != READ_COMMITTED:
        raise Unsupported(
            f"within: the transaction is {isolation.upper()}, and progress that is written during the block would make its commit fail: "
            "give job.transaction() a connection with the isolation level READ COMMITTED, or leave out within="
        )


def require_one_connection(*, is_other: bool) -> None:
    """Raise ``Unsupported`` for a second connection in one transaction of a session: two connections commit one after the other."""
    if is_other:
        raise Unsupported(
            "within: the session reached a second connection, whose commit would be another one: rows commit together with the check "
            "only on the connection to the App's database. Write the other rows after the block"
        )


def require_blocking(kind: type, *, is_awaited: bool) -> None:
    """Raise ``Unsupported`` for a connection that is awaited, in code that cannot await it."""
    if is_awaited:
        raise Unsupported(
            f"within: a {kind.__module__}.{kind.__qualname__} is awaited: use `async with job.transaction(within=…)` in an "
            "`async def` handler, or give a connection that is not awaited"
        )


def require_ours(job: UUID, token: Token, *, is_ours: bool) -> None:
    """Raise ``JobLost`` unless the job is active under the token; nothing of the transaction may be kept then."""
    if not is_ours:
        raise JobLost(f"job {job} is no longer active under token {token}; nothing of this transaction is kept")

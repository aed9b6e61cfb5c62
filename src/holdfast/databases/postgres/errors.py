"""The meaning of a driver's error for the caller of a verb."""

import asyncio
import re
from typing import Final
from urllib.parse import unquote, urlsplit

import asyncpg

from holdfast.errors import ConfigurationError, HoldfastError, SchemaMissing, StoreBusy, StoreRefused, StoreUnavailable

Errors = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
    asyncio.IncompleteReadError,
)
"""All that the driver raises when a statement fails or the server does not answer; a ``TimeoutError`` is an ``OSError``."""

Refused = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Errors of a statement that changed nothing, because another session was in the way: to be sent again at once."""

MIGRATE: Final = "run `holdfast migrate module:app`, or app.migrate()"

ROLES: Final = "`holdfast migrate --roles --url URL`"
"""The command that makes roles with rights, for the owner of the schema: another user's own URL would not do."""
_ROLE: Final = f"use a role that may; {ROLES}, with the URL of the schema's owner, makes such roles and prints how to grant them"
_PRIMARY: Final = "check that the URL names the primary, or all servers (postgresql://user@one,two/database)"
STANDBY: Final = f"is read-only: a standby, or not recovered yet: {_PRIMARY}"
_WRITABLE: Final = f"{_PRIMARY}, and that default_transaction_read_only is off: `holdfast check` names what sets it"

UNLOCK: Final = (
    "another session keeps a lock; `SELECT pid, state, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start` "
    "names the oldest first, and pg_terminate_backend(pid) ends one"
)

_REFUSALS: Final = ("09", "0A", "22", "23", "25", "27", "2F", "38", "39", "42", "44", "55", "P0")
"""Classes of SQLSTATE by which the server refuses a statement each time it is sent: the server is up, and waiting does not help.
Besides faults of the statement itself, these are errors that triggers, functions, constraints and publications raise."""

_TRANSIENT: Final = (
    asyncpg.ReadOnlySQLTransactionError,  # a fail-over: another server takes the write, and a new connection finds that server
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.LockNotAvailableError,
    asyncpg.ObjectInUseError,
    asyncpg.InvalidCachedStatementError,  # a migration has changed a table since the statement was planned
)
"""Errors of these classes that end without an operator."""

_NO_CONNECT: Final = re.compile(r'permission denied for database ("(?:[^"]|"")+")')

_TRY: Final = "`holdfast check` moves a job in a transaction that it rolls back, and names what is refused"
_IDENTITY: Final = (
    "a publication includes this table: ALTER TABLE … REPLICA IDENTITY FULL, or leave holdfast's tables out of the publication; "
    "`holdfast check` names each table"
)

_HOPELESS: Final = {
    asyncpg.InvalidPasswordError: "correct the user or the password",
    asyncpg.InvalidAuthorizationSpecificationError: "correct the user, or let it in by pg_hba.conf",
    asyncpg.InvalidCatalogNameError: "create the database, or name another",
    asyncpg.UndefinedObjectError: "leave that option out of the URL",
    asyncpg.ClientConfigurationError: "correct the URL",
    asyncpg.InsufficientPrivilegeError: _ROLE,
}


def statement_error(name: str, public: str, error: BaseException) -> HoldfastError:
    """Return the error to raise for a verb whose statement failed, with its remedy."""
    cause = first_line(error)
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedColumnError():
            return SchemaMissing(f"{name}: {public}: {cause}: {MIGRATE}")
        case asyncpg.InsufficientPrivilegeError():
            return ConfigurationError([f"{name}: {public}: {cause}: {_ROLE}"])
        case asyncpg.LockNotAvailableError():
            return StoreBusy(f"{name}: {public}: {cause}: {UNLOCK}")
        case asyncpg.ReadOnlySQLTransactionError():
            return StoreUnavailable(f"{name}: {public} is read-only: {cause}: {_WRITABLE}")
        case asyncpg.DiskFullError():
            return StoreUnavailable(f"{name}: {public}: {cause}: check that the disk of the server is not full")
        case asyncpg.PostgresError() if is_refusal(error):
            return StoreRefused(f"{name}: {public}: {cause}: {_IDENTITY if 'replica identity' in cause else _TRY}")
        case _:
            return StoreUnavailable(f"{name}: {public}: {cause}")


def is_refusal(error: asyncpg.PostgresError) -> bool:
    """Return whether the server would refuse the same statement again, after any wait."""
    return (error.sqlstate or "").startswith(_REFUSALS) and not isinstance(error, _TRANSIENT)


def connect_error(public: str, error: BaseException) -> HoldfastError:
    """Return the error to raise for a failed connect; one that waiting does not end is a ``ConfigurationError``."""
    cause = first_line(error)
    if isinstance(error, asyncpg.InsufficientPrivilegeError) and (found := _NO_CONNECT.match(cause)):
        grant = f"GRANT CONNECT ON DATABASE {found[1]} TO {_user_of(public)}"
        return ConfigurationError([f"{public}: {cause}: as the owner of the database: `{grant}`"])
    for kind, remedy in _HOPELESS.items():
        if isinstance(error, kind):
            return ConfigurationError([f"{public}: {cause}: {remedy}"])
    if isinstance(error, asyncpg.ProtocolViolationError) and "startup parameter" in cause:
        return ConfigurationError([f"{public}: {cause}: this is a pooler, add ?pooler=transaction to the URL"])
    return StoreUnavailable(f"{public} cannot be reached: {cause}")


def _user_of(public: str) -> str:
    """Return the user of a URL, quoted, as SQL takes it; without one, the word that stands for all."""
    user = urlsplit(public).username
    return "PUBLIC" if user is None else '"{}"'.format(unquote(user).replace('"', '""'))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its kind if the message is empty."""
    first = str(error).strip().partition("\n")[0]
    return first or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


class RolledBack(Exception):
    """Raised in a transaction, between two of its statements, so that it is rolled back; its connection can be used again."""


def require_open(error: BaseException, *, was_closed: bool) -> None:
    """Raise what the driver raises for a closed connection, if it was closed between two steps of a call: the driver does not expect it."""
    if was_closed and isinstance(error, AttributeError):
        raise asyncpg.InterfaceError("the connection was closed during the call") from error


def leaves_connection_sound(error: BaseException) -> bool:
    """Return whether the server takes another statement on the same connection after this error."""
    if isinstance(error, RolledBack):
        return True
    if not isinstance(error, asyncpg.PostgresError) or isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return False
    return not (error.sqlstate or "08").startswith(("08", "57P", "58", "XX"))

"""What an error of the driver means for whoever called a verb."""

import asyncio
from typing import Final

import asyncpg

from holdfast.errors import ConfigurationError, HoldfastError, SchemaMissing, StoreUnavailable
from holdfast.stores.postgres.schema import MIGRATE

Errors = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    EOFError,
    asyncio.IncompleteReadError,
)
"""All that the driver raises when a statement fails or nobody answers; a ``TimeoutError`` is an ``OSError``."""

Refused = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Nothing happened, because somebody else was in the way: to be sent again at once."""

_BUGS: Final = ("22", "23", "42", "0A")
_HOPELESS: Final = {
    asyncpg.InvalidPasswordError: "correct the user or the password",
    asyncpg.InvalidAuthorizationSpecificationError: "correct the user, or let it in by pg_hba.conf",
    asyncpg.InvalidCatalogNameError: "create the database, or name another",
    asyncpg.UndefinedObjectError: "leave that option out of the URL",
    asyncpg.ClientConfigurationError: "correct the URL",
}


def of_statement(name: str, public: str, error: BaseException) -> HoldfastError:
    """Why a verb's statement has no answer."""
    said = said_by(error)
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedColumnError():
            return SchemaMissing(f"{name}: {public}: {said}: {MIGRATE}")
        case asyncpg.InsufficientPrivilegeError():
            return ConfigurationError([f"{name}: {public}: {said}: use a role that may, see `holdfast migrate --roles`"])
        case asyncpg.ReadOnlySQLTransactionError():
            return StoreUnavailable(f"{name}: {public} is read-only: {said}")
        case asyncpg.PostgresError() if (error.sqlstate or "").startswith(_BUGS):
            return HoldfastError(f"{name}: {public}: {said}")
        case _:
            return StoreUnavailable(f"{name}: {public}: {said}")


def of_connecting(public: str, error: BaseException) -> HoldfastError:
    """Why there is no connection; what does not end by waiting is a problem of the settings."""
    said = said_by(error)
    for kind, remedy in _HOPELESS.items():
        if isinstance(error, kind):
            return ConfigurationError([f"{public}: {said}: {remedy}"])
    if isinstance(error, asyncpg.ProtocolViolationError) and "startup parameter" in said:
        return ConfigurationError([f"{public}: {said}: this is a pooler, add ?pooler=transaction to the URL"])
    return StoreUnavailable(f"{public} cannot be reached: {said}")


def said_by(error: BaseException) -> str:
    """One line, never without a word."""
    first = str(error).strip().partition("\n")[0]
    return first or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


def leaves_connection_sound(error: BaseException) -> bool:
    """Whether the server has refused one statement, and takes the next one."""
    if not isinstance(error, asyncpg.PostgresError) or isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return False
    return not (error.sqlstate or "08").startswith(("08", "57P", "58", "XX"))

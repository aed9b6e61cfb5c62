"""The check of a job's token on the user's own connection, of any library that the store knows."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from holdfast._core.job import Token


class OwnConnections(Protocol):
    """The verb of stores whose ``job.transaction`` takes the user's connection; they have the capability ``caller_transaction``."""

    def transaction_within(
        self, connection: Any, job: UUID, token: Token, *, idle: float
    ) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        """Return a block that is one transaction on the connection, and commits only if the job is still active under its token.

        It is awaited if the connection is. Otherwise it raises ``JobLost``, at entry, and at the end with the last statement before the
        commit, which locks the job. What the library has not sent yet is sent before. Raises ``Unsupported`` for another kind of
        connection, another database, an open transaction, or an isolation level that does not allow the check.
        """
        ...

"""A handler's own rows, committed together with the check of its token."""

from datetime import datetime
from pathlib import Path
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.own_connection import require_ours
from holdfast._ports.clock import Randomness
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.transactions import TransactionTurns, UserTransaction
from holdfast.databases.sqlite.values import Values, micros_of
from holdfast.stores.sqlite.database import QUERIES


def owned(job: UUID, token: Token) -> Values:
    """Return the parameters by which a query asks for a job under its token."""
    claim = None if token.claim is None else token.claim.bytes
    return {"job": job.bytes, "claim_id": claim, "claim_number": token.number}


class Transaction(UserTransaction):
    """A job's transaction; it raises ``JobLost`` once the job's token is no longer valid."""

    what, beside = "job.transaction()", "together with the check that the job is still yours"

    def __init__(
        self,
        path: Path,
        job: UUID,
        token: Token,
        *,
        idle: float,
        hook_due_at: datetime | None = None,
        chance: Randomness,
        turns: TransactionTurns,
        spares: SpareConnection,
        busy_limit: float,
    ) -> None:
        super().__init__(path, idle=idle, chance=chance, turns=turns, spares=spares, busy_limit=busy_limit)
        self._job, self._token = job, token
        self._values: Values = {**owned(job, token), "hook_due_at": micros_of(hook_due_at)}
        self._check, self._last_statement = ("is_active", "is_active") if hook_due_at is None else ("is_hook_owed", "clear_hook")

    def before(self, connection: driver.Connection) -> None:
        self._require_token(connection, self._check)

    def at_the_end(self, connection: driver.Connection) -> None:
        self._require_token(connection, self._last_statement)

    def _require_token(self, connection: driver.Connection, query: str) -> None:
        answered = connection.execute(QUERIES[query].statement, self._values)
        is_ours = answered.rowcount == 1 if query == "clear_hook" else bool(answered.fetchall())
        require_ours(self._job, self._token, is_ours=is_ours)

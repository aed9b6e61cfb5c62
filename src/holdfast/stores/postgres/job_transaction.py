"""A handler's own rows, committed together with the check of its token."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.own_connection import require_level, require_ours
from holdfast.databases.postgres.transactions import UserTransaction
from holdfast.stores.postgres import caller_transactions as within

_STATE = "SELECT current_setting('holdfast_job.transaction', true), current_setting('transaction_isolation')"


class Transaction(UserTransaction):
    """A job's transaction; it raises ``JobLost`` once the job's token is no longer valid."""

    what, beside = "job.transaction()", "together with the check that the job is still yours"

    def __init__(
        self,
        job: UUID,
        token: Token,
        *,
        idle: float,
        hook_due_at: datetime | None,
        text: Callable[[str], str],
        public: str,
        now: Callable[[], float],
    ) -> None:
        self._job, self._token, mark = job, token, f"{job} {token.number}"
        name, hook = ("transaction", ()) if hook_due_at is None else ("hook", (hook_due_at,))
        named, limit = (job, token.claim, token.number), str(max(1, round(idle * 1000)))
        begins = (text(f"{name}_begins"), (*named, limit, mark, *hook))
        super().__init__(begins, (text(f"{name}_ends"), (*named, *hook)), mark=mark, idle=idle, public=public, now=now)

    def _require(self, is_ours: bool) -> None:
        require_ours(self._job, self._token, is_ours=is_ours)


def open_within(
    transaction: Transaction, look: Callable[[object], within.Dialogue[None]], source: object
) -> within.Dialogue[None]:
    """Check the caller's connection and the token as the first statements of a block. ``look``: whether it is the store's database."""
    yield from look(source)
    ((is_ours, *_),) = yield within.as_text(transaction.begins)
    ((mark, isolation),) = yield (_STATE,)
    require_level(isolation, is_lasting=transaction.has(mark))
    transaction.begun(is_ours is True)


def close_within(transaction: Transaction, source: object) -> within.Dialogue[None]:
    """Check the token, and lock the job, as the last statement of a block."""
    del source
    ((is_ours, mark),) = yield within.as_text(transaction.ends)
    transaction.ended(is_ours is True, mark)

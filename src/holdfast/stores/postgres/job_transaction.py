"""A handler's own rows, committed together with the check of its token."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from holdfast._core.job import Token
from holdfast.databases.postgres.transactions import UserTransaction
from holdfast.errors import JobLost


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
        if not is_ours:
            raise JobLost(f"job {self._job} is no longer active under token {self._token}; nothing of this transaction is kept")

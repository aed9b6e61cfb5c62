"""Calls of handlers to the store that have no answer yet, by attempt: a handler that must stop does not wait for them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from uuid import UUID

from holdfast._core.job import ActiveJob, Token
from holdfast._engine.environment import Environment
from holdfast._engine.retry import Retrier
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast.errors import JobLost

Answer = TypeVar("Answer")


class AttemptCalls:
    """Sends verbs for handlers until the store answers. ``lost``: learns which attempts have lost their job."""

    def __init__(self, environment: Environment, reports: AttemptReporter, *, lost: Callable[[UUID, Token], None]) -> None:
        self._retrier = Retrier(environment.clock, environment.chance, environment.events)
        self._reports, self._lost = reports, lost
        self.waiting: dict[tuple[UUID, Token], set[asyncio.Future[Any]]] = {}

    async def call(self, job: ActiveJob, operation: str, verb: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer of the store."""
        asking = asyncio.ensure_future(self._retrier.call(operation, verb))
        self.waiting.setdefault((job.id, job.token), set()).add(asking)
        try:
            with self._reports.waiting_for_store(job):
                return await asking
        finally:
            self._forget(job, asking)

    def require(self, job: ActiveJob, *, is_lost: bool) -> None:
        """Raise ``JobLost`` if the store answered that the job belongs to another attempt, and stop its handler."""
        if is_lost:
            self._lost(job.id, job.token)
            raise JobLost(f"job {job.id} was taken from this attempt")

    def interrupt(self, job: ActiveJob) -> None:
        """Cancel the calls of a handler that must stop: they must not hold it up while the store does not answer."""
        for asking in self.waiting.get((job.id, job.token), ()):
            asking.cancel()

    def _forget(self, job: ActiveJob, asking: "asyncio.Future[Any]") -> None:
        left = self.waiting[job.id, job.token]
        left.discard(asking)
        if not left:
            del self.waiting[job.id, job.token]

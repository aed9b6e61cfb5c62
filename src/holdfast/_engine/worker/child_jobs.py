"""Jobs that a handler enqueues: each is durable before the handler goes on, and only if the handler still owns its job."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import enqueue_call_id
from holdfast._core.job import ActiveJob, NewJob, Token
from holdfast._engine.client.announcement import announce
from holdfast._engine.environment import Environment
from holdfast._engine.retry import Retrier
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast.errors import JobLost


class ChildJobs:
    """The writer of child jobs: it uses the worker's connection and the token of the parent job."""

    def __init__(self, environment: Environment, reports: AttemptReporter, *, lost: Callable[[UUID, Token], None]) -> None:
        self._environment, self._store, self._chance = environment, environment.store, environment.chance
        self._retrier = Retrier(environment.clock, environment.chance, environment.events)
        self._reports, self._lost = reports, lost
        self.writing: dict[tuple[UUID, Token], set[asyncio.Future[EnqueueAnswer]]] = {}
        """The enqueues that have no answer yet, by their parents' attempts."""

    async def enqueue(self, job: ActiveJob, child: NewJob) -> EnqueueAnswer:
        """Return once the child is durable; raise ``JobLost``, and enqueue nothing, if the parent job has another owner."""
        call = enqueue_call_id(child.id, self._chance.uuid4())

        def write() -> Awaitable[EnqueueAnswer]:
            return self._store.enqueue(call, [child], under=(job.id, job.token))

        writing = asyncio.ensure_future(self._retrier.call("enqueue", write))
        self.writing.setdefault((job.id, job.token), set()).add(writing)
        try:
            with self._reports.waiting_for_store(job):
                answer = await writing
        finally:
            self._forget(job, writing)
        if answer.is_lost:
            self._lost(job.id, job.token)
            raise JobLost(f"job {job.id} was taken from this attempt")
        if not answer.duplicates:
            await announce(self._environment, [child])
        return answer

    def interrupt(self, job: ActiveJob) -> None:
        """Cancel the enqueues of a handler that must stop: they must not hold it up while the store does not answer."""
        for writing in self.writing.get((job.id, job.token), ()):
            writing.cancel()

    def _forget(self, job: ActiveJob, writing: "asyncio.Future[EnqueueAnswer]") -> None:
        left = self.writing[job.id, job.token]
        left.discard(writing)
        if not left:
            del self.writing[job.id, job.token]

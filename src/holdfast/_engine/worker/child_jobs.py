"""Jobs that a handler enqueues: durable when it goes on, and only while its own job is still its own."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import enqueue_call_id
from holdfast._core.job import ActiveJob, NewJob, Token
from holdfast._engine.client.announcement import announce
from holdfast._engine.environment import Environment
from holdfast._engine.retry import Retrier
from holdfast.errors import JobLost


class ChildJobs:
    """Writes them by the worker's own connection, under the token of the job that asks."""

    def __init__(self, environment: Environment, *, lost: Callable[[UUID, Token], None]) -> None:
        self._environment, self._store, self._chance = environment, environment.store, environment.chance
        self._retrier = Retrier(environment.clock, environment.chance, environment.events)
        self._lost = lost
        self._writing: dict[tuple[UUID, Token], set[asyncio.Future[EnqueueAnswer]]] = {}

    async def enqueue(self, hold: ActiveJob, child: NewJob) -> EnqueueAnswer:
        """Return once the child is durable. ``JobLost`` if the job is somebody else's: then there is no child."""
        call = enqueue_call_id(child.id, self._chance.uuid4())

        def write() -> Awaitable[EnqueueAnswer]:
            return self._store.enqueue(call, [child], under=(hold.id, hold.token))

        writing = asyncio.ensure_future(self._retrier.call("enqueue", write))
        self._writing.setdefault((hold.id, hold.token), set()).add(writing)
        try:
            answer = await writing
        finally:
            self._forget(hold, writing)
        if answer.is_lost:
            self._lost(hold.id, hold.token)
            raise JobLost(f"job {hold.id} was taken from this attempt")
        if not answer.duplicates:
            await announce(self._environment, [child])
        return answer

    def interrupt(self, hold: ActiveJob) -> None:
        """The handler is to stop: it must not wait here for a store that may not answer for long."""
        for writing in self._writing.get((hold.id, hold.token), ()) if self._writing else ():
            writing.cancel()

    def _forget(self, hold: ActiveJob, writing: "asyncio.Future[EnqueueAnswer]") -> None:
        left = self._writing[hold.id, hold.token]
        left.discard(writing)
        if not left:
            del self._writing[hold.id, hold.token]

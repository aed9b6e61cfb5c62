"""Jobs that a handler enqueues: each is durable before the handler goes on, and only if the handler still owns its job."""

from collections.abc import Awaitable

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import enqueue_call_id
from holdfast._core.job import ActiveJob, NewJob
from holdfast._engine.client.announcement import announce
from holdfast._engine.environment import Environment
from holdfast._engine.worker.attempt_calls import AttemptCalls


class ChildJobs:
    """The writer of child jobs: it uses the worker's connection and the token of the parent job."""

    def __init__(self, environment: Environment, calls: AttemptCalls) -> None:
        self._environment, self._calls = environment, calls

    async def enqueue(self, job: ActiveJob, child: NewJob) -> EnqueueAnswer:
        """Return once the child is durable; raise ``JobLost``, and enqueue nothing, if the parent job has another owner."""
        call = enqueue_call_id(child.id, self._environment.chance.uuid4())

        def write() -> Awaitable[EnqueueAnswer]:
            return self._environment.store.enqueue(call, [child], under=(job.id, job.token))

        answer = await self._calls.call(job, "enqueue", write)
        self._calls.require(job, is_lost=answer.is_lost)
        if not answer.duplicates:
            await announce(self._environment, [child])
        return answer

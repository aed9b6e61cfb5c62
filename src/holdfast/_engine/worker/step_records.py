"""The steps and signals of running jobs: each record is durable before the handler goes on, and only if it still owns its job."""

from functools import partial

from holdfast._core.job import ActiveJob
from holdfast._core.steps import SignalTaken, StepList, StepRecord
from holdfast._engine.store_defaults import steps
from holdfast._engine.worker.attempt_calls import AttemptCalls
from holdfast._ports.store import Store


class StepRecords:
    """The writer of steps: it uses the worker's connection and the token of the job. ``longest_nap``: one beat."""

    def __init__(self, store: Store, calls: AttemptCalls, *, longest_nap: float) -> None:
        self.longest_nap = longest_nap
        self._store, self._calls = store, calls

    async def read(self, job: ActiveJob) -> StepList:
        """Return the steps that all attempts have recorded."""
        return await self._calls.call(job, "steps", partial(steps(self._store).steps, job.id))

    async def record(self, job: ActiveJob, record: StepRecord) -> None:
        """Return once the record is durable."""
        write = partial(steps(self._store).record_step, job.id, job.token, record)
        self._calls.require(job, is_lost=not await self._calls.call(job, "record_step", write))

    async def take_signal(self, job: ActiveJob, name: str, record: StepRecord) -> SignalTaken:
        """Consume the oldest signal of that name as the result of this step."""
        take = partial(steps(self._store).take_signal, job.id, job.token, name, record)
        taken = await self._calls.call(job, "take_signal", take)
        self._calls.require(job, is_lost=taken.is_lost)
        return taken

"""The results of other jobs that a job's handler takes: read when it is claimed, so that they are those of the last attempts."""

from msgspec import structs

from holdfast._core.inputs import fill
from holdfast._core.job import Claim
from holdfast._engine.environment import Environment
from holdfast._engine.retry import Retrier
from holdfast._engine.store_defaults import workflows
from holdfast._engine.tasks.registry import TaskDefinition


class JobInputs:
    """The reader of results for claims that lack some."""

    def __init__(self, environment: Environment) -> None:
        self._store = environment.store
        self._retrier = Retrier(environment.clock, environment.chance, environment.events)

    async def filled(self, claim: Claim, task: TaskDefinition) -> Claim:
        """Return the claim with all its results. Raises ``PayloadInvalid`` if they do not fit, ``StoreUnavailable`` without an answer."""
        parents = list(dict.fromkeys(each.parent for each in claim.inputs))
        outputs = await self._retrier.call("outputs", lambda: workflows(self._store).outputs(parents))
        filled = fill(task.payload, claim.payload, claim.inputs, outputs)
        return structs.replace(claim, payload=filled.payload, inputs=(), failed=filled.failed)

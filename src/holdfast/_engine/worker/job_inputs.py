"""The results of other jobs that a job's handler takes: read when it is claimed, so that they are those of the last attempts."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from uuid import UUID

from msgspec import structs

from holdfast._core.children import Children
from holdfast._core.inputs import Filled, ResultUnfit, fill, fill_brought, spread, unfit
from holdfast._core.job import Claim, NewJob
from holdfast._core.member import Input, Member
from holdfast._core.workflow import Edge, NewMember, Output
from holdfast._engine.client.outputs import PAGE, with_rest
from holdfast._engine.environment import Environment
from holdfast._engine.retry import Retrier
from holdfast._engine.store_defaults import growing_workflows, workflows
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._engine.worker.shared_outputs import SharedOutputs
from holdfast.errors import PayloadInvalid, StoreUnavailable

Asked = asyncio.Task[Mapping[UUID, Output]]


class JobInputs:
    """The reader of results for claims that lack some."""

    def __init__(self, environment: Environment) -> None:
        self._store, self._chance = environment.store, environment.chance
        retrier = Retrier(environment.clock, environment.chance, environment.events)
        self._shared = SharedOutputs(lambda ids: retrier.call("outputs", partial(workflows(self._store).outputs, ids)))

    def ask(self, claim: Claim) -> Asked | None:
        """Return the read of the results that a claim lacks, joined with the reads of the claims that ask at the same time.

        ``None`` if it brought all of them.
        """
        lacking = [each.parent for each, result in zip_longest(claim.inputs, claim.results) if result is None]
        return self._shared.ask(lacking[:PAGE]) if lacking else None

    async def filled(self, claim: Claim, task: TaskDefinition, asked: Asked | None) -> Claim:
        """Return the claim with all its results.

        Raises ``PayloadInvalid`` if they do not fit, and ``StoreUnavailable`` without an answer.
        """
        if (payload := fill_brought(claim.payload, claim.inputs, claim.results)) is not None:
            return structs.replace(claim, payload=payload, inputs=(), results=())
        outputs = await self._outputs(claim, claim.inputs, asked)
        try:
            filled = fill(task.payload, claim.payload, claim.inputs, outputs)
        except ResultUnfit as error:
            raise await self.named(error) from error
        return structs.replace(
            claim, payload=filled.payload, inputs=(), results=(), failed=filled.failed, failed_items=filled.failed_items
        )

    async def items(self, claim: Claim, task: TaskDefinition, asked: Asked | None) -> Children:
        """Return a job for each item of the lists that a claim runs over. Raises as ``filled`` does."""
        shared = tuple(each for each in claim.inputs if not each.is_each)
        lists = [each for each in claim.inputs if each.is_each]
        outputs = await self._outputs(claim, lists, asked)
        try:
            payloads = spread(task.payload, claim.payload, lists, outputs)
        except ResultUnfit as error:
            raise await self.named(error) from error
        members = [NewMember(self._item(claim, task, each), _member(claim, place, shared)) for place, each in enumerate(payloads)]
        edges = tuple(Edge(each.job.id, claim.job.id) for each in members)
        return Children(members=tuple(members), edges=edges, is_gate=True)

    def find_unfit(self, filled: Claim, task: TaskDefinition, inputs: Sequence[Input]) -> ResultUnfit | None:
        """Return which of the results in a claim does not fit its parameter, if one does not: it decodes them one by one."""
        return unfit(task.payload, Filled(filled.payload, filled.failed, filled.failed_items), inputs)

    async def named(self, error: ResultUnfit) -> PayloadInvalid:
        """Return the error with the name of the node whose result it is, if the store answers with one."""
        try:
            parent = await self._store.get(error.parent)
        except StoreUnavailable:
            parent = None  # the name is not worth a wait
        return PayloadInvalid(str(error)) if parent is None or parent.member is None else error.named(parent.member.node)

    def require_growth(self) -> None:
        """Raise ``Unsupported`` if running jobs cannot add members to workflows of the store."""
        growing_workflows(self._store)

    async def _outputs(self, claim: Claim, inputs: Sequence[Input], asked: Asked | None) -> dict[UUID, Output]:
        brought = zip(claim.inputs, claim.results, strict=False)
        found: dict[UUID, Output] = {each.parent: result for each, result in brought if result is not None}
        found |= {} if asked is None else await asked
        parents = dict.fromkeys([each.parent for each in inputs])
        first = {parent: found[parent] for parent in parents if parent in found}
        unread = [parent for parent in parents if parent not in found] if len(inputs) > PAGE else []
        return await with_rest(self._shared.read, first, unread)

    def _item(self, claim: Claim, task: TaskDefinition, payload: bytes) -> NewJob:
        """Return the job of an item; the store gives it what its map has."""
        job = self._chance.uuid7()
        return NewJob(id=job, payload=payload, task=task.name, policy=task.policy, headers=claim.headers)


def _member(claim: Claim, place: int, inputs: tuple[Input, ...]) -> Member:
    return Member(flow=claim.job.flow or claim.job.id, node=f"[{place}]", inputs=inputs)

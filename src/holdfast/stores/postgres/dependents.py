"""Jobs that depend on jobs that exist already: their parents' workflows are locked, and what has ended is counted at once."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.dependencies import After, dependents_of, judged, require_known
from holdfast._core.graph import Verdict
from holdfast._core.job import NewJob
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.flow_plan import FlowPlan
from holdfast.stores.postgres.locked_flows import LockedFlows
from holdfast.stores.postgres.members import MemberMoves


class DependentVerbs(MemberMoves):
    """The part of the store that has the verb of ``DependentJobs`` in ``_ports.workflows``."""

    async def enqueue_after(self, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        self._may_be_known(jobs)

        async def enqueue(more: frozenset[UUID]) -> None:
            async with self._locking(more=more) as flows:
                if not await flows.fetch("receipt", call):
                    await _enqueue_after(flows, call, jobs, after)

        await self._with_flows("enqueue_after", enqueue)
        return answers.ALL


async def _enqueue_after(flows: LockedFlows, call: UUID, jobs: Sequence[NewJob], after: After) -> None:
    new = dependents_of(jobs, after, await _lock_parents(flows, after.parents))
    if await flows.fetch("receipt", call):
        return  # a copy of this call had the locks before
    waiting, verdict = judged(new, await flows.outside(after.parents))
    ids = [job.id for job in jobs]
    blocked = frozenset[UUID]() if verdict is Verdict.RELEASE else frozenset(ids)
    name, parameter = packing.enqueue(call, jobs, blocked=blocked, is_known=True)
    answers.enqueued(await flows.fetch(name, parameter), jobs)
    first = [edge for edge in new.edges if edge.child == ids[0]]
    parents = [edge.parent for edge in first], [edge.parent_flow for edge in first]
    await flows.fetch("insert_dependents", ids, after.required, waiting.needs, waiting.waits, *parents, after.tolerates)
    if verdict is Verdict.FAIL:
        await flows.know(ids)
        await flows.decide(partial(_begin, ids))


def _begin(flows: Sequence[UUID], plan: FlowPlan) -> None:
    for flow in flows:
        plan.begin(plan.flow(flow))


async def _lock_parents(flows: LockedFlows, parents: Sequence[UUID]) -> dict[UUID, UUID]:
    """Lock the workflows of these jobs, and return them; a plain job becomes the root of one. ``JobNotFound``."""
    found = await _places(flows, parents)
    begun = sorted(job for job, flow in found.items() if flow is None)
    if begun:
        await flows.fetch("begin_flows", begun)
    await flows.lock([job if flow is None else flow for job, flow in found.items()])
    while plain := [job for job, flow in (await _places(flows, parents)).items() if flow is None]:
        await flows.fetch("make_roots", plain)  # another session may be moving one of them: it is looked for again
    return {job: job if flow is None else flow for job, flow in found.items()}


async def _places(flows: LockedFlows, parents: Sequence[UUID]) -> dict[UUID, UUID | None]:
    found = {row["id"]: row["flow"] for row in await flows.fetch("places_of", list(parents))}
    require_known(parents, found)
    return found

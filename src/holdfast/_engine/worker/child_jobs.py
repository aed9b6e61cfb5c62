"""Jobs that a handler enqueues: each is durable before the handler goes on, and only if the handler still owns its job."""

from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.identity import enqueue_call_id
from holdfast._core.inputs import whole
from holdfast._core.job import ActiveJob, Failed, NewJob
from holdfast._core.member import Member
from holdfast._core.parents import parents_of
from holdfast._core.workflow import Items, NewMember
from holdfast._engine.client.announcement import announce
from holdfast._engine.client.outputs import read_outputs
from holdfast._engine.environment import Environment
from holdfast._engine.store_defaults import growing_workflows, workflows
from holdfast._engine.worker.attempt_calls import AttemptCalls


class ChildJobs:
    """The writer of child jobs: it uses the worker's connection and the token of the parent job."""

    def __init__(self, environment: Environment, calls: AttemptCalls) -> None:
        self._environment, self._calls = environment, calls

    async def enqueue(self, job: ActiveJob, child: NewJob, *, joins: bool) -> EnqueueAnswer:
        """Return once the child is durable; raise ``JobLost``, and enqueue nothing, if the parent job has another owner.

        ``joins``: it becomes a member of the workflow of the job, named by its task and its id.
        """
        store, under = self._environment.store, (job.id, job.token)
        call = enqueue_call_id(child.id, self._environment.chance.uuid4())
        member = Member(flow=job.flow or job.id, node=f"{child.task}-{child.id.hex[-8:]}")

        def write() -> Awaitable[EnqueueAnswer]:
            if joins:
                return growing_workflows(store).enqueue_member(call, NewMember(child, member), under=under)
            return store.enqueue(call, [child], under=under)

        answer = await self._calls.call(job, "enqueue_member" if joins else "enqueue", write)
        self._calls.require(job, is_lost=answer.is_lost)
        if not answer.duplicates:
            await announce(self._environment, [child])
        return answer

    async def outcomes(self, job: ActiveJob, children: Sequence[UUID]) -> Mapping[UUID, bytes | Failed]:
        """Return the outcomes of those of these children that have ended."""
        verbs = growing_workflows(self._environment.store)
        found = await read_outputs(lambda ids: self._calls.call(job, "outputs", partial(verbs.outputs, ids)), children)
        return {child: whole(found[child], found) for child in children if child in found}

    async def parents(self, job: ActiveJob) -> Mapping[str, Sequence[UUID]]:
        """Return, by the name of each node that the job depends on, the jobs whose outcomes are those of the node."""
        if job.flow is None:
            return {}
        verbs = workflows(self._environment.store)
        view = await self._calls.call(job, "flow", partial(verbs.flow, job.flow))
        parents = {} if view is None else parents_of(job.id, view)
        gates = [each.job for each in parents.values() if each.member.is_gate]
        found = await self._calls.call(job, "outputs", partial(verbs.outputs, gates)) if gates else {}
        outputs = {name: found.get(each.job) for name, each in parents.items()}
        return {name: each.jobs if isinstance(each, Items) else (parents[name].job,) for name, each in outputs.items()}

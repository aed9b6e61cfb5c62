"""The caller's side of workflows: store one, read it, steer it, repair it."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.dependencies import After
from holdfast._core.identity import enqueue_call_id
from holdfast._core.inputs import whole
from holdfast._core.job import PLACE_OF, NewJob, NoResult, Place, State
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter
from holdfast._core.workflow import FlowVerb, FlowView, NewFlow, Revived, SteerFlow
from holdfast._engine.client.acting import new_note
from holdfast._engine.client.announcement import announce_dependents, announce_flow
from holdfast._engine.client.outputs import read_outputs
from holdfast._engine.client.reviving import revive
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.flow_events import report_flows
from holdfast._engine.retry import Retrier
from holdfast._engine.store_defaults import dependents, has_workflows, workflows
from holdfast._ports.transport import Hint
from holdfast.errors import JobFailed, JobNotFound, PayloadTooLarge, StoreUnavailable, UniqueConflict

PAGE = 1000
MOST_READ = 20
"""Cancelled workflows whose running members are looked up, to wake their workers; the workers of others know at their next beat."""


class FlowCalls:
    """The verbs of workflows; each is sent again while the store is away."""

    def __init__(self, environment: Environment, retrier: Retrier) -> None:
        self._environment, self._store, self._events = environment, environment.store, environment.events
        self._retry = retrier.call

    async def enqueue_flow(self, new: NewFlow) -> EnqueueAnswer:
        """Store a workflow, all of it or nothing. ``UniqueConflict`` if one with another payload has its key."""
        root, verbs = new.root.job, workflows(self._store)
        call = enqueue_call_id(root.id, self._environment.chance.uuid4())
        answer = await self._retry("enqueue_flow", partial(verbs.enqueue_flow, call, new))
        require_no_flow_conflict(new, answer)
        if not answer.duplicates:
            await self.announce_flow(new)
        report_flows(self._store, self._events)
        return answer

    async def announce_flow(self, new: NewFlow) -> None:
        """Emit the events of a durable workflow's jobs, and wake idle workers."""
        await announce_flow(self._environment, new)

    async def enqueue_after(self, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        """Write jobs that wait for the same existing ones, all of them or none. ``JobNotFound`` if one of these is unknown."""
        if not jobs:
            return EnqueueAnswer()
        verbs, call = dependents(self._store), enqueue_call_id(jobs[0].id, self._environment.chance.uuid4())
        answer = await self._retry("enqueue_after", partial(verbs.enqueue_after, call, jobs, after))
        await announce_dependents(self._environment, jobs)
        return answer

    async def output(self, job: UUID) -> bytes:
        """Return the recorded result of a workflow that has completed.

        ``JobFailed`` if the member that it comes from did not complete, and its failure was accepted; ``JobNotFound`` if it is not stored
        any more.
        """
        read = workflows(self._store).outputs
        found = await read_outputs(lambda ids: self._retry("outputs", partial(read, ids)), [job])
        output = whole(found[job], found) if job in found else None
        if isinstance(output, bytes):
            return output
        if output is not None and output.error is not None and output.error.type == "PayloadTooLarge":
            raise PayloadTooLarge(f"job {job}: {output.error.message}: read the nodes one by one")
        if output is not None and output.reason != NoResult.RESULT_NOT_AVAILABLE:
            raise JobFailed(str(output.reason), output.error, ())
        raise JobNotFound(f"job {job} completed, and the result of its last node is not stored any more")

    async def roots(self, which: JobFilter) -> list[JobRecord]:
        """Return the own jobs of matching workflows, newest first."""
        workflows(self._store)
        found, page_size = list[JobRecord](), min(PAGE, which.limit)
        while len(found) < which.limit:
            asked = structs.replace(which, only_workflows=True, limit=page_size, before=found[-1].id if found else which.before)
            page = await self._retry("list", partial(self._store.list, asked))
            found += page
            if len(page) < page_size:
                break
        return found[: which.limit]

    async def flow(self, flow: UUID) -> FlowView:
        """Return a workflow with all its members; ``JobNotFound``, also for a plain job on which others depend."""
        found = await self._retry("flow", partial(workflows(self._store).flow, flow))
        if found is None or (len(found.members) == 1 and not found.members[0].member.is_gate):
            raise _unknown(flow)
        return found

    async def steer_flow(self, flow: UUID, how: SteerFlow) -> State:
        """Pause, resume, cancel or retry a workflow, and return its state now; ``JobNotFound``."""
        by = new_note(self._environment, f"workflow.{how.verb.value}", {"workflow": flow})
        given = {} if by is None else {"by": by}
        state = await self._retry("steer_flow", partial(workflows(self._store).steer_flow, flow, how, **given))
        if state is None:
            raise _unknown(flow)
        match how.verb:
            case FlowVerb.PAUSE:
                self._events.emit(EventName.WORKFLOW_PAUSED, workflow=flow)
            case FlowVerb.RESUME:
                failed = "retry" if how.is_retry else how.failed.value
                self._events.emit(EventName.WORKFLOW_RESUMED, workflow=flow, failed=failed)
            case FlowVerb.CANCEL:
                self._events.emit(EventName.JOB_CANCEL_REQUESTED, job=flow, state=state.value)
            case FlowVerb.RETRY:
                self._events.emit(EventName.JOB_REOPENED, job=flow, state=state.value)
        report_flows(self._store, self._events)
        if how.verb in (FlowVerb.RESUME, FlowVerb.RETRY):
            await self._environment.transport.publish([Hint("")])
        return state

    async def active_members(self, flows: Sequence[UUID]) -> list[UUID]:
        """Return the members of these workflows that workers own, for hints: none while the store is unreachable, as hints may be lost.

        Those of many workflows are left out, because each takes a read.
        """
        if not has_workflows(self._store):
            return []
        try:
            found = [await workflows(self._store).flow(flow) for flow in flows[:MOST_READ]]
        except StoreUnavailable:
            return []
        members = [member for each in found if each is not None for member in each.members]
        return [member.job for member in members if PLACE_OF[member.state] is Place.ACTIVE]

    async def revive(self, flow: UUID | None = None, *, dry_run: bool = False) -> Revived:
        """Repair all unfinished workflows, or this one, in batches of a write each, and report what was done.

        ``JobNotFound`` if there is nothing to repair because there is no workflow of this id.
        """
        done, is_first = Revived(), True
        while is_first or done.next is not None:
            found = await self._retry("revive", partial(revive, self._environment, after=done.next, flow=flow, dry_run=dry_run))
            done = Revived((*done.repairs, *found.repairs), (*done.overdue, *found.overdue), found.next)
            is_first = False
        if flow is not None and not done.repairs and not done.overdue:
            await self.flow(flow)
        return done


def require_no_flow_conflict(new: NewFlow, answer: EnqueueAnswer) -> None:
    """Raise ``UniqueConflict`` if an unfinished workflow with another payload has the key of this one."""
    root = new.root.job
    duplicate = answer.duplicates.get(root.id)
    if duplicate is not None and not duplicate.is_same:
        message = f"workflow {root.task}: job {duplicate.job} has the unique key {root.unique_key!r} and another payload"
        raise UniqueConflict(f"{message}: wait for it, cancel it, or use another key", duplicate.job)


def _unknown(flow: UUID) -> JobNotFound:
    why = "it never existed here, it is a plain job or a node (`holdfast jobs` takes it), or its retention has passed"
    return JobNotFound(f"no workflow has the id {flow}: {why}")

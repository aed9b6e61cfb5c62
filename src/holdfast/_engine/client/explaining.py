"""The facts behind an explanation: what a store has about workers, queues, limits and lanes that concern a job."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.audit import AuditFilter
from holdfast._core.explanation import Explanation, WorkerFacts, explain, waits_for_workflow
from holdfast._core.job import State
from holdfast._core.lane_cause import LaneFacts
from holdfast._core.limits import CountedBy, LimitView
from holdfast._core.member_causes import BECAUSE_OF_OTHERS, with_first_error
from holdfast._core.pauses import paused_by
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter
from holdfast._core.workflow_view import WorkflowView
from holdfast._engine.store_defaults import auditing, has_audit, limits, offers, workflows
from holdfast._ports.limits import Limits
from holdfast._ports.store import Store

PAUSES = AuditFilter(action="pause")
LOOKED = 500
"""The most jobs of a lane, and the most of the newest jobs, that an explanation looks at."""


async def explained(store: Store, job: JobRecord, now: datetime) -> Explanation:
    """Explain why the job is in its state."""
    queues = await store.queues()
    paused = {queue.name for queue in queues if queue.paused_at is not None}
    workers = tuple(map(_facts, await store.workers()))
    is_due = job.state is State.AVAILABLE
    counted = await limits_of(store, job) if is_due else ()
    lane = await lane_facts(store, job, queues) if is_due and workers else None
    workflow = await workflow_of(store, job)
    is_paused = job.queue in paused
    by = paused_by(job.queue, await auditing(store).audits(PAUSES)) if is_paused and has_audit(store) else ""
    return explain(job, is_paused=is_paused, paused_by=by, workers=workers, now=now, limits=counted, lane=lane, workflow=workflow)


async def workflow_of(store: Store, job: JobRecord) -> WorkflowView | None:
    """Return the workflow of a job that waits for others of it, is held by its pause, or ended because of them."""
    if job.member is None or not (waits_for_workflow(job) or job.reason in BECAUSE_OF_OTHERS):
        return None
    found = await workflows(store).flow(job.member.flow)
    if found is None:
        return None
    members = {each.job for each in found.members}
    parents = [parent for parent in found.members[-1].parents if parent not in members]
    rows = [await store.get(parent) for parent in parents[:LOOKED]]
    return WorkflowView.of(found, [row for row in rows if row is not None])


async def with_cause(store: Store, job: JobRecord) -> JobRecord:
    """Return the job; if it failed because of others of its workflow, with the error of the first of them in its own."""
    if job.state is not State.FAILED or job.error is None or job.reason not in BECAUSE_OF_OTHERS:
        return job
    workflow = await workflow_of(store, job)
    return job if workflow is None else structs.replace(job, error=with_first_error(job.error, workflow))


async def limits_of(store: Store, job: JobRecord) -> tuple[LimitView, ...]:
    """Return the limits that count the job, with what is used of them; none on a store without limits."""
    if not offers(store, Limits):
        return ()
    scopes = CountedBy(job.task, job.queue, job.key).scopes
    return tuple(view for view in await limits(store).limits(job.key) if view.scope in scopes)


async def lane_facts(store: Store, job: JobRecord, queues: Sequence[QueueView]) -> LaneFacts:
    """Return what is known of the job's lane and of the others, from one page of each."""
    waiting = await store.list(JobFilter(state=State.AVAILABLE, limit=LOOKED))
    before = await store.list(JobFilter(state=State.AVAILABLE, queue=job.queue, key=job.key, before=job.id, limit=LOOKED))
    newest = await store.list(JobFilter(limit=LOOKED))
    return LaneFacts(
        queue=job.queue,
        key=job.key,
        ahead=sum(row.priority <= job.priority for row in before),
        lanes=len({(row.queue, row.key) for row in (*waiting, job)}),
        overtakers=sum(_has_overtaken(row, job) for row in newest),
        weight=next((queue.settings.weight for queue in queues if queue.name == job.queue), 1),
    )


def _has_overtaken(row: JobRecord, job: JobRecord) -> bool:
    taken = row.claimed_at or row.started_at
    is_other = (row.queue, row.key) != (job.queue, job.key) and row.priority >= job.priority
    return is_other and taken is not None and taken > job.available_at


def _facts(lease: LeaseView) -> WorkerFacts:
    return WorkerFacts(
        name=lease.worker,
        tasks=lease.tasks,
        queues=lease.queues,
        free=lease.slots - (lease.holds - lease.claimed),
        slots=lease.slots,
        is_isolated=lease.is_isolated,
        is_draining=lease.is_draining,
        overdue=lease.overdue,
    )

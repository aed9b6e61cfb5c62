"""One batch of repairs of workflows: what supervisors do all the time, and operators at once."""

from uuid import UUID

from holdfast._core.workflow import Revived
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.flow_events import report_flows
from holdfast._engine.store_defaults import workflows
from holdfast._ports.transport import Hint


async def revive(
    environment: Environment, limit: int = 1, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False
) -> Revived:
    """Repair some unfinished workflows in one write, in the order of their ids, and end those past their deadline; report each.

    A workflow may have 10,000 nodes, whose settles, on SQLite all writes, wait for this one.
    """
    found = await workflows(environment.store).revive(limit, after=after, flow=flow, dry_run=dry_run)
    report_flows(environment.store, environment.events)
    if dry_run or not (found.repairs or found.overdue):
        return found
    events = environment.events
    for each in found.repairs:
        was, now = _waits_of(each.was), _waits_of(each.now)
        events.emit(EventName.WORKFLOW_REPAIRED, workflow=each.flow, job=each.job, node=each.node, **{"was": was, "is": now})
    for workflow in found.overdue:
        events.emit(EventName.WORKFLOW_TIMED_OUT, workflow=workflow)
    await environment.transport.publish([Hint("")])
    return found


def _waits_of(counters: tuple[int, int]) -> str:
    needs, waits = counters
    return f"needs {needs}, waits for {waits}"

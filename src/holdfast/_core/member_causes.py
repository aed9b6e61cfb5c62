"""Why a job of a workflow waits, is held or has ended: because of others, of a pause, or of an operator's decision that is missing."""

from collections.abc import Sequence
from math import inf

from msgspec import structs

from holdfast._core.cause import Cause, Code, clock
from holdfast._core.job import PLACE_OF, Failure, Place, Reason, State
from holdfast._core.record import JobRecord
from holdfast._core.workflow_view import NodeView, WorkflowView

SHOWN = 3
"""The most nodes that a cause names."""

BECAUSE_OF_OTHERS = (Reason.DEPENDENCY_FAILED, Reason.BY_WORKFLOW)


def pending_causes(job: JobRecord, workflow: WorkflowView) -> tuple[Cause, ...]:
    """Return why a blocked or held job of a workflow does not run."""
    if workflow.after and not workflow.nodes:
        return (_of_parents(job, workflow.after),)
    nodes = {node.name: node for node in workflow.nodes}
    is_root = job.id == workflow.id
    own = None if is_root else next((node for node in workflow.nodes if node.job == job.id), None)
    waits_for = [*nodes.values()] if own is None else [nodes[each] for each in own.after if each in nodes]
    left = [each for each in waits_for if PLACE_OF[each.state] is not Place.FINISHED]
    pause = () if workflow.paused_at is None else (_of_pause(job, workflow),)
    if job.state is State.HELD or (pause and not left):
        return pause
    what = f"it is the workflow {workflow.name}, and " if is_root else "it "
    some = f"{own.needs:,} of " if own is not None and 0 < own.needs < len(left) else ""
    waiting = f"{what}waits for {some}{_named(left)}" if left else f"{what}waits for other jobs of its workflow"
    see = f"`holdfast workflows show {workflow.id}` shows them all; `holdfast workflows cancel {workflow.id}` ends them"
    return *pause, Cause(Code.BLOCKED, waiting, f"{_ask(workflow.nodes)}; {see}")


def ended_cause(job: JobRecord, workflow: WorkflowView) -> Cause:
    """Return why a job has ended without running: others of its workflow did not complete, or all of it was cancelled."""
    again = f"`holdfast workflows retry {workflow.id}` runs again what did not complete"
    if workflow.paused_at is not None:
        again = f"{again}, once `holdfast workflows resume {workflow.id}` has ended its pause"
    if failed := [each for each in workflow.after if each.state in (State.FAILED, State.CANCELLED)]:
        again = f"`holdfast jobs retry {failed[0].job}` runs that job again, and this one after it"
    if job.reason is Reason.BY_WORKFLOW:
        return Cause(Code.FINISHED, f"it was cancelled with its workflow {workflow.name}", again)
    why = "others of its workflow did not complete" if job.error is None else job.error.message
    return Cause(Code.FINISHED, f"it {job.state.value}, because {why}", again)


def with_first_error(error: Failure, workflow: WorkflowView) -> Failure:
    """Return the error of a job that did not run because of others, with the error of the first of them that failed by itself."""
    nodes = [each for each in (*workflow.after, *workflow.nodes) if each.state is State.FAILED and each.error is not None]
    failed = [each for each in nodes if each.reason not in BECAUSE_OF_OTHERS]
    if not failed:
        return error
    first = min(failed, key=lambda node: inf if node.finished_at is None else node.finished_at.timestamp())
    return structs.replace(error, message=f"{error.message} ({first.name}: {first.error})")


def _of_parents(job: JobRecord, parents: Sequence[NodeView]) -> Cause:
    left = [each for each in parents if PLACE_OF[each.state] is not Place.FINISHED]
    needs = 0 if job.member is None else job.member.needs
    some = f"{needs:,} of " if 0 < needs < len(left) else ""
    waiting = f"it waits for {some}{_named(left)}" if left else "it waits for jobs that have just ended"
    return Cause(Code.BLOCKED, waiting, f"{_ask(parents)}; `holdfast jobs cancel {job.id}` ends it without them")


def _ask(nodes: Sequence[NodeView]) -> str:
    """Return what an operator does so that nodes go on: look at the first that waits for a decision or for a signal."""
    asking = next((node for node in nodes if (node.state is State.HELD and not node.is_paused) or node.awaits is not None), None)
    return "nothing to do" if asking is None else f"`holdfast jobs explain {asking.job}` shows what {asking.name} waits for"


def _of_pause(job: JobRecord, workflow: WorkflowView) -> Cause:
    since = "" if workflow.paused_at is None else f" since {clock(workflow.paused_at)}"
    held = "holds it" if job.state is State.HELD else "keeps it from going on"
    message = f"its workflow {workflow.name} is paused{since}, which {held}"
    resume = f"`holdfast workflows resume {workflow.id}` lets it go on"
    ended = (each for each in workflow.nodes if each.state in (State.FAILED, State.CANCELLED))
    failed = [each for each in ended if each.reason not in BECAUSE_OF_OTHERS]
    if not failed:
        return Cause(Code.PAUSED, message, resume)
    again = f"`holdfast workflows resume {workflow.id} --failed retry` runs those again"
    others = f"`holdfast workflows resume {workflow.id} --failed continue` runs what depends on them"
    remedy = f"{resume} and fails what depends on the failures that the pause held back; {again}; {others}"
    return Cause(Code.PAUSED, f"{message}; {_named(failed)} did not complete", remedy)


def _named(nodes: Sequence[NodeView]) -> str:
    more = f" and {len(nodes) - SHOWN:,} more" if len(nodes) > SHOWN else ""
    return ", ".join(f"{node.name} ({node.state.value})" for node in nodes[:SHOWN]) + more

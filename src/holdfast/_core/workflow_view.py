"""A workflow and its nodes as users read them; the command line and the pictures show the same."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from holdfast._core.job import Failure, Reason, State
from holdfast._core.member import Member
from holdfast._core.plain_view import PlainView
from holdfast._core.record import JobRecord
from holdfast._core.workflow import FlowView, MemberView


class NodeView(PlainView, frozen=True, kw_only=True):
    """A member of a workflow. ``after``: the names of those it depends on. ``is_paused``: the pause of the workflow holds it.
    ``awaits``: the signal for which it waits.

    ``needs`` and ``waits`` count while it is blocked: how many of them must still complete, and how many have not ended.
    """

    name: str
    job: UUID
    task: str
    state: State
    attempt: int
    reason: Reason | None
    error: Failure | None
    started_at: datetime | None
    finished_at: datetime | None
    after: tuple[str, ...]
    needs: int
    waits: int
    is_paused: bool
    awaits: str | None


def maps_that_ran(view: FlowView, node: UUID) -> list[str]:
    """Return the names of the maps that have run over a list which comes from this member, or from one behind it."""
    again, level = {node}, {node}
    while level:
        level = {each.job for each in view.members if not level.isdisjoint(each.parents)} - again
        again |= level
    maps = [each.member for each in view.members if each.member.is_map and each.member.is_gate]
    return [each.node for each in maps if any(taken.is_each and taken.parent in again for taken in each.inputs)]


class WorkflowView(PlainView, frozen=True, kw_only=True):
    """A workflow as read in one snapshot, with its nodes in the order in which they were added.

    ``after``: the jobs of other workflows for which its own job waits, or has waited; read only to explain that.
    """

    id: UUID
    name: str
    state: State
    reason: Reason | None
    error: Failure | None
    paused_at: datetime | None
    deadline_at: datetime | None
    finished_at: datetime | None
    nodes: tuple[NodeView, ...]
    after: tuple[NodeView, ...] = ()

    @classmethod
    def of(cls, view: FlowView, after: Iterable[JobRecord] = ()) -> "WorkflowView":
        """Return the view of a flow; ``after``: the jobs of others for which its root waits."""
        flow, (*members, root) = view.flow, view.members
        names = {each.job: each.member.node for each in members}
        return cls(
            id=flow.id,
            name=root.task,
            state=root.state,
            reason=root.reason,
            error=root.error,
            paused_at=flow.paused_at,
            deadline_at=flow.deadline_at,
            finished_at=root.finished_at,
            nodes=tuple(_node_of(each, names) for each in members),
            after=tuple(_node_of(_parent_of(each), {}) for each in after),
        )


def _parent_of(row: JobRecord) -> MemberView:
    name = f"{row.task} {row.id}"
    return MemberView(job=row.id, task=row.task, state=row.state, member=Member(flow=row.id, node=name), reason=row.reason)


def _node_of(view: MemberView, names: dict[UUID, str]) -> NodeView:
    return NodeView(
        name=view.member.node,
        job=view.job,
        task=view.task,
        state=view.state,
        attempt=view.attempt,
        reason=view.reason,
        error=view.error,
        started_at=view.started_at,
        finished_at=view.finished_at,
        after=tuple(names[each] for each in view.parents if each in names),
        needs=view.member.needs,
        waits=view.member.waits,
        is_paused=view.member.is_paused,
        awaits=view.awaits,
    )

"""The values of workflows: what members wait for, the new graph of an enqueue, the state of a flow, and what operators do and see.

A workflow is a job whose work is other jobs. Its own row, the root, is never claimed: it is ``blocked`` until its members have ended.
A flow is what the connected jobs share. The id of a flow is the id of its root.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Failed, Failure, NewJob, Reason, State
from holdfast._core.member import Member, OnFailure


class Edge(Struct, frozen=True):
    """A dependency. ``tolerates``: the child also counts a parent as a success that has ended in another way.

    ``is_child``: the job that waits has added the other one while it ran, and waits for it only after that. ``parent_flow``: the flow of
    the parent, if that is another one. Then the child is the root of its flow.
    """

    parent: UUID
    child: UUID
    tolerates: bool = False
    is_child: bool = False
    parent_flow: UUID | None = None


def gate_edges(gate: UUID, members: Iterable[UUID], edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Return the edges by which a gate waits for all these members, so that it ends when nothing of them runs any more.

    It fails with a member on which no other one depends. What the end of another member means, its dependents decide.
    """
    parents = {edge.parent for edge in edges}
    return tuple(Edge(member, gate, tolerates=member in parents) for member in members)


class NewMember(Struct, frozen=True):
    """A new job of a workflow, and what it is there. The store sets the counters."""

    job: NewJob
    member: Member


class NewFlow(Struct, frozen=True, kw_only=True):
    """A new workflow. The ``inputs`` of its root name the member whose result is that of the workflow. ``deadline``: seconds from now."""

    root: NewMember
    members: tuple[NewMember, ...] = ()
    edges: tuple[Edge, ...] = ()
    deadline: float | None = None


class WorkflowSettings(Struct, frozen=True, kw_only=True):
    """What the code of a workflow chooses for each of its runs. ``deadline``: seconds from the enqueue."""

    on_failure: OnFailure = OnFailure.FAIL
    deadline: float | None = None
    max_nodes: int = 10_000


class Flow(Struct, frozen=True, kw_only=True):
    """The state that the members of a flow share. ``ended_for``: why everything of it that has not finished is being cancelled."""

    id: UUID
    paused_at: datetime | None = None
    ended_for: Reason | None = None
    deadline_at: datetime | None = None

    @property
    def is_paused(self) -> bool:
        """Whether members wait for an operator. A flow that is being cancelled does not."""
        return self.paused_at is not None and self.ended_for is None


class FlowVerb(StrEnum):
    """What an operator does to a workflow."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"


class SteerFlow(Struct, frozen=True, kw_only=True):
    """An operator's verb for a workflow.

    ``failed``, of RESUME: what becomes of the failures that the pause held up: their dependents fail (FAIL) or run (CONTINUE), or,
    with ``is_retry``, the failed members run again. ``node``, of RETRY: this member and all behind it run again, too.
    """

    verb: FlowVerb
    failed: OnFailure = OnFailure.FAIL
    is_retry: bool = False
    node: UUID | None = None

    @property
    def reopens(self) -> bool:
        """Whether it runs what has ended again, also the root: then no other job may have its unique key."""
        return self.verb is FlowVerb.RETRY or (self.verb is FlowVerb.RESUME and self.is_retry)


class Items(Struct, frozen=True):
    """The outcome of a member that has run once for each item of a list: the jobs whose outcomes make up its own, in order."""

    jobs: tuple[UUID, ...]


Output = bytes | Failed | Items
"""The recorded outcome of a member: its result as JSON, or why there is none."""


class MemberView(Struct, frozen=True, kw_only=True):
    """A member as it is read, with the parents that it depends on. ``awaits``: the signal for which it waits."""

    job: UUID
    task: str
    state: State
    member: Member
    attempt: int = 0
    reason: Reason | None = None
    error: Failure | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    parents: tuple[UUID, ...] = ()
    awaits: str | None = None


class FlowView(Struct, frozen=True):
    """A flow and its members, in the order in which they were added; the root is the last one."""

    flow: Flow
    members: tuple[MemberView, ...]


class Repair(Struct, frozen=True, kw_only=True):
    """A blocked member whose counters were wrong: what they were, as (needs, waits), and what they are now."""

    flow: UUID
    job: UUID
    node: str
    was: tuple[int, int]
    now: tuple[int, int]


class Revived(Struct, frozen=True):
    """What a repair of workflows did. ``overdue``: those that it ended. ``next``: where to go on; ``None``: all were seen."""

    repairs: tuple[Repair, ...] = ()
    overdue: tuple[UUID, ...] = ()
    next: UUID | None = None

"""The optional part of the store port that keeps workflows: jobs that wait for other jobs."""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.dependencies import After
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import NewJob, State, Token
from holdfast._core.workflow import FlowView, NewFlow, NewMember, Output, Revived, SteerFlow


class Workflows(Protocol):
    """The verbs of workflows.

    Every verb that moves a member of a workflow, also one of another protocol, is one write under the lock of its flow, by the rules of
    ``_core/graph``: it also moves what waited for the member, level by level, and the root. Only members that this write has moved
    are passed on. A member that ends cancelled because of its workflow has the reason ``BY_WORKFLOW``. While a workflow is paused, what
    would become available is held instead, and no held member of it can be reopened.

    ``request_cancel`` of a root cancels its workflow, and ``reopen`` retries it. ``reopen`` of a finished member runs it again, and blocks
    again what failed or was cancelled because of it; if it is fresh, then for all that it blocks again. A member that waits for its
    parents is not reopened. ``delete`` and ``purge`` leave members of unfinished workflows; ``delete`` of a finished root deletes its
    members. Members are kept until their root is pruned. A member that awaits a signal while a pause holds it is due once the signal has
    come and the pause is over.
    """

    async def enqueue_flow(self, call: UUID, new: NewFlow) -> EnqueueAnswer:
        """Insert a workflow, all of it or nothing: the root, the members, their edges and the receipt of the call.

        Members without parents are available, all others blocked. A root without members has completed. If an unfinished workflow of the
        same name has the unique key of the root, nothing is inserted, and the answer names it.
        """
        ...

    async def outputs(self, ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        """Return the recorded outcome of the last attempt of each of these jobs that has ended, or of which there is no trace.

        That of a gate is the outcome of the member that it takes its result from; that of a member that has run once for each item of a
        list is named by those jobs.
        """
        ...

    async def flow(self, flow: UUID) -> FlowView | None:
        """Return a workflow with all its members, in one snapshot; ``None`` if it is unknown."""
        ...

    async def steer_flow(self, flow: UUID, how: SteerFlow, *, by: AuditNote | None = None) -> State | None:
        """Pause, resume, cancel or retry a workflow; return the state of its root now, ``None`` if it is unknown.

        After PAUSE or CANCEL was answered, no member of it is claimed. Members that run go on under PAUSE. Under CANCEL they are asked to
        cancel, and the root ends after the last of them. RESUME returns the held members to their positions.
        """
        ...

    async def revive(self, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False) -> Revived:
        """Repair what has drifted in at most ``limit`` unfinished workflows, in the order of their ids, beginning after this id.

        Workflows past their deadline are cancelled, and their roots end ``failed TIMED_OUT``. Those that are paused are left alone. The
        counters of all others are computed again from the states of their members, and what then no longer waits is moved. With intact
        counters nothing changes. Lost rows of a workflow are put back, as far as its jobs show them. A member whose own row was lost
        while it waited fails, because what it waited for is not known any more. ``flow``: only this one. ``dry_run``: nothing is written.
        """
        ...


class FlowTransactions(Workflows, Protocol):
    """The verb of stores whose workflows can be enqueued in a caller's transaction, with the capability ``caller_transaction``."""

    def enqueue_flow_within(
        self, connection: Any, call: UUID, new: NewFlow
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        """Insert a workflow inside the transaction of the caller's connection, as ``enqueue_within`` inserts jobs.

        Each workflow in it has nodes: one without ends in the write that stores it, and that is not this verb's to decide.
        """
        ...


class FlowReports(Workflows, Protocol):
    """The memory of a store object about its own writes: which workflows they have ended or paused. It asks no store."""

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        """Return, each once, the ends and pauses of workflows that writes of this object have led to since the last call.

        Every verb that moves members may lead to one. A pause by an operator is none, because the caller knows it. A write whose answer
        was lost is not reported.
        """
        ...


class GrowingWorkflows(Workflows, Protocol):
    """The verbs of workflows to which running jobs add members.

    ``exchange`` of a transition with ``children`` blocks the job, inserts its new children, and lets the gates that wait for the job wait
    for them. Once all its children have ended, it is available again or, as a gate, it ends. A plain job becomes the root of a new flow.
    ``request_cancel`` of a job that waits for its children cancels them, and the job ends cancelled after the last of them.
    """

    async def enqueue_member(self, call: UUID, child: NewMember, *, under: tuple[UUID, Token]) -> EnqueueAnswer:
        """Insert a job into the workflow of an active member, under its token, in one write with the receipt of the call.

        What waits for the member waits for the new job, too, so the workflow does not end before it. The store completes its flow, its
        name, and what it takes from the member. A lost token inserts nothing.
        """
        ...


class DependentJobs(GrowingWorkflows, Protocol):
    """The verb of jobs that depend on jobs that exist already.

    Such a job is the root of a separate flow, and so is a plain job from then on if others depend on it. Every write that moves a job also
    moves what depends on it in other flows, under the locks of all of them, taken in the order of their ids. A job that has ended is
    neither deleted nor pruned while a blocked one of another flow depends on it, or on a member that goes with it.
    """

    async def enqueue_after(self, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        """Insert jobs that all wait for the same jobs, with the receipt of the call; those without unique keys.

        Parents that have ended are counted at once. ``JobNotFound``, and nothing is written, if one of them is unknown.
        """
        ...

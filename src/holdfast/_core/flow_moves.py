"""The moves of a flow's members, over the reads and writes that a store has for them.

A store subclasses ``FlowMoves`` and calls it inside the write that moves members, under the lock of their flow. What moves is decided by
``graph`` and ``graph_steering``; here it is written in the one order that is right for all stores.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import structs

from holdfast._core.flow_changes import FlowChange
from holdfast._core.graph import Cascade, Ended, Graph, Link, Verdict, Waiting, pass_on, recount
from holdfast._core.graph_steering import Steered, cancel, repairs, restored, resume, retry, retry_member
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.member_record import end_of
from holdfast._core.workflow import Flow, FlowVerb, Repair, SteerFlow


class FlowMoves(ABC):
    """Moves of members in one write; ``now``: the time of that write on the store's clock."""

    now: datetime
    changes: list[FlowChange]
    """What this write does to whole workflows; it counts once the write has committed."""

    @abstractmethod
    def flow(self, flow: UUID) -> Flow:
        """Return the state of a flow."""

    @abstractmethod
    def graph(self, flow: UUID) -> Graph:
        """Return all members of a flow, as they are now, and their edges."""

    @abstractmethod
    def links(self, parents: Sequence[UUID]) -> Iterable[Link]:
        """Return the blocked children of these members, as they are now."""

    @abstractmethod
    def is_unfinished(self, flow: UUID) -> bool:
        """Return whether the root of a flow has not ended."""

    @abstractmethod
    def set_flow(self, flow: Flow) -> None:
        """Write the state of a flow."""

    @abstractmethod
    def set_counters(self, counters: Mapping[UUID, Waiting]) -> None:
        """Write the counters of blocked members."""

    @abstractmethod
    def set_policies(self, policies: Mapping[UUID, OnFailure]) -> None:
        """Write what an operator chose for failed members."""

    @abstractmethod
    def judge(self, verdicts: Mapping[UUID, Verdict], flow: Flow) -> None:
        """Release members, or end them; parents come before their children."""

    @abstractmethod
    def block(self, members: Sequence[UUID], *, is_fresh: bool) -> None:
        """Block finished members again, with fresh budgets; keep the records of their last attempts.

        ``is_fresh``: without their checkpoints and steps.
        """

    @abstractmethod
    def hold(self, flow: UUID) -> None:
        """Hold all available members of a paused flow."""

    @abstractmethod
    def resume(self, flow: UUID) -> None:
        """Return the members that a pause held to their positions."""

    @abstractmethod
    def request_cancel(self, flow: UUID) -> None:
        """Ask all active members to cancel."""

    def begin(self, flow: Flow) -> None:
        """Start a flow whose members have just been inserted, all of them blocked."""
        graph = self.graph(flow.id)
        self.apply(flow, recount(graph, flow, graph.blocked()))

    def pass_on(self, flow: UUID, ended: Sequence[Ended]) -> None:
        """Write what the ends of these members lead to."""
        known = self.flow(flow)
        self.apply(known, pass_on(ended, known, self))

    def apply(self, flow: Flow, cascade: Cascade) -> None:
        """Write the counters and verdicts of a cascade, and what it asks of the flow."""
        if cascade.pauses and flow.paused_at is None:
            flow = structs.replace(flow, paused_at=self.now)
            self.changes.append(FlowChange(flow.id, State.HELD, Reason.DEPENDENCY_FAILED))
        self.set_flow(flow)
        self.set_counters(cascade.counters)
        self.judge(cascade.verdicts, flow)
        verdict = cascade.verdicts.get(flow.id, Verdict.RELEASE)
        if verdict is not Verdict.RELEASE:
            self.changes.append(FlowChange(flow.id, *end_of(flow.id, verdict, flow)))
        if flow.is_paused:
            self.hold(flow.id)
        if cascade.cancels:
            self.end(flow, Reason.DEPENDENCY_FAILED)
        elif self.is_overdue(flow) and self.is_unfinished(flow.id):
            self.end(flow, Reason.TIMED_OUT)

    def end(self, flow: Flow, reason: Reason) -> None:
        """Cancel everything of a flow that has not finished."""
        steered = cancel(self.graph(flow.id), flow, reason)
        self.request_cancel(flow.id)
        self.apply(steered.flow, steered.cascade)

    def steer(self, flow: UUID, how: SteerFlow) -> None:
        """Write what an operator's verb leads to; a finished flow is neither paused nor cancelled."""
        known, graph = self.flow(flow), self.graph(flow)
        running = structs.replace(known, paused_at=None)
        match how.verb:
            case FlowVerb.RETRY:
                self._write(retry(graph, known, how.node))
            case FlowVerb.RESUME:
                self._write(retry(graph, running) if how.is_retry else resume(graph, known, how.failed))
            case FlowVerb.PAUSE if self.is_unfinished(flow):
                self.apply(structs.replace(known, paused_at=known.paused_at or self.now), Cascade({}, {}))
            case FlowVerb.CANCEL if self.is_unfinished(flow):
                self.end(known, Reason.BY_OPERATOR)

    def retry_member(self, flow: UUID, member: UUID, *, is_fresh: bool) -> None:
        """Run a finished member again, with what did not complete because of it; of a root, its workflow."""
        known, graph = self.flow(flow), self.graph(flow)
        has_code = member in graph.members and not graph.members[member].is_gate
        steered = retry_member(graph, known, member) if member != flow else retry(graph, known, member if has_code else None)
        self._write(steered, is_fresh=is_fresh)

    def revive(self, flow: UUID, *, dry_run: bool, is_restored: bool = False) -> tuple[bool, tuple[Repair, ...]]:
        """Repair a flow; return whether it was ended, because it is overdue, and what had drifted.

        ``is_restored``: rows of it were lost, and this write has put them back. Its root is returned then, if nothing else has drifted.
        """
        known, graph = self.flow(flow), self.graph(flow)
        if self.is_overdue(known):
            if not dry_run:
                self.end(known, Reason.TIMED_OUT)
            return True, ()
        found = () if known.is_paused else repairs(graph, known)
        if found and not dry_run:
            self.apply(known, recount(graph, known, graph.blocked()))
        return False, found or tuple(restored(each) for each in graph.members.values() if is_restored and each.id == flow)

    def is_overdue(self, flow: Flow) -> bool:
        """Return whether the deadline of a flow has passed, and was not applied yet."""
        return flow.deadline_at is not None and flow.ended_for is None and flow.deadline_at <= self.now

    def _write(self, steered: Steered, *, is_fresh: bool = False) -> None:
        self.block(steered.blocked, is_fresh=is_fresh)
        self.set_policies(steered.policies)
        if not steered.flow.is_paused:
            self.resume(steered.flow.id)
        self.apply(steered.flow, steered.cascade)

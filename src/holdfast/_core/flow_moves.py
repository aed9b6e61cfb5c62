"""The moves of a flow's members, over the reads and writes that a store has for them.

A store subclasses ``FlowMoves`` and calls it inside the write that moves members, under the lock of their flow. What moves is decided by
``graph`` and ``graph_steering``; here it is written in the one order that is right for all stores.
"""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.flow_changes import FlowChange
from holdfast._core.graph import Cascade, Ended, Graph, Link, Verdict, Vertex, Waiting, is_held_back, pass_in, pass_on, recount
from holdfast._core.graph_steering import BECAUSE_OF_OTHERS, Steered, cancel, repairs, restored, resume, retry, retry_member
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.member_record import end_of
from holdfast._core.workflow import Flow, FlowVerb, Repair, SteerFlow


class Dependent(Struct, frozen=True):
    """A job that depends on a member of another flow, its parent. It is the root of the flow that has its id."""

    parent: UUID
    child: Vertex
    tolerates: bool = False


class FlowMoves(ABC):
    """Moves of members in one write; ``now``: the time of that write on the store's clock."""

    now: datetime
    changes: list[FlowChange]
    """What this write does to whole workflows; it counts once the write has committed."""
    _queue: deque[Callable[[], None]] | None = None

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
    def dependents(self, flow: UUID, members: Sequence[UUID]) -> Iterable[Dependent]:
        """Return the jobs of other flows that depend on these members, as they are now; at least those that are blocked or have failed."""

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
        if cascade.is_end:
            self.changes.append(FlowChange(flow.id, *end_of(flow.id, cascade.verdicts[flow.id], flow)))
        if flow.is_paused:
            self.hold(flow.id)
        self._pass_outside(flow, cascade.ended)
        if cascade.cancels:
            self.end(flow, Reason.DEPENDENCY_FAILED)
        elif self.is_overdue(flow) and self.is_unfinished(flow.id):
            self.end(flow, Reason.TIMED_OUT)

    def end(self, flow: Flow, reason: Reason) -> None:
        """Cancel everything of a flow that has not finished."""
        steered = cancel(self.graph(flow.id), flow, reason)
        self.request_cancel(flow.id)
        self.apply(steered.flow, steered.cascade)

    def lose(self, roots: Iterable[UUID]) -> None:
        """Pass on that these roots were deleted before they ended: what depends on them counts them as parents that failed."""
        for root in roots:
            self._pass_outside(Flow(id=root), [Ended(root, has_completed=False)])

    def steer(self, flow: UUID, how: SteerFlow) -> None:
        """Write what an operator's verb leads to; a finished flow is neither paused nor cancelled."""
        known, graph = self.flow(flow), self.graph(flow)
        running = structs.replace(known, paused_at=None)
        match how.verb:
            case FlowVerb.RETRY:
                self._write(retry(graph, known, how.node))
            case FlowVerb.RESUME:
                if how.is_retry:
                    self._write(retry(graph, running))
                else:
                    steered = resume(graph, known, how.failed)
                    self._write(steered)
                    self._pass_outside(steered.flow, [Ended(each, False, how.failed) for each in steered.policies])
            case FlowVerb.PAUSE if self.is_unfinished(flow):
                self.apply(structs.replace(known, paused_at=known.paused_at or self.now), Cascade({}, {}))
            case FlowVerb.CANCEL if self.is_unfinished(flow):
                self.end(known, Reason.BY_OPERATOR)

    def retry_member(self, flow: UUID, member: UUID, *, is_fresh: bool) -> None:
        """Run a finished member again, with what did not complete because of it; of a root, its workflow."""
        self._write(self._retried(flow, member), is_fresh=is_fresh)

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
        outside = self.dependents(steered.flow.id, steered.blocked) if steered.blocked else ()
        behind = {each.child.id: each.child for each in outside}
        self._count_again(job for job, child in behind.items() if child.state is State.BLOCKED)
        self.apply(steered.flow, steered.cascade)
        failed = [each.id for each in behind.values() if each.reason in BECAUSE_OF_OTHERS and not (each.is_gate or each.is_stub)]
        self._afterwards(partial(self._retry_others, failed, is_fresh=is_fresh))

    def _count_again(self, jobs: Iterable[UUID]) -> None:
        """Let jobs of other flows count their parents again, before the ends of those are passed on."""
        for job in jobs:
            known, graph = self.flow(job), self.graph(job)
            self.apply(known, recount(graph, known, [graph.members[job]]))

    def _retry_others(self, jobs: Sequence[UUID], *, is_fresh: bool) -> None:
        """Run jobs of other flows again, which did not complete because of members that run again.

        One that would fail again at once is left as it is: if the parent that it fails for runs again later in this write, so does it.
        """
        for job in jobs:
            steered = self._retried(job, job)
            if steered.cascade.verdicts.get(job) in (None, Verdict.RELEASE):
                self._write(steered, is_fresh=is_fresh)

    def _retried(self, flow: UUID, member: UUID) -> Steered:
        known, graph = self.flow(flow), self.graph(flow)
        if member != flow:
            return retry_member(graph, known, member)
        has_code = member in graph.members and not graph.members[member].is_gate
        return retry(graph, known, member if has_code else None)

    def _pass_outside(self, flow: Flow, ended: Sequence[Ended]) -> None:
        """Write what the ends of these members lead to in other flows. What a flow asks for itself, it does not ask of others."""
        self._afterwards(partial(self._pass_to_others, flow, ended))

    def _afterwards(self, act: Callable[[], None]) -> None:
        """Do it after what is being done: flows that depend on each other may form a long chain."""
        if self._queue is not None:
            self._queue.append(act)
            return
        self._queue = deque([act])
        while self._queue:
            self._queue.popleft()()
        self._queue = None

    def _pass_to_others(self, flow: Flow, ended: Sequence[Ended]) -> None:
        passed = {each.id: structs.replace(each, is_cause=False) for each in ended if not is_held_back(each, flow)}
        links = defaultdict[UUID, list[Link]](list)
        for each in self.dependents(flow.id, [*passed]) if passed else ():
            if each.child.state is State.BLOCKED:
                links[each.child.id].append(Link(each.parent, each.child.waiting(), each.tolerates, is_outside=True))
        for child, into in links.items():
            known = self.flow(child)
            self.apply(known, pass_in(passed, known, into, self))

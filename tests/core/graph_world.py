"""A flow as a store keeps it: each write reads the graph under the flow's lock, and writes what the rules return."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from msgspec import structs

from holdfast._core.graph import Cascade, Graph, Verdict, Vertex, pass_on, recount
from holdfast._core.graph_steering import Steered, cancel
from holdfast._core.job import PLACE_OF, Place, Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.workflow import Edge, Flow, gate_edges

ROOT = UUID(int=0)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def job(number: int) -> UUID:
    """Return the id of a member; the root has number 0."""
    return UUID(int=number)


def node(
    number: int,
    *,
    join: int | None = None,
    on_failure: OnFailure = OnFailure.FAIL,
    is_gate: bool = False,
    takes: Iterable[int] = (),
) -> Vertex:
    """Return a new member."""
    return Vertex(
        id=job(number),
        state=State.BLOCKED,
        node=str(number),
        join=join,
        on_failure=on_failure,
        is_gate=is_gate,
        takes=frozenset(map(job, takes)),
    )


class World:
    """A flow; ``edges``: pairs of numbers, with a third value where the child tolerates a failure. The root waits for all."""

    def __init__(self, nodes: Sequence[Vertex], edges: Iterable[tuple[int, int] | tuple[int, int, bool]] = ()) -> None:
        self.flow = Flow(id=ROOT)
        self.edges = [Edge(job(each[0]), job(each[1]), *each[2:]) for each in edges]
        self.edges += gate_edges(ROOT, [each.id for each in nodes], self.edges)
        self.members = {each.id: each for each in (*nodes, node(0, is_gate=True))}
        self.releases = dict.fromkeys(self.members, 0)
        self.recount()

    @property
    def graph(self) -> Graph:
        """The graph as it is now."""
        return Graph(self.members.values(), self.edges)

    @property
    def root(self) -> State:
        """The state of the workflow."""
        return self.state(0)

    def state(self, number: int) -> State:
        """Return the state of a member."""
        return self.members[job(number)].state

    def states(self, *numbers: int) -> list[State]:
        """Return the states of members."""
        return [self.state(number) for number in numbers]

    def of(self, *states: State) -> list[int]:
        """Return the numbers of the members in these states."""
        return sorted(each.int for each, member in self.members.items() if member.state in states)

    def end(self, number: int, to: State = State.COMPLETED, reason: Reason | None = None) -> bool:
        """End an available member; an answer that comes again or late finds the member elsewhere, and moves nothing."""
        before, member = self.graph, self.members[job(number)]
        if member.state is not State.AVAILABLE:
            return False
        ended = self.members[member.id] = structs.replace(member, state=to, reason=reason)
        self.apply(pass_on([ended.ended()], self.flow, before))
        return True

    def complete(self, *numbers: int) -> None:
        """Complete members, one after the other."""
        assert all(self.end(number) for number in numbers)

    def fail(self, *numbers: int) -> None:
        """Fail members, one after the other."""
        assert all(self.end(number, State.FAILED, Reason.HANDLER_ERROR) for number in numbers)

    def recount(self) -> None:
        """Compute all counters again."""
        self.apply(recount(self.graph, self.flow, self.graph.blocked()))

    def pause(self) -> None:
        """Pause the flow, and hold its available members."""
        self.flow = structs.replace(self.flow, paused_at=NOON)
        self._move(State.AVAILABLE, State.HELD)

    def steer(self, steered: Steered) -> None:
        """Write what an operator's verb leads to."""
        self.flow = steered.flow
        for each in steered.blocked:
            self.members[each] = structs.replace(self.members[each], state=State.BLOCKED, reason=None)
        for each, policy in steered.policies.items():
            self.members[each] = structs.replace(self.members[each], on_failure=policy)
        if not self.flow.is_paused:
            self._move(State.HELD, State.AVAILABLE)
        self.apply(steered.cascade)

    def apply(self, cascade: Cascade) -> None:
        """Write counters and verdicts."""
        for each, waiting in cascade.counters.items():
            self.members[each] = structs.replace(self.members[each], needs=waiting.needs, waits=waiting.waits)
        for each, verdict in cascade.verdicts.items():
            member = self.members[each]
            assert member.state is State.BLOCKED or (verdict is Verdict.CANCEL and PLACE_OF[member.state] is Place.PENDING)
            self.members[each] = self._judged(member, verdict)
        if cascade.pauses or self.flow.is_paused:
            self.pause()
        if cascade.cancels:
            self.steer(cancel(self.graph, self.flow, Reason.DEPENDENCY_FAILED))

    def _judged(self, member: Vertex, verdict: Verdict) -> Vertex:
        match verdict:
            case Verdict.RELEASE:
                self.releases[member.id] += 1
                return structs.replace(member, state=State.AVAILABLE)
            case Verdict.COMPLETE:
                return structs.replace(member, state=State.COMPLETED)
            case Verdict.FAIL:
                return structs.replace(member, state=State.FAILED, reason=Reason.DEPENDENCY_FAILED)
            case Verdict.CANCEL:
                return structs.replace(member, state=State.CANCELLED, reason=Reason.BY_WORKFLOW)

    def _move(self, old: State, new: State) -> None:
        for each, member in self.members.items():
            if member.state is old:
                self.members[each] = structs.replace(member, state=new)

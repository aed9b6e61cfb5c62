"""Workflows in few words: members by name, and their outcomes."""

from collections.abc import Sequence

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import ActiveJob, Failure, State
from holdfast._core.lifecycle import Transition
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.outcome import Done, Fail, Outcome
from holdfast._core.policy import Policy
from holdfast._core.workflow import Edge, FlowVerb, NewFlow, NewMember, SteerFlow, gate_edges
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast._ports.workflows import Workflows
from holdfast.errors import Unsupported
from holdfast.testing.contracts.scene import Scene, answered

FAILED = Fail("no")
COMPLETED = Done(b'"yes"')


async def no_workflows(at: Scene) -> None:
    """Check that a store without workflows refuses them, and names one that keeps them."""
    remedy = ""
    try:
        verbs(at.store)
    except Unsupported as error:
        remedy = str(error)
    assert "use one that does" in remedy


async def no_growth(at: Scene) -> None:
    """Check that a store whose workflows do not grow while they run refuses that, and names one whose do."""
    remedy = ""
    try:
        store_defaults.growing_workflows(at.store)
    except Unsupported as error:
        remedy = str(error)
    assert "use one that does" in remedy


def verbs(store: Store) -> Workflows:
    """Return the store as one that has the verbs."""
    return store_defaults.workflows(store)


class Graph:
    """A workflow of a test; ``ids``: its jobs by name, the root as ``root``."""

    def __init__(
        self,
        at: Scene,
        *,
        key: str | None = None,
        payload: bytes = b"{}",
        deadline: float | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.at, self._deadline = at, deadline
        self._root = at.new(task="workflow", key=key, payload=payload, policy=policy)
        self.ids = {"root": self._root.id}
        self._members = list[NewMember]()
        self._edges = list[Edge]()

    def add(
        self,
        name: str,
        *after: str,
        join: int | None = None,
        on_failure: OnFailure = OnFailure.FAIL,
        tolerates: bool = False,
        takes: Sequence[str] = (),
        each: str | None = None,
        **options: object,
    ) -> "Graph":
        """Add a member; ``takes``: the members whose results it reads; ``each``: the one over whose list it maps."""
        job = self.at.new(**options)  # type: ignore[arg-type]
        self.ids[name] = job.id
        inputs = tuple(Input(parent, self.ids[parent]) for parent in takes)
        inputs += () if each is None else (Input("item", self.ids[each], is_each=True),)
        member = Member(flow=self._root.id, node=name, join=join, on_failure=on_failure, inputs=inputs)
        self._members.append(NewMember(job, member))
        self._edges += [Edge(self.ids[parent], job.id, tolerates) for parent in after]
        return self

    def new(self, result: str | None = None) -> NewFlow:
        """Return what is to be stored."""
        inputs = () if result is None else (Input("", self.ids[result]),)
        root = Member(flow=self._root.id, node="workflow", is_gate=True, inputs=inputs)
        edges = (*self._edges, *gate_edges(self._root.id, [each.job.id for each in self._members], self._edges))
        return NewFlow(root=NewMember(self._root, root), members=tuple(self._members), edges=edges, deadline=self._deadline)

    async def stored(self, result: str | None = None) -> "Graph":
        """Store it, and return it."""
        assert await verbs(self.at.store).enqueue_flow(self.at.chance.uuid4(), self.new(result)) == EnqueueAnswer()
        return self

    async def states(self, *names: str) -> list[State]:
        """Read the states of members."""
        return [await self.at.state(self.ids[name]) for name in names or self.ids]

    async def root(self) -> State:
        """Read the state of the workflow."""
        return await self.at.state(self.ids["root"])

    async def start(self, *names: str) -> list[ActiveJob]:
        """Claim members, under one new lease."""
        claims = await self.at.claim(await self.at.lease(), len(names), ids=[self.ids[name] for name in names])
        found = {claim.job.id: claim.job for claim in claims}
        return [found[self.ids[name]] for name in names]

    async def run(self, *names: str, outcome: Outcome = COMPLETED) -> list[Transition]:
        """Run members, one after the other; return their transitions."""
        moves = []
        for name in names:
            (job,) = await self.start(name)
            moves.append(answered(job, outcome))
            assert await self.at.settle(moves[-1]) == (Answer.APPLIED,)
        return moves

    async def fail(self, *names: str) -> list[Transition]:
        """Let members fail, one after the other."""
        return await self.run(*names, outcome=FAILED)

    async def steer(self, verb: FlowVerb, **options: object) -> State | None:
        """Pause, resume, cancel or retry it."""
        return await verbs(self.at.store).steer_flow(self.ids["root"], SteerFlow(verb=verb, **options))  # type: ignore[arg-type]

    async def error(self, name: str) -> Failure:
        """Read the error of a member."""
        error = (await self.at.row(self.ids[name])).error
        assert error is not None
        return error


def chain(at: Scene, *names: str, **options: object) -> Graph:
    """Return a workflow whose members run one after the other."""
    graph = Graph(at)
    for place, name in enumerate(names):
        graph.add(name, *names[max(0, place - 1) : place], **options)  # type: ignore[arg-type]
    return graph

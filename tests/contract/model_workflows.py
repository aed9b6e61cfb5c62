"""The rules of the model test for workflows: store, steer, repair and read them. All other rules move their members, too."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from holdfast._core.job import NewJob
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.policy import Policy
from holdfast._core.workflow import Edge, FlowVerb, NewFlow, NewMember, SteerFlow, gate_edges
from holdfast._engine.store_defaults import offers
from holdfast._ports.store import Store
from holdfast._ports.workflows import Workflows

indexes = st.integers(0, 10**6)
members = st.lists(
    st.tuples(
        st.sets(st.integers(1, 3), max_size=3),
        st.none() | st.integers(1, 2),
        st.sampled_from(OnFailure),
        st.booleans(),
        st.sampled_from([None, None, 5.0]),
    ),
    max_size=5,
)


class WorkflowRules:
    """The part of the model that concerns workflows. ``flows``: all that were sent, the newest last."""

    chance: Any
    calls: list[tuple[UUID, list[NewJob]]]
    ask: Callable[[Callable[[Any], Awaitable[Any]]], Any]
    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.flows = list[tuple[UUID, NewFlow]]()

    @precondition(lambda self: offers(self.store, Workflows))
    @rule(chosen=members, key=st.sampled_from([None, None, "w"]), deadline=st.sampled_from([None, None, 15.0]), takes=indexes)
    def enqueue_flow(
        self,
        chosen: list[tuple[set[int], int | None, OnFailure, bool, float | None]],
        key: str | None,
        deadline: float | None,
        takes: int,
    ) -> None:
        policy = Policy(retention=60.0 if takes % 2 else 2000.0)
        root = NewJob(id=self.chance.uuid7(), task="w", payload=b"{}", policy=policy, unique_key=key)
        found, edges = list[NewMember](), list[Edge]()
        for number, (back, join, on_failure, tolerates, expires_in) in enumerate(chosen):
            job = NewJob(id=self.chance.uuid7(), task="ab"[number % 2], payload=b"{}", policy=policy, expires_in=expires_in)
            parents = [found[number - each].job.id for each in sorted(back) if each <= number]
            required = None if join is None or join > len(parents) else join
            inputs = tuple(Input("x", parent) for parent in parents[: takes % 2])
            member = Member(flow=root.id, node=str(number), join=required, on_failure=on_failure, inputs=inputs)
            found.append(NewMember(job, member))
            edges += [Edge(parent, job.id, tolerates) for parent in parents]
        inputs = (Input("", found[takes % len(found)].job.id),) if found else ()
        gate = NewMember(root, Member(flow=root.id, node="w", is_gate=True, inputs=inputs))
        edges += gate_edges(root.id, [each.job.id for each in found], edges)
        self.flows.append((self.chance.uuid4(), NewFlow(root=gate, members=tuple(found), edges=tuple(edges), deadline=deadline)))
        self.calls.append((self.chance.uuid4(), [*(each.job for each in found), root]))
        self.ask(lambda store: store.enqueue_flow(*self.flows[-1]))

    @precondition(lambda self: self.flows)
    @rule(index=indexes)
    def enqueue_flow_again(self, index: int) -> None:
        self.ask(lambda store: store.enqueue_flow(*self.flows[index % len(self.flows)]))

    @precondition(lambda self: self.flows)
    @rule(index=indexes, verb=st.sampled_from(FlowVerb), failed=st.sampled_from(OnFailure), is_retry=st.booleans())
    def steer_flow(self, index: int, verb: FlowVerb, failed: OnFailure, is_retry: bool) -> None:
        new = self.flows[-1 - index % len(self.flows)][1]
        node = new.members[index % len(new.members)].job.id if new.members and index % 3 == 0 else None
        failed = failed if failed is OnFailure.CONTINUE else OnFailure.FAIL
        how = SteerFlow(verb=verb, failed=failed, is_retry=is_retry, node=node)
        self.ask(lambda store: store.steer_flow(new.root.job.id, how))

    @precondition(lambda self: self.flows)
    @rule(limit=st.integers(1, 3), index=indexes, is_dry=st.booleans(), is_one=st.booleans())
    def revive(self, limit: int, index: int, is_dry: bool, is_one: bool) -> None:
        flow = self.flows[index % len(self.flows)][1].root.job.id
        revived = self.ask(lambda store: store.revive(limit, flow=flow if is_one else None, dry_run=is_dry))
        assert revived.repairs == ()
        if revived.next is not None:
            self.ask(lambda store: store.revive(limit, after=revived.next))

    @invariant()
    def both_stores_have_the_same_workflows(self) -> None:
        for _, new in self.flows:
            self.ask(lambda store, flow=new.root.job.id: store.flow(flow))  # type: ignore[misc]
            ids = [new.root.job.id, *(each.job.id for each in new.members)]
            self.ask(lambda store, ids=ids: store.outputs(ids))  # type: ignore[misc]

"""The rules of the model test for workflows: store, steer, repair and read them. All other rules move their members, too."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec import structs

from holdfast._core.children import Children
from holdfast._core.dependencies import After
from holdfast._core.job import ActiveJob, NewJob, Token
from holdfast._core.lifecycle import Transition, finish
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.outcome import WaitFor
from holdfast._core.policy import Policy
from holdfast._core.steps import StepRecord
from holdfast._core.workflow import Edge, FlowVerb, NewFlow, NewMember, SteerFlow, gate_edges
from holdfast._engine.store_defaults import offers
from holdfast._ports.store import Store
from holdfast._ports.workflows import DependentJobs, GrowingWorkflows, Workflows

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
    """The part of the model that concerns workflows.

    ``flows``: all that were sent, the newest last. ``grown``: the ids of those that jobs have added members to.
    """

    chance: Any
    calls: list[tuple[UUID, list[NewJob]]]
    ask: Callable[[Callable[[Any], Awaitable[Any]]], Any]
    store: Store
    active_jobs: list[ActiveJob]
    sent: list[Transition]
    pick: Callable[[Sequence[Any], Sequence[int]], list[Any]]
    token: Callable[[ActiveJob, int], Token]
    exchange: Callable[[Sequence[Transition], Any], None]

    def __init__(self) -> None:
        super().__init__()
        self.flows = list[tuple[UUID, NewFlow]]()
        self.grown = list[UUID]()

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

    @precondition(lambda self: self.active_jobs and offers(self.store, GrowingWorkflows))
    @rule(index=indexes, wrong=indexes, number=st.integers(0, 3), kind=st.sampled_from(["wait", "wait", "map", "graph"]))
    def wait_for_children(self, index: int, wrong: int, number: int, kind: str) -> None:
        (active,) = self.pick(self.active_jobs, [index])
        members = [self._child(place, f"[{place}]" if kind == "map" else f"c{place}") for place in range(number)]
        jobs = [each.job.id for each in members]
        if kind == "graph":
            inner = [Edge(*pair, tolerates=index % 2 == 0) for pair in pairwise(jobs)]
            edges = (*inner, *gate_edges(active.id, jobs, inner))
        else:
            edges = tuple(Edge(job, active.id, tolerates=kind == "wait") for job in jobs)
        record = StepRecord(name=":call:a", nth=1 + index % 2, place=0, is_sequential=True, result=b"[]")
        children = Children(
            members=tuple(members),
            edges=edges,
            records=(record,) if kind == "wait" else (),
            is_gate=kind != "wait",
            result=jobs[-1] if kind == "graph" and jobs else None,
            deadline=15.0 if kind == "graph" and index % 3 == 0 else None,
        )
        self.calls.append((self.chance.uuid4(), [each.job for each in members]))
        self.grown.append(active.id if active.flow is None else active.flow)
        self.sent.append(structs.replace(finish(active, WaitFor(children), jitter=0.0), token=self.token(active, wrong)))
        self.exchange(self.sent[-1:], None)

    @precondition(lambda self: offers(self.store, GrowingWorkflows) and any(each.flow is not None for each in self.active_jobs))
    @rule(index=indexes, wrong=indexes, is_repeated=st.booleans())
    def enqueue_member(self, index: int, wrong: int, is_repeated: bool) -> None:
        (active,) = self.pick([each for each in self.active_jobs if each.flow is not None], [index])
        child, call = self._child(index, f"x{index % 100}"), self.chance.uuid4()
        self.calls.append((self.chance.uuid4(), [child.job]))
        under = (active.id, self.token(active, wrong))
        for _ in range(1 + is_repeated):
            self.ask(lambda store: store.enqueue_member(call, child, under=under))

    @precondition(lambda self: any(jobs for _, jobs in self.calls) and offers(self.store, DependentJobs))
    @rule(
        chosen=st.lists(indexes, min_size=1, max_size=3),
        required=st.none() | st.integers(1, 3),
        tolerates=st.booleans(),
        number=st.integers(1, 2),
        is_repeated=st.booleans(),
    )
    def enqueue_after(self, chosen: list[int], required: int | None, tolerates: bool, number: int, is_repeated: bool) -> None:
        parents = tuple(dict.fromkeys(self.ids(chosen)))
        after = After(parents, None if required is None else min(required, len(parents)), tolerates)
        jobs, call = [self._child(place + chosen[0], "").job for place in range(number)], self.chance.uuid4()
        self.calls.append((self.chance.uuid4(), jobs))
        self.grown += [job.id for job in jobs]
        for _ in range(1 + is_repeated):
            self.ask(lambda store: store.enqueue_after(call, jobs, after))

    @precondition(lambda self: self.grown)
    @rule(index=indexes, verb=st.sampled_from(FlowVerb))
    def steer_grown_flow(self, index: int, verb: FlowVerb) -> None:
        flow = self.grown[-1 - index % len(self.grown)]
        self.ask(lambda store: store.steer_flow(flow, SteerFlow(verb=verb)))

    def _child(self, number: int, node: str) -> NewMember:
        policy = Policy(retention=60.0)
        expires_in = 5.0 if number % 4 == 3 else None
        job = NewJob(id=self.chance.uuid7(), task="ab"[number % 2], payload=b"{}", policy=policy, expires_in=expires_in)
        policies = (*OnFailure, OnFailure.FAIL, OnFailure.FAIL)
        return NewMember(job, Member(flow=job.id, node=node, on_failure=policies[number % len(policies)]))

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
        for grown in self.grown:
            view = self.ask(lambda store, flow=grown: store.flow(flow))  # type: ignore[misc]
            ids = [] if view is None else [each.job for each in view.members]
            self.ask(lambda store, ids=ids: store.outputs(ids))  # type: ignore[misc]

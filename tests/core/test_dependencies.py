"""Jobs that depend on members of other flows, as decisions: what is stored for them, and what the ends of their parents lead to."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from holdfast._core.dependencies import After, dependents_of, judged, require_known
from holdfast._core.graph import (
    Ended,
    Graph,
    Link,
    Verdict,
    Vertex,
    Waiting,
    counters_of,
    pass_in,
    pass_on,
    recount,
    shown_outside,
)
from holdfast._core.job import NewJob, Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.policy import Policy
from holdfast._core.workflow import Edge, Flow
from holdfast.errors import JobNotFound

OWN, OTHER = UUID(int=9), UUID(int=50)
PARENTS = [UUID(int=number) for number in (1, 2, 3)]
FLOW, PAUSED = Flow(id=OWN), Flow(id=OTHER, paused_at=datetime(2030, 1, 1, tzinfo=UTC))
JOB = NewJob(id=OWN, task="report", payload=b"{}", policy=Policy())
DONE, LOST, RUNNING = State.COMPLETED, State.FAILED, State.RUNNING


def parents(*states: State, on_failure: OnFailure = OnFailure.FAIL) -> list[Vertex]:
    reasons = {LOST: Reason.PERMANENT}
    pairs = zip(PARENTS, states, strict=False)
    return [Vertex(id=job, state=state, reason=reasons.get(state), on_failure=on_failure) for job, state in pairs]


@pytest.mark.parametrize(
    ("states", "required", "tolerates", "waiting", "verdict"),
    [
        ((RUNNING, RUNNING), None, False, (2, 2), None),
        ((DONE, RUNNING), None, False, (1, 1), None),
        ((DONE, DONE), None, False, (0, 0), Verdict.RELEASE),
        ((LOST, RUNNING), None, False, (0, 0), Verdict.FAIL),
        ((LOST, RUNNING), None, True, (1, 1), None),
        ((LOST, RUNNING), 1, False, (1, 1), None),
        ((DONE, RUNNING), 1, False, (0, 0), Verdict.RELEASE),
        ((LOST, DONE, RUNNING), 2, False, (1, 1), None),
    ],
)
def test_s18_what_has_ended_is_counted_when_a_job_is_tied_to_it(
    states: tuple[State, ...], required: int | None, tolerates: bool, waiting: tuple[int, int], verdict: Verdict | None
) -> None:
    after = After(tuple(PARENTS[: len(states)]), required, tolerates)
    new = dependents_of([JOB], after, dict.fromkeys(PARENTS, OTHER))
    assert {edge.parent_flow for edge in new.edges} == {OTHER}
    assert new.members[0].member.flow == OWN
    counters, found = judged(new, parents(*states))
    assert ((counters.needs, counters.waits), found) == (waiting, verdict)


def test_an_unknown_parent_is_named() -> None:
    require_known(PARENTS, PARENTS)
    with pytest.raises(JobNotFound, match=f"{PARENTS[1]} and 1 more: .*; nothing was enqueued"):
        require_known(PARENTS, PARENTS[:1])


def test_s20_a_flow_is_neither_paused_nor_cancelled_by_what_another_one_asks_for_itself() -> None:
    for policy in (OnFailure.PAUSE, OnFailure.CANCEL, OnFailure.CONTINUE):
        ended = Ended(PARENTS[0], has_completed=False, on_failure=policy, is_cause=False)
        into = [Link(ended.id, Waiting(OWN, needs=1, waits=1), is_outside=True)]
        cascade = pass_in({ended.id: ended}, FLOW, into, Graph((), ()))
        assert (cascade.pauses, cascade.cancels) == (False, False)
        assert cascade.verdicts == {OWN: Verdict.RELEASE if policy is OnFailure.CONTINUE else Verdict.FAIL}


def test_s20_a_failure_that_a_pause_holds_back_is_not_an_end_for_other_flows() -> None:
    (failed,) = parents(LOST, on_failure=OnFailure.PAUSE)
    assert not shown_outside(failed, PAUSED).is_finished
    seen = shown_outside(failed, Flow(id=OTHER))
    assert (seen.is_finished, seen.on_failure) == (True, OnFailure.FAIL)


def test_a_cascade_within_a_flow_leaves_the_children_in_others_to_their_own() -> None:
    class Links:
        def links(self, parents: object) -> list[Link]:
            waiting = Waiting(OWN, needs=1, waits=1)
            return [Link(PARENTS[0], waiting, is_outside=True)]

    cascade = pass_on([Ended(PARENTS[0], has_completed=True)], Flow(id=OTHER), Links())
    assert (cascade.verdicts, cascade.counters) == ({}, {})
    assert [each.id for each in cascade.ended] == [PARENTS[0]]


def test_a_gate_does_not_wait_for_the_parents_that_its_job_had_in_other_flows() -> None:
    edges = [Edge(PARENTS[0], OWN, parent_flow=OTHER), Edge(PARENTS[1], OWN, is_child=True)]
    gate = Vertex(id=OWN, state=State.BLOCKED, join=1, is_gate=True)
    graph = Graph([gate, *parents(DONE, DONE)[1:]], edges, parents(LOST))
    assert counters_of(gate, graph, FLOW) == (0, 0)
    assert recount(graph, FLOW, graph.blocked()).verdicts == {OWN: Verdict.COMPLETE}


def test_parents_that_were_deleted_with_their_edges_are_not_required_any_more() -> None:
    child = Vertex(id=OWN, state=State.BLOCKED, join=2)
    graph = Graph([child], [Edge(PARENTS[0], OWN, parent_flow=OTHER)], parents(DONE))
    assert counters_of(child, graph, FLOW) == (0, 0)
    assert recount(Graph([child], ()), FLOW, [child]).verdicts == {OWN: Verdict.RELEASE}

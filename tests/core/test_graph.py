"""The rules of a workflow's graph, one by one: joins, what a failure does, and what operators do."""

import pytest
from msgspec import structs

from holdfast._core.graph import Graph, Verdict, decide, recount
from holdfast._core.graph_steering import cancel, repairs, resume, retry
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from tests.core.graph_world import ROOT, World, job, node

AVAILABLE, BLOCKED, HELD = State.AVAILABLE, State.BLOCKED, State.HELD
COMPLETED, FAILED, CANCELLED = State.COMPLETED, State.FAILED, State.CANCELLED
ONE, TWO = (1, 3), (2, 3)


def chain(length: int, **options: OnFailure) -> World:
    return World([node(each, **options) for each in range(1, length + 1)], [(each, each + 1) for each in range(1, length)])


def test_members_without_parents_are_born_available_and_all_others_blocked() -> None:
    world = chain(3)
    assert world.states(1, 2, 3, 0) == [AVAILABLE, BLOCKED, BLOCKED, BLOCKED]


def test_a_workflow_without_members_has_ended_when_it_is_written() -> None:
    assert World([]).root is COMPLETED


def test_a_chain_runs_one_after_the_other_and_then_the_workflow_has_completed() -> None:
    world = chain(3)
    for each in (1, 2, 3):
        assert world.of(AVAILABLE) == [each]
        world.complete(each)
    assert world.root is COMPLETED


@pytest.mark.parametrize(
    ("join", "ends", "state"),
    [
        (None, [COMPLETED], BLOCKED),
        (None, [COMPLETED, COMPLETED], AVAILABLE),
        (None, [FAILED], FAILED),
        (1, [COMPLETED], AVAILABLE),
        (1, [FAILED], BLOCKED),
        (1, [FAILED, FAILED, FAILED], FAILED),
        (1, [FAILED, FAILED, COMPLETED], AVAILABLE),
        (2, [FAILED, COMPLETED], BLOCKED),
        (2, [FAILED, FAILED], FAILED),
        (2, [COMPLETED, FAILED, COMPLETED], AVAILABLE),
        (1, [CANCELLED, CANCELLED, CANCELLED], FAILED),
    ],
)
def test_a_join_counts_the_parents_that_completed(join: int | None, ends: list[State], state: State) -> None:
    parents = 2 if join is None else 3
    world = World(
        [node(4, join=join), *(node(each) for each in range(1, parents + 1))], [(each, 4) for each in range(1, parents + 1)]
    )
    for number, end in enumerate(ends, 1):
        assert world.end(number, end)
    assert world.state(4) is state


def test_a_parent_that_ends_after_the_join_is_satisfied_changes_nothing() -> None:
    world = World([node(1), node(2), node(3, join=1)], [ONE, TWO])
    world.complete(1)
    before = world.members[job(3)]
    world.fail(2)
    assert world.members[job(3)] == before


def test_a_dependent_that_only_wants_its_parents_to_finish_runs_after_a_failure() -> None:
    world = World([node(1), node(2), node(3)], [(1, 3, True), TWO])
    world.fail(1)
    world.complete(2)
    assert world.state(3) is AVAILABLE


def test_a_failure_passes_through_a_chain_and_leaves_other_branches_running() -> None:
    world = World([node(each) for each in range(1, 6)], [(1, 2), (2, 3), (4, 5)])
    world.fail(1)
    assert world.states(2, 3, 4, 5, 0) == [FAILED, FAILED, AVAILABLE, BLOCKED, BLOCKED]
    world.complete(4, 5)
    assert world.root is FAILED


def test_a_failed_workflow_ends_only_when_nothing_of_it_runs() -> None:
    world = World([node(1), node(2)])
    world.fail(1)
    assert world.root is BLOCKED
    world.complete(2)
    assert world.root is FAILED


def test_dependents_of_a_failure_run_under_continue() -> None:
    world = World([node(1, on_failure=OnFailure.CONTINUE), node(2)], [(1, 2)])
    world.fail(1)
    world.complete(2)
    assert world.root is COMPLETED


def test_a_failure_under_cancel_ends_all_that_waits_and_then_the_workflow() -> None:
    world = World([node(1, on_failure=OnFailure.CANCEL), node(2), node(3)], [(1, 3)])
    world.fail(1)
    assert world.states(2, 3, 0) == [CANCELLED, CANCELLED, CANCELLED]
    assert world.flow.ended_for is Reason.DEPENDENCY_FAILED


def test_a_failure_under_pause_is_not_passed_on_until_an_operator_decides() -> None:
    world = World([node(1, on_failure=OnFailure.PAUSE), node(2), node(3)], [(1, 3)])
    world.fail(1)
    assert world.states(2, 3, 0) == [HELD, BLOCKED, BLOCKED]
    assert repairs(world.graph, world.flow) == ()
    world.steer(resume(world.graph, world.flow, OnFailure.FAIL))
    assert world.states(2, 3, 0) == [AVAILABLE, FAILED, BLOCKED]


def test_a_failure_that_a_pause_held_up_can_be_tolerated() -> None:
    world = World([node(1, on_failure=OnFailure.PAUSE), node(2)], [(1, 2)])
    world.fail(1)
    world.steer(resume(world.graph, world.flow, OnFailure.CONTINUE))
    world.complete(2)
    assert world.root is COMPLETED


def test_a_failure_that_a_pause_held_up_can_be_tried_again() -> None:
    world = World([node(1, on_failure=OnFailure.PAUSE), node(2)], [(1, 2)])
    world.fail(1)
    world.steer(retry(world.graph, structs.replace(world.flow, paused_at=None)))
    assert world.states(1, 2) == [AVAILABLE, BLOCKED]
    world.complete(1, 2)
    assert world.root is COMPLETED


def test_failures_passed_on_by_a_decision_do_not_pause_again() -> None:
    world = chain(3, on_failure=OnFailure.PAUSE)
    world.fail(1)
    world.steer(resume(world.graph, world.flow, OnFailure.FAIL))
    assert world.states(1, 2, 3, 0) == [FAILED] * 4
    assert world.flow.paused_at is None


def test_what_is_released_during_a_pause_is_held() -> None:
    world = World([node(1), node(2)], [(1, 2)])
    world.flow = structs.replace(world.flow, paused_at=world.flow.paused_at)
    before = world.graph
    world.pause()
    world.members[job(1)] = structs.replace(world.members[job(1)], state=AVAILABLE)  # it was active when the pause began
    world.complete(1)
    assert (world.state(2), before.members[job(2)].state) == (HELD, BLOCKED)


def test_a_cancelled_workflow_ends_once_its_active_members_have_ended() -> None:
    world = World([node(1), node(2), node(3)], [(1, 2)])
    world.members[job(1)] = structs.replace(world.members[job(1)], state=State.RUNNING)
    world.steer(cancel(world.graph, world.flow, Reason.BY_OPERATOR))
    assert world.states(1, 2, 3, 0) == [State.RUNNING, CANCELLED, CANCELLED, BLOCKED]
    world.members[job(1)] = structs.replace(world.members[job(1)], state=AVAILABLE)
    assert world.end(1, CANCELLED, Reason.BY_WORKFLOW)
    assert world.root is CANCELLED


def test_a_cancelled_workflow_whose_members_all_complete_has_completed() -> None:
    world = chain(1)
    world.members[job(1)] = structs.replace(world.members[job(1)], state=State.RUNNING)
    world.steer(cancel(world.graph, world.flow, Reason.BY_OPERATOR))
    world.members[job(1)] = structs.replace(world.members[job(1)], state=AVAILABLE)
    world.complete(1)
    assert world.root is COMPLETED


def test_a_failure_held_up_by_a_pause_does_not_keep_a_cancelled_workflow_from_ending() -> None:
    world = World([node(1, on_failure=OnFailure.PAUSE), node(2)], [(1, 2)])
    world.fail(1)
    world.steer(cancel(world.graph, world.flow, Reason.BY_OPERATOR))
    assert world.states(2, 0) == [CANCELLED, CANCELLED]


def test_jobs_of_other_flows_learn_from_a_cancel_of_the_failures_that_a_pause_held_up() -> None:
    world = World([node(1, on_failure=OnFailure.PAUSE), node(2)], [(1, 2)])
    world.fail(1)
    steered = cancel(world.graph, world.flow, Reason.BY_OPERATOR)
    assert {(each.id, each.has_completed) for each in steered.cascade.ended[-2:]} == {(job(1), False), (job(2), False)}


def test_a_retry_runs_again_only_what_has_not_completed() -> None:
    world = World([node(each) for each in range(1, 5)], [ONE, TWO, (3, 4)])
    world.complete(1)
    world.fail(2)
    assert world.states(3, 4, 0) == [FAILED, FAILED, FAILED]
    world.steer(retry(world.graph, world.flow))
    assert world.states(1, 2, 3, 4, 0) == [COMPLETED, AVAILABLE, BLOCKED, BLOCKED, BLOCKED]
    world.complete(2, 3, 4)
    assert world.root is COMPLETED
    assert world.releases[job(1)] == 1


def test_a_retry_from_a_node_runs_it_and_everything_behind_it_again() -> None:
    world = World([node(each) for each in range(1, 5)], [(1, 2), (2, 3), (1, 4)])
    world.complete(1, 2, 3, 4)
    world.steer(retry(world.graph, world.flow, job(2)))
    assert world.states(1, 2, 3, 4, 0) == [COMPLETED, AVAILABLE, BLOCKED, COMPLETED, BLOCKED]
    world.complete(2, 3)
    assert world.root is COMPLETED


def test_a_retry_leaves_a_dependent_alone_that_ran_without_the_retried_parent() -> None:
    world = World([node(1), node(2), node(3, join=1)], [ONE, TWO])
    world.complete(1)
    world.fail(2)
    world.steer(retry(world.graph, world.flow))
    assert world.states(2, 3) == [AVAILABLE, AVAILABLE]
    world.complete(2)
    assert (world.state(3), world.releases[job(3)]) == (AVAILABLE, 1)


def test_a_waiting_join_counts_a_parent_again_that_is_retried() -> None:
    world = World([node(1), node(2), node(3, join=2), node(4)], [ONE, TWO, (4, 3)])
    world.fail(1)
    assert (world.members[job(3)].needs, world.members[job(3)].waits) == (2, 2)
    world.steer(retry(world.graph, world.flow))
    assert (world.members[job(3)].needs, world.members[job(3)].waits) == (2, 3)


def test_a_retry_revives_a_cancelled_workflow() -> None:
    world = chain(2)
    world.steer(cancel(world.graph, world.flow, Reason.BY_OPERATOR))
    assert world.root is CANCELLED
    world.steer(retry(world.graph, world.flow))
    assert (world.states(1, 2, 0), world.flow.ended_for) == ([AVAILABLE, BLOCKED, BLOCKED], None)


def test_gates_in_gates_end_from_the_inside() -> None:
    gates = [node(10 + depth, is_gate=True) for depth in range(5)]
    world = World([node(1), *gates, node(2)], [(1, 10), *((10 + depth, 11 + depth) for depth in range(4)), (14, 2)])
    world.complete(1)
    assert (world.states(10, 11, 12, 13, 14), world.state(2)) == ([COMPLETED] * 5, AVAILABLE)


def test_the_failure_of_a_gate_asks_for_what_its_policy_names() -> None:
    world = World([node(1), node(2, is_gate=True, on_failure=OnFailure.PAUSE), node(3)], [(1, 2), (2, 3)])
    world.fail(1)
    assert (world.states(2, 3, 0), world.flow.is_paused) == ([FAILED, BLOCKED, BLOCKED], True)


def test_a_parent_without_a_trace_counts_as_a_failure_and_one_without_its_result_too() -> None:
    world = World([node(1), node(2), node(3, takes=[1], join=1)], [ONE, TWO])
    world.members[job(1)] = structs.replace(world.members[job(1)], state=COMPLETED, is_stub=True)
    del world.members[job(2)]
    assert world.members[job(3)].node == "3"
    (drifted,) = (each for each in repairs(world.graph, world.flow) if each.node == "3")
    assert (drifted.was, drifted.now) == ((1, 2), (1, 0))
    world.recount()
    assert world.state(3) is FAILED


def test_a_result_that_is_not_stored_any_more_is_missed_only_by_a_dependent_that_reads_it() -> None:
    world = World([node(1), node(2)], [(1, 2)])
    world.members[job(1)] = structs.replace(world.members[job(1)], state=COMPLETED, is_stub=True)
    world.recount()
    assert world.state(2) is AVAILABLE


def test_a_lost_release_is_found_although_the_counters_are_right() -> None:
    world = World([node(1), node(2)], [(1, 2)])
    world.members[job(1)] = structs.replace(world.members[job(1)], state=COMPLETED)
    world.members[job(2)] = structs.replace(world.members[job(2)], needs=0, waits=0)
    assert "2" in [each.node for each in repairs(world.graph, world.flow)]
    world.recount()
    assert world.state(2) is AVAILABLE


def test_an_edge_to_a_member_that_does_not_exist_is_left_out() -> None:
    world = World([node(1)])
    graph = Graph(world.members.values(), [*world.edges, *World([node(1)], [(1, 9)]).edges])
    assert {link.child.id for link in graph.links([job(1)])} == {ROOT}
    assert decide(world.members[ROOT].waiting(), world.flow) is None
    assert recount(world.graph, world.flow, world.graph.blocked()).verdicts == dict[object, Verdict]()


def layered(width: int, depth: int) -> World:
    """Return a workflow in which each member of a layer waits for all of the layer before it."""
    numbers = range(1, width * depth + 1)
    edges = [
        (each - each_before, each)
        for each in numbers[width:]
        for each_before in range(1 + (each - 1) % width, 1 + (each - 1) % width + width)
    ]
    return World([node(each) for each in numbers], edges)


def test_a_retry_looks_at_each_member_once_among_any_number_of_ways() -> None:
    world = layered(12, 10)  # 12 ** 10 ways lead to its root
    assert world.graph.behind([job(1)]) == {job(each) for each in range(13, 121)} | {ROOT}
    world.fail(1)
    for each in range(2, 13):
        world.complete(each)
    assert world.root is FAILED
    world.steer(retry(world.graph, world.flow))
    assert world.of(AVAILABLE) == [1]
    world.steer(retry(world.graph, world.flow, job(12)))
    assert world.of(AVAILABLE) == [1, 12]
    assert world.states(*range(13, 121), 0) == [BLOCKED] * 109


def test_a_retry_of_a_long_chain_walks_it_once() -> None:
    world, walked = chain(500), list[int]()
    world.fail(1)
    behind = Graph.behind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Graph, "behind", lambda graph, members: walked.append(1) or behind(graph, members))
        world.steer(retry(world.graph, world.flow))
    assert (len(walked), world.of(AVAILABLE)) == (1, [1])

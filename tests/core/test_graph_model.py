"""Random graphs whose members end in random order, with answers that come again or late, and operators in between."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast._core.graph import Vertex, counters_of
from holdfast._core.graph_steering import cancel, repairs, resume, retry
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from tests.core.graph_world import ROOT, World, job, node

FINISHED = (State.COMPLETED, State.FAILED, State.CANCELLED)
ENDS = st.sampled_from(
    [
        (State.COMPLETED, None),
        (State.COMPLETED, None),
        (State.FAILED, Reason.HANDLER_ERROR),
        (State.CANCELLED, Reason.BY_HANDLER),
    ]
)


@st.composite
def worlds(draw: st.DrawFn, policies: tuple[OnFailure, ...] = (*OnFailure,)) -> World:
    """Draw an acyclic graph: the parents of a node have smaller numbers."""
    nodes, edges = list[Vertex](), list[tuple[int, int, bool]]()
    for number in range(1, draw(st.integers(1, 9)) + 1):
        parents = sorted(draw(st.sets(st.integers(1, number - 1), max_size=3))) if number > 1 else []
        join = draw(st.none() | st.integers(1, len(parents))) if parents else None
        is_gate = bool(parents) and draw(st.booleans())
        nodes.append(node(number, join=join, on_failure=draw(st.sampled_from(policies)), is_gate=is_gate))
        edges += [(parent, number, draw(st.booleans())) for parent in parents]
    return World(nodes, edges)


def successes_and_waits(world: World, child: UUID) -> tuple[int, int, int]:
    """Count, apart from the rules, the required successes of a member, its parents that succeeded, and those that have not ended."""
    edges = [edge for edge in world.edges if edge.child == child]
    parents = [(world.members[edge.parent], edge.tolerates) for edge in edges]
    ended = [(parent, tolerates) for parent, tolerates in parents if parent.state in FINISHED]
    good = [
        parent
        for parent, tolerates in ended
        if parent.state is State.COMPLETED or tolerates or parent.on_failure is OnFailure.CONTINUE
    ]
    join = world.members[child].join
    return len(edges) if join is None else join, len(good), len(edges) - len(ended)


def check(world: World) -> None:
    """Check what holds after each write."""
    assert repairs(world.graph, world.flow) == ()
    for each, member in world.members.items():
        wanted, good, waits = successes_and_waits(world, each)
        if member.state is State.AVAILABLE and not member.is_gate:
            assert good >= wanted
        if member.state is State.BLOCKED and not world.flow.is_paused:
            assert (member.needs, member.waits) == (wanted - good, waits)
            assert waits > 0


def finish(world: World, data: st.DataObject) -> None:
    """End all that can end, in random order; resume a workflow that pauses."""
    while world.root not in FINISHED:
        if world.flow.is_paused:
            world.steer(resume(world.graph, world.flow, data.draw(st.sampled_from([OnFailure.FAIL, OnFailure.CONTINUE]))))
        else:
            number = data.draw(st.sampled_from(world.of(State.AVAILABLE)))
            world.end(number, *data.draw(ENDS))
        check(world)


@given(st.data())
def test_s18_a_member_starts_only_when_its_join_is_satisfied_and_is_released_once(data: st.DataObject) -> None:
    world = data.draw(worlds())
    check(world)
    for number, end in data.draw(st.lists(st.tuples(st.integers(1, len(world.members) - 1), ENDS), max_size=25)):
        world.end(number, *end)
        check(world)
    assert max(world.releases.values()) <= 1


@given(st.data())
def test_s19_every_write_leaves_nothing_to_be_released_or_ended_later(data: st.DataObject) -> None:
    world = data.draw(worlds())
    for number, end in data.draw(st.lists(st.tuples(st.integers(1, len(world.members) - 1), ENDS), max_size=20)):
        before = dict(world.members)
        is_moved = world.end(number, *end)
        assert is_moved or world.members == before
        after = dict(world.members)
        world.recount()
        assert world.members == after


@given(st.data())
def test_l12_every_workflow_ends_or_waits_for_an_operator(data: st.DataObject) -> None:
    world = data.draw(worlds())
    finish(world, data)
    assert set(world.of(*FINISHED)) == {each.int for each in world.members}


@given(st.data())
def test_l12_a_retry_runs_to_its_end_and_repeats_nothing_that_completed(data: st.DataObject) -> None:
    world = data.draw(worlds())
    finish(world, data)
    done = world.of(State.COMPLETED)
    kept = {each for each in done if not world.members[job(each)].is_gate}
    released = {each: world.releases[job(each)] for each in kept}
    world.steer(retry(world.graph, world.flow))
    check(world)
    while world.root not in FINISHED:
        world.end(world.of(State.AVAILABLE)[0])
        check(world)
    assert {each: world.releases[job(each)] for each in kept} == released
    assert world.of(State.COMPLETED) == sorted(each.int for each in world.members)


@given(st.data())
def test_l12_a_cancelled_workflow_ends_with_its_last_active_member(data: st.DataObject) -> None:
    world = data.draw(worlds())
    active = data.draw(st.sets(st.sampled_from(world.of(State.AVAILABLE)))) if world.of(State.AVAILABLE) else set[int]()
    for number in active:
        world.members[job(number)] = structs.replace(world.members[job(number)], state=State.RUNNING)
    world.steer(cancel(world.graph, world.flow, Reason.BY_OPERATOR))
    assert world.of(State.AVAILABLE, State.HELD) == []
    for number in active:
        assert world.root not in FINISHED
        world.members[job(number)] = structs.replace(world.members[job(number)], state=State.AVAILABLE)
        world.end(number, State.CANCELLED, Reason.BY_WORKFLOW)
    assert world.root in FINISHED


@given(st.data())
def test_l17_a_repaired_flow_equals_one_that_never_drifted(data: st.DataObject) -> None:
    world = data.draw(worlds())
    for number, end in data.draw(st.lists(st.tuples(st.integers(1, len(world.members) - 1), ENDS), max_size=12)):
        world.end(number, *end)
    if world.flow.is_paused:
        return
    intact = dict(world.members)
    for each, member in intact.items():
        if member.state is State.BLOCKED and data.draw(st.booleans()):
            needs, waits = data.draw(st.tuples(st.integers(1, 5), st.integers(5, 9)))
            world.members[each] = structs.replace(member, needs=needs, waits=waits)
    world.recount()
    assert {each: _counted(member) for each, member in world.members.items()} == {
        each: _counted(member) for each, member in intact.items()
    }


@given(st.data())
def test_l17_a_lost_cascade_is_repaired_to_what_it_would_have_moved(data: st.DataObject) -> None:
    world = data.draw(worlds((OnFailure.FAIL, OnFailure.CONTINUE)))
    twin = twin_of(world)
    while world.root not in FINISHED:
        number, (to, reason) = data.draw(st.sampled_from(world.of(State.AVAILABLE))), data.draw(ENDS)
        twin.end(number, to, reason)
        world.members[job(number)] = structs.replace(world.members[job(number)], state=to, reason=reason)
        world.recount()
        assert {each: _counted(member) for each, member in world.members.items()} == {
            each: _counted(member) for each, member in twin.members.items()
        }
    assert counters_of(world.members[ROOT], world.graph, world.flow)[1] == 0


def twin_of(world: World) -> World:
    """Return a second world in the same state."""
    twin = World([])
    twin.flow, twin.edges, twin.members, twin.releases = world.flow, world.edges, dict(world.members), dict(world.releases)
    return twin


def _counted(member: Vertex) -> tuple[object, ...]:
    """Return all that counts of a member: its counters only while it is blocked."""
    counters = (member.needs, member.waits) if member.state is State.BLOCKED else ()
    return member.state, member.reason, counters

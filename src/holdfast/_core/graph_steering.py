"""What operators do to a whole workflow, as decisions on its graph: resume, cancel, retry; and the repair of its counters."""

from collections.abc import Mapping
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.graph import Cascade, Graph, Verdict, Vertex, counters_of, decide, is_held_back, recount
from holdfast._core.job import PLACE_OF, Place, Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.workflow import Flow, Repair

BECAUSE_OF_OTHERS = (Reason.DEPENDENCY_FAILED, Reason.BY_WORKFLOW)


class Steered(Struct, frozen=True):
    """What a store writes for an operator's verb, in this order.

    ``flow``: its new state. ``blocked``: the members to block again, with fresh budgets. ``policies``: by failed member, the ``on_failure``
    by which its failure was passed on, so that a later pause does not hold it back. ``cascade``: the counters and verdicts that follow.
    """

    flow: Flow
    cascade: Cascade
    blocked: tuple[UUID, ...] = ()
    policies: Mapping[UUID, OnFailure] = {}


def cancel(graph: Graph, flow: Flow, reason: Reason) -> Steered:
    """Cancel all members that wait. Gates decide once the active ones have ended, which the store asks to cancel.

    So do members that wait for their children. A pause is over: a later retry runs at once, and what it held back is passed on.
    """
    ended = structs.replace(flow, ended_for=reason, paused_at=None)
    pending = [each for each in graph.members.values() if PLACE_OF[each.state] is Place.PENDING]
    waiting = [each for each in pending if not each.is_gate and not (each.is_suspended and each.state is State.BLOCKED)]
    over = [structs.replace(each, state=State.CANCELLED, reason=Reason.BY_WORKFLOW) for each in waiting]
    then = graph.replaced(over)
    cascade = recount(then, ended, then.blocked())
    cascade.verdicts = {each.id: Verdict.CANCEL for each in waiting} | cascade.verdicts
    cascade.ended += [each.ended() for each in over + held_back(graph, flow)]
    return Steered(ended, cascade)


def resume(graph: Graph, flow: Flow, failed: OnFailure) -> Steered:
    """Go on with a paused flow, and pass on the failures that its pause held up: as failures, or as successes (CONTINUE)."""
    held = held_back(graph, flow)
    then = graph.replaced(structs.replace(each, on_failure=failed) for each in held)
    running = structs.replace(flow, paused_at=None)
    return Steered(running, recount(then, running, then.blocked()), policies={each.id: failed for each in held})


def held_back(graph: Graph, flow: Flow) -> list[Vertex]:
    """Return the members whose failures the pause of their flow holds back."""
    return [each for each in graph.members.values() if each.is_finished and is_held_back(each.ended(), flow)]


def retry(graph: Graph, flow: Flow, node: UUID | None = None) -> Steered:
    """Block again what did not complete, and all gates behind it; with ``node`` also that member and everything behind it.

    A gate that is named so stands for all members that it waits for as its own. Those whose joins are satisfied are released by the same
    verdicts. Completed members keep their results. Members that wait or are active go on, and their parents are counted again. The workflow
    has no deadline any more, because the operator asks for it in spite of its age.
    """
    chosen = {each.id for each in graph.members.values() if each.is_finished and each.state is not State.COMPLETED}
    if node is None:
        return _again(graph, flow, chosen)
    own = graph.below([node]) if node in graph.members and graph.members[node].is_gate else [node]
    return _again(graph, flow, chosen | {*own, *graph.behind([node])})


def retry_member(graph: Graph, flow: Flow, member: UUID) -> Steered:
    """Block this member again, what failed or was cancelled because of it, and its children that did not complete."""
    behind = (graph.members[each] for each in graph.behind([member]) if each in graph.members)
    chosen = {each.id for each in behind if each.is_finished and each.reason in BECAUSE_OF_OTHERS}
    inner = (graph.members[each] for each in graph.below([member]))
    return _again(graph, flow, chosen | {member} | {each.id for each in inner if each.state is not State.COMPLETED})


def _again(graph: Graph, flow: Flow, chosen: set[UUID]) -> Steered:
    chosen = chosen | {each for each in graph.behind(chosen) if each in graph.members and graph.members[each].is_gate}
    finished = [each for each in graph.members.values() if each.id in chosen and each.is_finished]
    again = structs.replace(flow, ended_for=None, deadline_at=None)
    fresh = {"state": State.BLOCKED, "reason": None, "is_suspended": False, "is_cancelled": False}
    then = graph.replaced(structs.replace(each, **fresh) for each in finished)
    blocked = tuple(each.id for each in finished)
    passed_on = [each.id for each in then.members.values() if each.is_finished and each.ended().asks_for(OnFailure.PAUSE)]
    policies = {} if flow.is_paused else dict.fromkeys(passed_on, OnFailure.FAIL)
    return Steered(again, recount(then, again, then.blocked()), blocked=blocked, policies=policies)


def restored(root: Vertex) -> Repair:
    """Return the repair of a flow whose counters were right, and whose lost rows were put back."""
    counters = root.needs, root.waits
    return Repair(flow=root.id, job=root.id, node=root.node, was=counters, now=counters)


def repairs(graph: Graph, flow: Flow) -> tuple[Repair, ...]:
    """Return the blocked members that have drifted: their counters differ from those of their parents' states, or they should have moved.

    ``recount`` of the same members repairs them.
    """
    found = list[Repair]()
    for child in graph.blocked():
        was, now = (child.needs, child.waits), counters_of(child, graph, flow)
        if now != was or decide(child.waiting(), flow) is not None:
            found.append(Repair(flow=flow.id, job=child.id, node=child.node, was=was, now=now))
    return tuple(found)

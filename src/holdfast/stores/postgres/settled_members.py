"""The members that a settle has ended, and what depends on them: the answers of ``settle.sql`` and ``links.sql``."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Raw, Struct, json

from holdfast._core.encoding import instant
from holdfast._core.graph import Ended, Link, Vertex, Waiting
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.workflow import Flow
from holdfast.stores.postgres.flow_plan import Known

MOST_SINGLE = 100
"""Up to how many children that are alike are decided on one by one. Of more, one stands for all, and one statement moves them."""


class SettledMember(Struct, frozen=True, array_like=True):
    """A member that a settle has ended."""

    id: UUID
    flow: UUID
    state: State
    reason: Reason | None
    on_failure: OnFailure
    is_gate: bool

    def ended(self) -> Ended:
        """Return it as a member that has ended."""
        return Vertex(id=self.id, state=self.state, reason=self.reason, on_failure=self.on_failure, is_gate=self.is_gate).ended()


class ReadFlow(Struct, frozen=True, array_like=True):
    """The state of a workflow; times in microseconds of the epoch."""

    id: UUID
    paused_at: int | None
    ended_for: Reason | None
    deadline_at: int | None

    def flow(self) -> Flow:
        """Return it as the rules see it."""
        paused_at, deadline_at = (None if at is None else instant(at) for at in (self.paused_at, self.deadline_at))
        return Flow(id=self.id, paused_at=paused_at, ended_for=self.ended_for, deadline_at=deadline_at)


class ReadChildren(Struct, frozen=True, array_like=True):
    """Blocked members that are alike, and those of their parents that were asked for. ``id``: of one of them; ``jobs``: the ids of all.

    ``is_last``: it is a gate on which no other member depends.
    """

    id: UUID
    number: int
    jobs: Raw
    needs: int
    waits: int
    is_gate: bool
    on_failure: OnFailure
    is_suspended: bool
    is_cancelled: bool
    parents: list[UUID]
    tolerates: list[bool]
    are_children: list[bool]
    are_outside: list[bool]
    is_last: bool


class ReadLinks(Struct, frozen=True):
    """The children of some members, and their workflows."""

    now: int
    flows: list[ReadFlow] | None
    children: list[ReadChildren] | None


def completed_member(job: UUID, flow: UUID) -> SettledMember:
    """Return a member that has completed. What happens when it fails does not matter then."""
    return SettledMember(job, flow, State.COMPLETED, None, OnFailure.FAIL, is_gate=False)


def settled_members(text: str | None) -> list[SettledMember]:
    """Return the members that a settle has ended, from the answer of ``settle.sql``."""
    return [] if text is None else json.decode(text, type=list[SettledMember])


def links_of(text: str, parents: Sequence[UUID]) -> Known:
    """Return what is known of these members after ``links.sql`` has read their children."""
    found, alike = json.decode(text, type=ReadLinks), dict[UUID, str]()
    links = dict[UUID, list[Link]]((parent, []) for parent in parents)
    for each in found.children or ():
        if each.number > MOST_SINGLE:
            alike[each.id] = bytes(each.jobs).decode()
        jobs = [each.id] if each.number == 1 or each.id in alike else json.decode(each.jobs, type=list[UUID])
        waits = each.needs, each.waits, each.is_gate, each.on_failure, each.is_suspended, each.is_cancelled
        for child in (Waiting(job, *waits) for job in jobs):
            for parent, *edge in zip(each.parents, each.tolerates, each.are_children, each.are_outside, strict=True):
                links[parent].append(Link(parent, child, *edge))
        if each.is_last:
            links[each.id] = []
    flows = {each.id: each.flow() for each in found.flows or ()}
    return Known(instant(found.now), flows, links, alike=alike)

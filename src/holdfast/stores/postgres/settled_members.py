"""The members that a settle has ended, and what depends on them: the answers of ``settle.sql`` and ``links.sql``."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import Struct, json

from holdfast._core.encoding import instant
from holdfast._core.graph import Ended, Link, Vertex, Waiting
from holdfast._core.job import Reason, State
from holdfast._core.member import OnFailure
from holdfast._core.workflow import Flow
from holdfast.stores.postgres.flow_plan import Known


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
    """Blocked members that are alike. ``id``: of one of them; ``alike``: of all; ``links``: from parents that were asked for.

    ``is_last``: it is a gate on which no other member depends.
    """

    id: UUID
    alike: str | None
    needs: int
    waits: int
    is_gate: bool
    on_failure: OnFailure
    is_suspended: bool
    is_cancelled: bool
    links: list[int]
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


def shown_as(settled: Sequence[SettledMember]) -> list[int]:
    """Return for each member the place of the one as which ``links.sql`` returns it: those that have completed are alike to children."""
    first = dict[UUID, int]()
    return [
        first.setdefault(each.flow, place) if each.state is State.COMPLETED else place for place, each in enumerate(settled, 1)
    ]


def links_of(text: str, parents: Sequence[UUID]) -> Known:
    """Return what is known of these members after ``links.sql`` has read their children."""
    found, alike = json.decode(text, type=ReadLinks), dict[UUID, str]()
    links = [list[Link]() for _ in parents]
    gates = dict[UUID, list[Link]]()
    for each in found.children or ():
        waits = each.needs, each.waits, each.is_gate, each.on_failure, each.is_suspended, each.is_cancelled
        child = Waiting(each.id, *waits)
        for link in each.links:
            place = (link >> 3) - 1
            links[place].append(Link(parents[place], child, bool(link & 4), bool(link & 2), bool(link & 1)))
        if each.alike is not None:
            alike[each.id] = each.alike
        if each.is_last:
            gates[each.id] = []
    flows = {each.id: each.flow() for each in found.flows or ()}
    return Known(instant(found.now), flows, dict(zip(parents, links, strict=True)) | gates, alike=alike)

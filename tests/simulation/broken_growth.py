"""Workflows that grow, and jobs that wait for existing ones, with one missing guard: stores, and workers as context managers."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core import children, flow_growth, flow_moves, graph, graph_steering
from holdfast._core.answers import EnqueueAnswer, ReopenAnswer
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.children import Adopted, Adopter
from holdfast._core.dependencies import After
from holdfast._core.flow_growth import FlowGrowth
from holdfast._core.flow_moves import FlowMoves
from holdfast._core.graph import Ended, Graph, Links, Verdict, Waiting
from holdfast._core.job import NewJob, Token
from holdfast._core.workflow import Flow, Items, NewMember, Output
from holdfast._engine.tasks.steps import StepLog
from tests.simulation.patching import patched


class ChildrenOfLostTokens(Book):
    """A job that another worker owns by now still adds members to its workflow."""

    def enqueue_member(self, now: Moment, call: UUID, child: NewMember, *, under: tuple[UUID, Token]) -> EnqueueAnswer:
        row = self._all.jobs.get(under[0])
        if row is None or row.member is None:
            return super().enqueue_member(now, call, child, under=under)
        with patched(self, _active=lambda job, token: row):
            return super().enqueue_member(now, call, child, under=under)


class ItemsOutOfOrder(Book):
    """The results of a map are those of the last items first."""

    def _output(self, job: UUID) -> Output | None:
        output = super()._output(job)
        return Items(output.jobs[::-1]) if isinstance(output, Items) else output


class ParentsReadEarlier(Book):
    """A job that is added counts the jobs that it waits for as they were before an operator ran them again."""

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        self._earlier = {row.id: row.state for row in self._rows(ids)}
        return super().reopen(now, ids, is_fresh=is_fresh)

    def enqueue_after(self, now: Moment, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        read, earlier = self._graph, getattr(self, "_earlier", {})

        def stale(flow: UUID) -> Graph:
            graph = read(flow)
            return graph.replaced(
                structs.replace(each, state=earlier.get(each.id, each.state)) for each in graph.outside.values()
            )

        with patched(self, _graph=stale):
            return super().enqueue_after(now, call, jobs, after)


class DependentsReadEarlier(Book):
    """An operator who runs a job again does not reach the job that was the last to be added behind it."""

    def enqueue_after(self, now: Moment, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        self._newest = {job.id for job in jobs}
        return super().enqueue_after(now, call, jobs, after)

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        read, newest = self._edges_from, getattr(self, "_newest", set())
        with patched(self, _edges_from=lambda parent: [edge for edge in read(parent) if edge.child not in newest]):
            return super().reopen(now, ids, is_fresh=is_fresh)


def children_raise_no_counters() -> AbstractContextManager[None]:
    """What waits for a member gets edges to its children, and its counters stay as they were."""
    return patched(flow_growth, raised=lambda parent, adopted, near: {})


def roots_wait_for_no_children() -> AbstractContextManager[None]:
    """A root does not wait for what its members add."""
    return patched(children, gates_of=lambda member, near: [])


def gathers_are_not_remembered() -> AbstractContextManager[None]:
    """The first replay of a call or a gather adds its children again."""
    known, wait = set[tuple[UUID, str]](), StepLog.children

    async def again(self: StepLog, name: str, members: Sequence[NewMember]) -> list[UUID]:
        records = await self._read()
        recorded = records.get((name, self._uses[name] + 1))
        if recorded is None or (self._job.id, name) in known:
            return await wait(self, name, members)
        known.add((self._job.id, name))
        del records[recorded.key]
        return await wait(self, name, members)

    return patched(StepLog, children=again)


def empty_maps_never_end() -> AbstractContextManager[None]:
    """A map is judged when its last item ends, and an empty one has no item."""
    add = FlowGrowth._add

    def late(self: FlowGrowth, parent: Adopter, adopted: Adopted, near: Graph, judged: Sequence[UUID]) -> None:
        is_empty = adopted.member.is_gate and not adopted.members
        add(self, parent, adopted, near, [] if is_empty else judged)

    return patched(FlowGrowth, _add=late)


def first_child_releases() -> AbstractContextManager[None]:
    """A job that waits for several children runs again once the first of them has ended."""
    decide = graph.decide

    def early(child: Waiting, flow: Flow) -> Verdict | None:
        return decide(structs.replace(child, waits=0) if child.is_suspended else child, flow)

    def pass_on(ended: Sequence[Ended], flow: Flow, links: Links) -> graph.Cascade:
        with patched(graph, decide=early):
            return graph.pass_on(ended, flow, links)

    return patched(flow_moves, pass_on=pass_on)


def ends_reach_no_other_flow() -> AbstractContextManager[None]:
    """The end of a job is not passed on to jobs of other workflows."""
    return patched(FlowMoves, _pass_to_others=lambda self, flow, ended: None)


def dependents_released_later() -> AbstractContextManager[None]:
    """Jobs of other workflows learn of the end of a job with the next write that ends one."""
    tell, later = FlowMoves._pass_to_others, list[tuple[Flow, Sequence[Ended]]]()

    def next_time(self: FlowMoves, flow: Flow, ended: Sequence[Ended]) -> None:
        if ended:
            earlier = [*later]
            later[:] = [(flow, ended)]
            for each in earlier:
                tell(self, *each)

    return patched(FlowMoves, _pass_to_others=next_time)


def cancels_keep_failures() -> AbstractContextManager[None]:
    """A cancel does not pass on the failures that a pause has held up, to jobs of other workflows."""
    cancel = graph_steering.cancel

    def forgetful(found: Graph, flow: Flow, reason: Any) -> Any:
        steered = cancel(found, flow, reason)
        held = {each.id for each in found.members.values() if each.is_finished}
        left = [each for each in steered.cascade.ended if each.id not in held]
        return structs.replace(steered, cascade=structs.replace(steered.cascade, ended=left))

    return patched(flow_moves, cancel=forgetful)

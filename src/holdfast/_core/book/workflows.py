"""Workflows in a book: every move of a member passes through here, with what it releases and ends."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.apart import are_equal
from holdfast._core.book.content import Content
from holdfast._core.book.moment import Moment, micros
from holdfast._core.book.rows import Rows
from holdfast._core.book.state import BookState
from holdfast._core.children import Adopted, Adopter
from holdfast._core.dependencies import After, dependents_of, lone_root, require_known
from holdfast._core.flow_changes import FlowChange
from holdfast._core.flow_growth import FlowGrowth
from holdfast._core.flow_moves import Dependent
from holdfast._core.graph import Cascade, Ended, Graph, Link, Verdict, Waiting, shown_outside
from holdfast._core.job import PLACE_OF, NewJob, Place, Reason, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.member import OnFailure
from holdfast._core.member_record import (
    dependency_failure,
    held_if_paused,
    judged,
    member_view,
    output_of,
    resumed,
    vertex_of,
    with_member,
)
from holdfast._core.record import JobRecord, as_read, new_record, record_of_finished, reopened
from holdfast._core.requests import QueueSettings
from holdfast._core.workflow import Edge, Flow, FlowVerb, FlowView, Items, NewFlow, NewMember, Output, Revived, SteerFlow
from holdfast.errors import HoldfastError


class BookWorkflows(BookState):
    """The verbs of ``Workflows``; each keeps the promise of the verb of this name in ``_ports/workflows``."""

    def enqueue_flow(self, now: Moment, call: UUID, new: NewFlow) -> EnqueueAnswer:
        if call not in self._all.receipts:
            self._all.receipts[call] = (now.wall, self._insert_flow(new, now))
        return self._all.receipts[call][1]

    def outputs(self, now: Moment, ids: Sequence[UUID]) -> Mapping[UUID, Output]:
        del now
        found = {job: self._output(job) for job in ids}
        return {job: output for job, output in found.items() if output is not None}

    def flow(self, now: Moment, flow: UUID) -> FlowView | None:
        known = self._all.flows.get(flow)
        if known is None:
            return None
        graph = self._graph(flow)
        rows = [as_read(row, now.wall) for row in sorted(self._flow_rows(flow), key=lambda row: row.id == flow)]
        members = tuple(member_view(row, row.member, graph.parents.get(row.id, ())) for row in rows if row.member is not None)
        return FlowView(known, members)

    def steer_flow(self, now: Moment, flow: UUID, how: SteerFlow) -> State | None:
        root = self._all.jobs.get(flow)
        if root is None or flow not in self._all.flows:
            return None
        if not how.reopens or (self._holder(root, now.wall) in (None, root) and not root.is_stub):
            self._moves(now).steer(flow, how)
        return self._all.jobs[flow].state

    def revive(
        self, now: Moment, limit: int, *, after: UUID | None = None, flow: UUID | None = None, dry_run: bool = False
    ) -> Revived:
        known = self._all.open_flows
        asked = iter(known) if after is None else known.beyond(after)
        if flow is not None:
            asked = iter([flow] if self._is_root(flow) and self._is_unfinished(flow) else [])
        left = [*islice(asked, limit + 1)]
        lost = {each for each in left[:limit] if each not in self._all.flows}
        moves = self._moves(now)
        seen = {each: moves.revive(each, dry_run=dry_run, is_restored=each in lost) for each in left[:limit]}
        if not dry_run:
            self._all.flows.update({each: moves.flow(each) for each in lost})
        return Revived(
            repairs=tuple(repair for _, repairs in seen.values() for repair in repairs),
            overdue=tuple(each for each, (is_overdue, _) in seen.items() if is_overdue),
            next=left[limit - 1] if len(left) > limit else None,
        )

    def _insert_flow(self, new: NewFlow, now: Moment) -> EnqueueAnswer:
        root, members = new.root.job, (*new.members, new.root)
        rows = [structs.replace(new_record(each.job, now.wall), member=each.member, state=State.BLOCKED) for each in members]
        holder = self._holder(rows[-1], now.wall)
        if holder is not None:
            return EnqueueAnswer({root.id: Duplicate(holder.id, are_equal(holder.payload, root.payload))})
        if not self._are_new([row.id for row in rows]):
            raise HoldfastError("enqueue: a job of that id exists already; each job needs its own id")
        deadline = None if new.deadline is None else now.wall + timedelta(microseconds=micros(new.deadline))
        self._take_key(rows[-1])
        for row in rows:
            self._put(self._in_its_queue(row))
        self._put_edges(new.edges)
        self._moves(now).begin(Flow(id=root.id, deadline_at=deadline))
        return EnqueueAnswer()

    def enqueue_member(self, now: Moment, call: UUID, child: NewMember, *, under: tuple[UUID, Token]) -> EnqueueAnswer:
        if call not in self._all.receipts:
            answer = EnqueueAnswer(is_lost=self._active(*under) is None)
            if not answer.is_lost:
                self._moves(now).join(under[0], child)
            self._all.receipts[call] = (now.wall, answer)
        return self._all.receipts[call][1]

    def enqueue_after(self, now: Moment, call: UUID, jobs: Sequence[NewJob], after: After) -> EnqueueAnswer:
        if call not in self._all.receipts:
            require_known(after.parents, self._all.jobs)
            if not self._are_new([job.id for job in jobs]):
                raise HoldfastError("enqueue: a job of that id exists already; each job needs its own id")
            flows = {parent: self._flow_of(self._all.jobs[parent]) for parent in after.parents}
            new = dependents_of(jobs, after, flows)
            for each in new.members:
                row = structs.replace(new_record(each.job, now.wall), member=each.member, state=State.BLOCKED)
                self._put(self._in_its_queue(row))
            self._put_edges(new.edges)
            for each in new.members:
                self._moves(now).begin(Flow(id=each.job.id))
            self._all.receipts[call] = (now.wall, EnqueueAnswer())
        return self._all.receipts[call][1]

    def _flow_of(self, row: JobRecord) -> UUID:
        """Return the flow of a job; a plain one becomes the root of one."""
        if row.member is None:
            self._put(structs.replace(row, member=lone_root(row.id, row.task)))
            self._all.flows[row.id] = Flow(id=row.id)
        return row.id if row.member is None else row.member.flow

    def _require_new_children(self, transitions: Sequence[Transition]) -> None:
        """Raise, before anything is written, if a job would add a child whose id is that of another job."""
        adding = [each.children for each in transitions if each.children and self._active(each.job, each.token)]
        ids = [new.job.id for children in adding for new in children.members]
        if not self._are_new(ids):
            raise HoldfastError("exchange: a child has the id of another job; each job needs its own id")

    def _adopt_all(self, moved: Sequence[Transition], now: Moment) -> None:
        """Insert the children of jobs that this write has blocked, but for those whose cancellation was requested."""
        for each in moved:
            if each.children is not None and self._all.jobs[each.job].state is State.BLOCKED:
                for record in each.children.records:
                    self._keep_step(each.job, record)
                self._moves(now).adopt(each.job, each.children)

    def _move(self, row: JobRecord) -> None:
        """Write a row that has moved; a member that would be available is held while its workflow is paused."""
        self._put(row if row.member is None else held_if_paused(row, self._state_of(row.member.flow)))

    def _state_of(self, flow: UUID) -> Flow:
        return self._all.flows.get(flow) or Flow(id=flow)  # it was lost: the next pass of repairs puts it back

    def _pass_on(self, moved: Sequence[UUID], now: Moment) -> None:
        """Write what the members among these jobs, which this write has moved, release or end."""
        ended = dict[UUID, list[Ended]]()
        for row in self._rows(moved):
            if row.member is not None and PLACE_OF[row.state] is Place.FINISHED:
                ended.setdefault(row.member.flow, []).append(vertex_of(row, row.member).ended())
        for flow, members in ended.items():
            self._moves(now).pass_on(flow, members)

    def _moves(self, now: Moment) -> "_BookMoves":
        return _BookMoves(self, self._all, now.wall)

    def _cancel_flows(self, roots: Sequence[UUID], now: Moment) -> None:
        for root in roots:
            if root in self._all.flows and self._is_unfinished(root):
                self._moves(now).steer(root, SteerFlow(verb=FlowVerb.CANCEL))

    def _retry_members(self, finished: Rows, now: Moment, *, is_fresh: bool) -> dict[UUID, UUID]:
        """Run finished members again; return those left finished because another job has the unique key of their workflow."""
        taken = dict[UUID, UUID]()
        for row in finished:
            assert row.member is not None
            root = self._all.jobs[row.member.flow]
            holder = self._holder(root, now.wall)
            if holder is not None and holder.id != root.id:
                taken[row.id] = holder.id
            elif not root.is_stub:
                self._moves(now).retry_member(root.id, row.id, is_fresh=is_fresh)
        return taken

    def _remember_attempt(self, row: JobRecord) -> None:
        """Keep the last attempt of a finished job whose row is about to lose the token."""
        is_known = self._all.attempts.row((row.id, row.token)) is not None
        if row.token.claim is not None and PLACE_OF[row.state] is Place.FINISHED and not is_known:
            self._all.attempts.put(row.id, row.token, record_of_finished(row))

    def _reopened(self, row: JobRecord, wall: datetime, *, is_fresh: bool) -> JobRecord:
        """Return the record of a retried job; a fresh retry has forgotten its steps."""
        if is_fresh:
            self._all.steps.drop_all(row.id)
        return reopened(row, wall, is_fresh=is_fresh)

    def _cancelled_by(self, row: JobRecord) -> Reason:
        if row.member is None or row.member.flow == row.id or self._state_of(row.member.flow).ended_for is None:
            return Reason.BY_OPERATOR
        return Reason.BY_WORKFLOW

    def _is_needed(self, row: JobRecord) -> bool:
        """Return whether a member of a workflow has not ended, or its workflow has not, or a job of another one waits and depends on it."""
        if row.member is None:
            return False
        if PLACE_OF[row.state] is not Place.FINISHED:
            return not self._is_lone(row)
        return self._is_unfinished(row.member.flow) or self._is_awaited(row)

    def _is_awaited(self, row: JobRecord) -> bool:
        """Return whether a job of another flow waits, and depends on this one, or on another member of its flow."""
        members = () if row.member is None else self._all.members[row.member.flow]
        children = [edge for member in members for edge in self._edges_from(member)]
        return any(edge.parent_flow is not None and self._all.jobs[edge.child].state is State.BLOCKED for edge in children)

    def _edges_from(self, parent: UUID) -> list[Edge]:
        return [self._all.edges[child][parent] for child in self._all.children.get(parent, ())]

    def _is_root(self, job: UUID) -> bool:
        row = self._all.jobs.get(job)
        return row is not None and row.member is not None and row.member.flow == job

    def _is_unfinished(self, flow: UUID) -> bool:
        root = self._all.jobs.get(flow)
        return root is not None and PLACE_OF[root.state] is not Place.FINISHED

    def _doomed_with(self, row: JobRecord) -> Rows:
        """Return what is deleted with a job whose retention is over, its members first; without it while one of them has not ended."""
        members = self._members_kept_for(row)
        finished = [each for each in members if PLACE_OF[each.state] is Place.FINISHED]
        return finished if len(finished) < len(members) else [*members, row]

    def _waits_for_children(self, row: JobRecord) -> bool:
        return row.member is not None and row.state is State.BLOCKED and (row.member.is_gate or row.member.is_suspended)

    def _with_children(self, ids: Sequence[UUID]) -> Rows:
        """Return these jobs, and what those of them that wait for their children have added."""
        rows, found = self._rows(ids), list[UUID]()
        for row in rows:
            is_parent = row.member is not None and self._waits_for_children(row)
            found += self._graph(row.member.flow).below([row.id]) if is_parent and row.member is not None else [row.id]
        return self._rows(found)

    def _members_kept_for(self, row: JobRecord) -> Rows:
        """Return the members that are deleted before this root; none for other jobs."""
        is_root = row.member is not None and row.member.flow == row.id
        return [each for each in self._flow_rows(row.id) if each.id != row.id] if is_root else []

    def _output(self, job: UUID) -> Output | None:
        row = self._all.jobs.get(job)
        if row is not None and row.member is not None and row.state is State.COMPLETED and not row.is_stub:
            if row.member.source is not None:
                return self._output(row.member.source)
            if row.member.is_map and row.member.is_gate:
                items = [edge.parent for edge in self._all.edges.get(job, {}).values() if edge.is_child]
                return Items(tuple(sorted(items, key=lambda item: self._all.places.get(item, -1))))
        return output_of(row)

    def _graph(self, flow: UUID) -> Graph:
        rows = self._flow_rows(flow)
        edges = [edge for row in rows for edge in self._all.edges.get(row.id, {}).values()]
        outside = self._rows([edge.parent for edge in self._all.edges.get(flow, {}).values() if edge.parent_flow is not None])
        seen = [
            shown_outside(vertex_of(row, row.member), self._state_of(row.member.flow))
            for row in outside
            if row.member is not None
        ]
        return Graph((vertex_of(row, row.member) for row in rows if row.member is not None), edges, seen)

    def _flow_rows(self, flow: UUID) -> Rows:
        return self._rows(sorted(self._all.members.get(flow, ()), key=lambda member: self._all.places[member]))


class _BookMoves(FlowGrowth):
    """The reads and writes of a book for the moves of members."""

    def __init__(self, book: BookWorkflows, tables: Content, now: datetime) -> None:
        self._book, self._all, self.now = book, tables, now
        self.changes = list[FlowChange]()

    def apply(self, flow: Flow, cascade: Cascade) -> None:
        super().apply(flow, cascade)
        self._book.flow_changes.add(self.changes)
        self.changes.clear()

    def flow(self, flow: UUID) -> Flow:
        return self._book._state_of(flow)

    def graph(self, flow: UUID) -> Graph:
        return self._book._graph(flow)

    def links(self, parents: Sequence[UUID]) -> Iterable[Link]:
        for parent, child in ((each, child) for each in parents for child in self._all.children.get(each, ())):
            row, edge = self._all.jobs[child], self._all.edges[child][parent]
            if row.member is not None and row.state is State.BLOCKED:
                waiting = vertex_of(row, row.member).waiting()
                yield Link(parent, waiting, edge.tolerates, edge.is_child, is_outside=edge.parent_flow is not None)

    def dependents(self, flow: UUID, members: Sequence[UUID]) -> Iterable[Dependent]:
        del flow
        edges = [edge for each in members for edge in self._book._edges_from(each) if edge.parent_flow is not None]
        for edge in edges:
            row = self._all.jobs[edge.child]
            if row.member is not None:
                yield Dependent(edge.parent, vertex_of(row, row.member), edge.tolerates)

    def adopter(self, job: UUID) -> Adopter:
        row = self._all.jobs[job]
        added = self._all.queue_settings.get(row.queue, QueueSettings()).priority
        return Adopter(
            id=job,
            task=row.task,
            queue=row.queue,
            key=row.key,
            priority=row.priority - added,
            tags=row.tags,
            member=row.member,
        )

    def near(self, job: UUID) -> Graph:
        edges = [*self._all.edges.get(job, {}).values()]
        edges += [self._all.edges[child][job] for child in self._all.children.get(job, ())]
        rows = self._book._rows([job, *(each for edge in edges for each in (edge.parent, edge.child))])
        return Graph((vertex_of(row, row.member) for row in rows if row.member is not None), edges)

    def insert_flow(self, flow: UUID, deadline: float | None) -> None:
        at = None if deadline is None else self.now + timedelta(microseconds=micros(deadline))
        self.set_flow(Flow(id=flow, deadline_at=at))

    def insert(self, parent: Adopter, adopted: Adopted) -> None:
        rows = [structs.replace(new_record(each.job, self.now), member=each.member) for each in adopted.members]
        if self._book._rows([row.id for row in rows]):
            raise HoldfastError("a child's id is that of another job: each job needs its own id")
        self._put(structs.replace(self._all.jobs[parent.id], member=adopted.member))
        for row in rows:
            self._put(structs.replace(self._book._in_its_queue(row), state=State.BLOCKED))
        self._book._put_edges(adopted.edges)

    def is_unfinished(self, flow: UUID) -> bool:
        return self._book._is_unfinished(flow)

    def set_flow(self, flow: Flow) -> None:
        self._all.flows[flow.id] = flow

    def set_counters(self, counters: Mapping[UUID, Waiting]) -> None:
        for job, waiting in counters.items():
            self._put(with_member(self._all.jobs[job], needs=waiting.needs, waits=waiting.waits))

    def set_policies(self, policies: Mapping[UUID, OnFailure]) -> None:
        for job, policy in policies.items():
            self._put(with_member(self._all.jobs[job], on_failure=policy))

    def judge(self, verdicts: Mapping[UUID, Verdict], flow: Flow) -> None:
        for job, verdict in verdicts.items():
            self._put(judged(self._all.jobs[job], verdict, flow, self.now))
        for row in self._book._rows([*verdicts]):
            if row.reason is Reason.DEPENDENCY_FAILED:
                self._put(structs.replace(row, error=dependency_failure(self._failed_parents_of(row.id))))

    def _failed_parents_of(self, job: UUID) -> Sequence[tuple[str, Reason | None]]:
        """Return the parents that did not complete, and those of the gates among them."""
        found, level = dict[UUID, JobRecord](), [job]
        while level:
            rows = self._book._rows([parent for each in level for parent in self._all.edges.get(each, ())])
            news = {row.id: row for row in rows if row.state in (State.FAILED, State.CANCELLED) and row.id not in found}
            found |= news
            level = [row.id for row in news.values() if row.member is not None and row.member.is_gate]
        failed = [row for row in found.values() if row.finished_at is not None]
        failed.sort(key=lambda row: (row.finished_at, row.id))
        return [(row.member.node, row.reason) for row in failed if row.member is not None]

    def block(self, members: Sequence[UUID], *, is_fresh: bool) -> None:
        for job in members:
            row = self._all.jobs[job]
            self._book._take_key(row)
            self._book._remember_attempt(row)
            blocked = structs.replace(self._book._reopened(row, self.now, is_fresh=is_fresh), state=State.BLOCKED)
            self._put(with_member(blocked, is_suspended=False))

    def hold(self, flow: UUID) -> None:
        for row in self._book._flow_rows(flow):
            if row.state is State.AVAILABLE:
                self._put(held_if_paused(row, self.flow(flow)))

    def resume(self, flow: UUID) -> None:
        for row in self._book._flow_rows(flow):
            if row.member is not None and row.member.is_paused:
                self._put(resumed(row))

    def request_cancel(self, flow: UUID) -> None:
        for row in self._book._flow_rows(flow):
            if PLACE_OF[row.state] is Place.ACTIVE:
                self._put(structs.replace(row, cancel_requested=True))

    def _put(self, row: JobRecord) -> None:
        self._book._put(row)

"""Workflows: each member moves when the states of its parents ask for it, in the write that changes them, and only then.

After each write the rules compute the counters and the next state of all members from the rows and edges alone.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import PLACE_OF, Place, Reason, State
from holdfast._core.member import Member, OnFailure
from holdfast._core.workflow import Edge
from proof.checker.flow_rows import FlowRow
from proof.checker.history import Event, JobRow, Phase
from proof.checker.verdicts import CheckContext, Seers

_BECAUSE_OF_OTHERS = (Reason.DEPENDENCY_FAILED, Reason.BY_WORKFLOW)
_OPERATORS = ("steer_flow", "reopen")


class _Move(Struct, frozen=True):
    """A change of a member's row in a write that has not ended yet."""

    job: UUID
    verb: str
    before: JobRow
    after: JobRow


class _Flow(Struct):
    """A workflow. ``was_held``: whether nothing of it may have been claimed since its last write. ``had_ended``: whether it was being
    cancelled before this write. ``is_damaged``: its counters were changed by hand, and have not been right since."""

    row: FlowRow = FlowRow()
    members: dict[UUID, None] = field(default_factory=dict)
    parents: dict[UUID, list[Edge]] = field(default_factory=dict)
    moves: list[_Move] = field(default_factory=list)
    was_held: bool = False
    had_ended: bool = False
    is_damaged: bool = False


class Flows:
    """S18, S19, S20, S27, L12 and L17."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._rows: dict[UUID, JobRow] = {}
        self._flows: dict[UUID, _Flow] = {}
        self._behind: defaultdict[UUID, dict[UUID, None]] = defaultdict(dict)  # by flow: those that depend on its members
        self._touched: dict[UUID, None] = {}
        self._repaired = set[UUID]()  # those that were damaged at any time
        self._forgotten = set[UUID]()  # those of which only the outcome is left, or not all parents are
        self._is_done = False

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        seen: Seers = {"job": self._see_job, "flow": self._see_flow, "written": self._see_written}
        return seen | {"revive": self._see_repairs, "done": self._see_done}

    def finish(self) -> None:
        """Check that no workflow is stuck."""
        if self._context.rules.is_complete and not self._is_done:
            self._expect_ends()

    def _see_done(self, event: Event) -> None:
        del event
        self._is_done = True
        self._expect_ends()

    def _expect_ends(self) -> None:
        for flow, known in self._flows.items():
            root, is_blocked = self._rows.get(flow), any(row.state is State.BLOCKED for _, row in self._members(known))
            is_over = root is None or (root.is_finished and not is_blocked) or known.row.is_paused
            is_settled = is_over or self._waits_for_held(flow)
            self._expect("L12", is_settled, flow, "at the end the workflow has not ended, and nothing that it waits for is held")
            is_repaired = is_over or not known.is_damaged
            self._expect("L17", is_repaired, flow, "at the end the counters of the workflow are still those of the damage")

    def _waits_for_held(self, flow: UUID) -> bool:
        """Return whether a member is held, of the workflow or of one that it depends on."""
        found, level = {flow}, [flow]
        while level:
            above = {edge.parent_flow for each in level for edges in self._flows[each].parents.values() for edge in edges}
            level = [each for each in above if each in self._flows and each not in found]
            found.update(level)
        return any(row.state is State.HELD for each in found for _, row in self._members(self._flows[each]))

    def _see_repairs(self, event: Event) -> None:
        if event.phase is Phase.OK:
            for word in event.note.split():
                flow = UUID(word)
                self._expect("L17", flow in self._repaired, flow, "a repair changed the workflow, whose counters were right")
            self._expect("L17", True, None, "")

    # truth

    def _see_job(self, event: Event) -> None:
        before, after, job = event.before, event.after, event.job
        assert job is not None
        last = after if isinstance(after, JobRow) else before
        if not isinstance(last, JobRow) or last.member is None:
            return
        flow = last.member.flow
        known = self._flows.setdefault(flow, _Flow())
        self._touched[flow] = None
        if not isinstance(after, JobRow):
            self._see_removal(flow, known, job)
            return
        self._rows[job] = after
        known.members[job] = None
        verb = "" if event.by is None else event.by.verb
        if verb == "drift":
            known.is_damaged = True
            self._repaired.add(flow)
        if verb == "prune" and job != flow:
            root = self._rows.get(flow)
            is_over = root is None or root.is_finished
            self._expect("S27", is_over, job, "the result of the member is gone, and its workflow goes on")
        if verb == "prune":
            self._forgotten.add(job)
        if isinstance(before, JobRow):
            known.moves.append(_Move(job, verb, before, after))

    def _expect_unawaited(self, flow: UUID, job: UUID, row: JobRow) -> None:
        """Check that no job of another workflow waits, and depends on this one, which is forgotten now."""
        edges = [edge for each in self._behind[flow] for edge in self._flows[each].parents.get(each, ()) if edge.parent == job]
        waiting = [edge.child for edge in edges if edge.child in self._rows and self._rows[edge.child].state is State.BLOCKED]
        text = "it has ended and is gone, and {} still waits and depends on it"
        self._expect("S27", not row.is_finished or not waiting, job, text, next(iter(waiting), None))

    def _see_removal(self, flow: UUID, known: _Flow, job: UUID) -> None:
        if job == flow:
            left = [each for each in known.members if each != job]
            self._expect("S27", not left, flow, "the root of the workflow is gone, and {} of its members are left", len(left))
        else:
            root = self._rows.get(flow)
            is_over = root is not None and root.is_finished
            self._expect("S27", is_over, job, "the member is gone, and its workflow is {}", root and root.state)
        if job in self._rows:
            self._expect_unawaited(flow, job, self._rows.pop(job))
        known.members.pop(job, None)
        known.moves = [each for each in known.moves if each.job != job]

    def _see_flow(self, event: Event) -> None:
        assert event.job is not None
        if not isinstance(event.after, FlowRow):
            self._flows.pop(event.job, None)
            self._touched.pop(event.job, None)
            for each in self._behind.values():
                each.pop(event.job, None)
            return
        known = self._flows.setdefault(event.job, _Flow())
        before, known.row, known.parents = known.parents, event.after, {}
        known.was_held &= _is_held(event.after)  # a write that resumes it claims nothing
        for edge in event.after.edges:
            known.parents.setdefault(edge.child, []).append(edge)
            if edge.parent_flow is not None:
                self._behind[edge.parent_flow][event.job] = None
        self._forgotten.update(job for job, edges in before.items() if len(known.parents.get(job, ())) < len(edges))
        self._touched[event.job] = None

    def _see_written(self, event: Event) -> None:
        at = datetime.fromisoformat(event.note)
        behind = {flow: None for touched in self._touched for flow in self._behind[touched]}
        for flow in self._touched | behind:
            known = self._flows[flow]
            moves, known.moves = known.moves, []
            if flow in self._rows:
                self._judge(flow, known, moves, at)
            known.was_held, known.had_ended = _is_held(known.row), known.row.ended_for is not None
        self._touched = {}

    # what a write must have done

    def _judge(self, flow: UUID, known: _Flow, moves: list[_Move], at: datetime) -> None:
        self._expect_claims(known, moves)
        self._expect_end_of_all(flow, known, moves)
        blocked = {move.job for move in moves if move.after.state is State.BLOCKED}
        for move in moves:
            if move.before.state is State.BLOCKED and move.after.state is not State.BLOCKED:
                self._expect_verdict(flow, known, move)
            elif move.before.is_finished and not move.after.is_finished:
                text = "it was {} and is {}, and no operator has asked for it"
                self._expect("S18", move.verb in _OPERATORS, move.job, text, move.before.state, move.after.state)
                if move.job not in blocked:
                    self._expect_verdict(flow, known, move)
        wrong = [*self._wrong_counters(known)]
        if known.is_damaged:
            known.is_damaged = bool(wrong)
            return
        for job, member, needs, waits in wrong:
            text = "it waits for {} of {} parents, and its row says {} of {}"
            self._expect("S19", False, job, text, needs, waits, member.needs, member.waits)
        self._expect("S19", True, flow, "")
        self._expect_nothing_left(known)
        self._expect_in_time(flow, known, moves, at)

    def _expect_claims(self, known: _Flow, moves: list[_Move]) -> None:
        is_held = known.was_held or _is_held(known.row)
        for move in moves:
            is_claim = PLACE_OF[move.before.state] is Place.PENDING and PLACE_OF[move.after.state] is Place.ACTIVE
            if is_claim:
                why = "paused" if known.row.is_paused else f"ended for {known.row.ended_for}"
                self._expect("S20", not is_held, move.job, "it was claimed, and its workflow is {}", why)

    def _expect_end_of_all(self, flow: UUID, known: _Flow, moves: list[_Move]) -> None:
        """Check that nothing of a workflow is left when its root ends, which has no code."""
        for move in moves:
            member = move.after.member
            if (
                move.job == flow
                and member is not None
                and member.is_gate
                and move.after.is_finished
                and not move.before.is_finished
            ):
                left = [job for job, row in self._members(known) if not row.is_finished]
                text = "the workflow has ended, and {} of its members have not, {} among them"
                self._expect("S18", not left, flow, text, len(left), next(iter(left), None))

    def _expect_verdict(self, flow: UUID, known: _Flow, move: _Move) -> None:
        """Check the end of a member's wait by the states of its parents after the write."""
        after, member = move.after, move.after.member
        assert member is not None
        needs, waits = self._counters(known, move.job, member)
        ended_for, is_root = known.row.ended_for, move.job == flow
        is_cancelled = ended_for is not None or move.before.is_cancel_requested
        match after.state:
            case State.AVAILABLE | State.HELD if member.is_suspended:
                is_right = waits <= 0 and not move.before.is_cancel_requested
            case State.AVAILABLE | State.HELD:
                is_right = not member.is_gate and needs <= 0
            case State.COMPLETED:
                is_right = member.is_gate and needs <= 0 and waits <= 0
            case State.FAILED if member.is_gate:
                had_ended = known.had_ended and ended_for is not None  # else it may fail in the write that cancels, or retries
                is_right = waits <= 0 and needs > 0 and (is_root or not (had_ended or move.before.is_cancel_requested))
                is_right &= after.reason is ((is_root and ended_for) or Reason.DEPENDENCY_FAILED)
            case State.FAILED:
                is_right = waits < needs and after.reason is Reason.DEPENDENCY_FAILED and not member.is_suspended
            case State.CANCELLED if member.is_gate or member.is_suspended:
                is_right = waits <= 0 and is_cancelled and (needs > 0 or not member.is_gate)
                is_right &= not is_root or ended_for in (None, Reason.BY_OPERATOR)
            case State.CANCELLED:
                is_right = ended_for is not None or (move.verb == "request_cancel" and after.reason is Reason.BY_OPERATOR)
            case _:
                is_right = False
        if known.is_damaged and after.state is State.FAILED and not member.is_gate:
            return  # with damaged counters it waits longer, and never less
        text = "it waited for {} more of {} parents, and became {} {}"
        self._expect("S18", is_right, move.job, text, needs, waits, after.state, after.reason or "")

    def _expect_nothing_left(self, known: _Flow) -> None:
        """Check that no member is left where the write should have moved it from."""
        row = known.row
        for job, each in self._members(known):
            member = each.member
            assert member is not None
            is_failed = each.reason is Reason.DEPENDENCY_FAILED and each.is_finished and job not in self._forgotten
            if is_failed and not member.is_gate:
                needs, waits = self._counters(known, job, member)
                text = "it failed because of its parents, and needs {} of {} that may still complete"
                self._expect("S19", waits < needs, job, text, needs, waits)
            elif each.state is State.BLOCKED:
                needs, waits = self._counters(known, job, member)
                is_late = member.is_gate or member.is_suspended  # it ends, or goes on, after all that it waits for
                waits_on = waits > 0 if is_late else row.ended_for is None and 0 < needs <= waits
                self._expect("S19", waits_on, job, "it is still blocked, and needs {} of {} parents", needs, waits)
            elif each.state is State.AVAILABLE:
                is_allowed = not row.is_paused and row.ended_for is None
                self._expect("S20", is_allowed, job, "it may be claimed, and its workflow is paused or cancelled")
            elif each.state is State.HELD and row.ended_for is not None:
                self._expect("S20", False, job, "it is still held, and its workflow is cancelled")
            elif each.state is State.HELD and member.is_paused:
                self._expect("L12", row.is_paused, job, "it is held for a pause, and its workflow is not paused")

    def _expect_in_time(self, flow: UUID, known: _Flow, moves: list[_Move], at: datetime) -> None:
        """Check that a workflow past its deadline ends with the first write that passes something on."""
        deadline = known.row.deadline_at
        is_late = deadline is not None and deadline <= at and known.row.ended_for is None and not self._rows[flow].is_finished
        if any(each.verb in ("pass_on", "steer_flow", "revive") for each in moves):
            self._expect("S20", not is_late, flow, "the workflow is past its deadline, and goes on")

    # from rows and edges alone

    def _members(self, known: _Flow) -> Iterator[tuple[UUID, JobRow]]:
        for job in known.members:
            yield job, self._rows[job]

    def _wrong_counters(self, known: _Flow) -> Iterator[tuple[UUID, Member, int, int]]:
        for job, row in self._members(known):
            if row.state is State.BLOCKED and row.member is not None:
                needs, waits = self._counters(known, job, row.member)
                if (needs, waits) != (row.member.needs, row.member.waits):
                    yield job, row.member, needs, waits

    def _counters(self, known: _Flow, job: UUID, member: Member) -> tuple[int, int]:
        """Return how many successes a member still needs, and how many of its parents have not ended."""
        edges = [edge for edge in known.parents.get(job, []) if _counts(edge, member)]
        needs = len(edges) if member.join is None or member.is_suspended else min(member.join, len(edges))
        waits = 0
        for edge in edges:
            parent = self._rows.get(edge.parent)
            flow = known.row if edge.parent_flow is None else self._flows.get(edge.parent_flow, known).row
            if parent is None or parent.member is None:
                needs -= edge.tolerates
            elif not parent.is_finished or _is_held_back(parent, parent.member, flow):
                waits += 1
            else:
                is_success = parent.state is State.COMPLETED or parent.member.on_failure is OnFailure.CONTINUE
                needs -= edge.tolerates or is_success
        return needs, waits


def _is_held(row: FlowRow) -> bool:
    return row.is_paused or row.ended_for is not None


def _counts(edge: Edge, member: Member) -> bool:
    """Return whether a member waits for the parent of an edge now: for its children if it has added some, else for the others."""
    if member.is_gate:
        return edge.parent_flow is None
    return edge.is_child == member.is_suspended


def _is_held_back(row: JobRow, member: Member, flow: FlowRow) -> bool:
    """Return whether the failure of a member waits for the operator's decision."""
    is_cause = member.is_gate or row.reason not in _BECAUSE_OF_OTHERS
    return flow.is_paused and row.state is not State.COMPLETED and is_cause and member.on_failure is OnFailure.PAUSE

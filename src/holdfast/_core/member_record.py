"""The changes that the rules of a workflow make to the records of its members."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import structs

from holdfast._core.graph import Verdict, Vertex
from holdfast._core.job import Failed, Failure, NoResult, Reason, State
from holdfast._core.member import Member
from holdfast._core.record import JobRecord
from holdfast._core.recorded_outcome import RecordedOutcome
from holdfast._core.workflow import Edge, Flow, MemberView, Output

CULPRITS = 3
"""How many failed members an error names."""

_BECAUSE_OF_OTHERS = (Reason.DEPENDENCY_FAILED, Reason.BY_WORKFLOW)


def with_member(row: JobRecord, **changes: object) -> JobRecord:
    """Return the record of a member after a change of what it is in its workflow."""
    assert row.member is not None
    return structs.replace(row, member=structs.replace(row.member, **changes))


def vertex_of(row: JobRecord, member: Member) -> Vertex:
    """Return a member as the rules see it."""
    return Vertex(
        id=row.id,
        state=row.state,
        node=member.node,
        join=member.join,
        reason=row.reason,
        on_failure=member.on_failure,
        is_gate=member.is_gate,
        needs=member.needs,
        waits=member.waits,
        takes=frozenset(each.parent for each in member.inputs),
        is_stub=row.is_stub,
        is_suspended=member.is_suspended,
        is_cancelled=row.cancel_requested,
    )


def held_if_paused(row: JobRecord, flow: Flow) -> JobRecord:
    """Return the record of a member that has moved: one that would be available is held while its flow is paused."""
    if row.state is State.AVAILABLE and flow.is_paused:
        return with_member(structs.replace(row, state=State.HELD), is_paused=True)
    return row if row.state is State.HELD else with_member(row, is_paused=False)


def resumed(row: JobRecord) -> JobRecord:
    """Return the record of a member that a pause held, in its former position."""
    return with_member(structs.replace(row, state=State.AVAILABLE), is_paused=False)


def judged(row: JobRecord, verdict: Verdict, flow: Flow, now: datetime) -> JobRecord:
    """Return the record of a member after the verdict on it; the error of a failed one is added once it is known."""
    if verdict is Verdict.RELEASE:
        return structs.replace(row, state=State.AVAILABLE, available_at=max(now, row.available_at))
    state, reason = end_of(row.id, verdict, flow)
    ended = structs.replace(row, state=state, reason=reason, finished_at=now, awaits=None, held_for=None)
    return with_member(ended, is_paused=False)


def dependency_failure(parents: Sequence[tuple[str, Reason | None]]) -> Failure:
    """Return the error of a member, from the names and reasons of the parents that did not complete, the first to end first.

    It names those that did not fail because of others, if there are any.
    """
    names = [node for node, reason in parents if reason not in _BECAUSE_OF_OTHERS] or [node for node, _ in parents]
    return Failure("DependencyFailed", message_of(names))


def message_of(names: Sequence[str]) -> str:
    """Return the text of an error about members that did not complete."""
    more = f" and {len(names) - CULPRITS} more" if len(names) > CULPRITS else ""
    return f"{', '.join(names[:CULPRITS])}{more} did not complete" if names else "a member did not complete"


def output_of(row: JobRecord | RecordedOutcome | None) -> Output | None:
    """Return the recorded outcome of a member; ``None`` while it has not ended. Where nothing was recorded, it is a ``Failed``."""
    if row is None or row.is_stub:
        return Failed(NoResult.RESULT_NOT_AVAILABLE)
    match row.state:
        case State.COMPLETED:
            return b"null" if row.result is None else row.result
        case State.FAILED:
            return Failed(row.reason or NoResult.WORKER_CRASHED, row.error)
        case State.CANCELLED:
            return Failed(NoResult.TASK_CANCELLED, row.error)
        case _:
            return None


def member_view(row: JobRecord, member: Member, edges: Iterable[Edge]) -> MemberView:
    """Return a member as it is read; ``edges``: those that lead to it."""
    return MemberView(
        job=row.id,
        task=row.task,
        state=row.state,
        member=member,
        attempt=row.attempt,
        reason=row.reason,
        error=row.error,
        started_at=row.started_at,
        finished_at=row.finished_at,
        parents=tuple(sorted(each.parent for each in edges)),
        awaits=row.awaits,
    )


def end_of(member: UUID, verdict: Verdict, flow: Flow) -> tuple[State, Reason | None]:
    """Return the state and the reason with which a member ends by this verdict, which is not RELEASE."""
    if verdict is Verdict.COMPLETE:
        return State.COMPLETED, None
    if verdict is Verdict.FAIL:
        return State.FAILED, Reason.DEPENDENCY_FAILED
    if flow.ended_for is None:
        return State.CANCELLED, Reason.BY_OPERATOR
    if member != flow.id:
        return State.CANCELLED, Reason.BY_WORKFLOW
    if flow.ended_for is Reason.BY_OPERATOR:
        return State.CANCELLED, Reason.BY_OPERATOR
    return State.FAILED, flow.ended_for

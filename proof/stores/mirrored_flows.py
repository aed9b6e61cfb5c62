"""What a recorder of a real store reads of workflows, steps and signals, and the events that follow from two readings."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.member import Member
from proof.checker.flow_rows import FlowRow, SignalRow, StepRow
from proof.checker.history import By, JobRow
from proof.stores.rights import Call

Record = Callable[..., None]
Step = tuple[UUID, str, int]


class Signalled(Struct, frozen=True):
    """A signal that is kept for a job."""

    job: UUID
    name: str
    value: str


class FlowsSeen(Struct, frozen=True, kw_only=True):
    """All workflows, steps and signals of a store at one time of its clock. ``signals``: by their position in the store."""

    at: datetime
    members: dict[UUID, Member] = {}
    flows: dict[UUID, FlowRow] = {}
    steps: dict[Step, str | None] = {}
    signals: dict[int, Signalled] = {}


class MirroredFlows:
    """The events of one store's workflows. ``record``: adds one to the history."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._calls: dict[int, UUID] = {}  # by the position of a signal: the call that sent it
        self.seen: FlowsSeen | None = None

    def with_members(self, job: UUID, before: JobRow | None, after: JobRow | None, now: FlowsSeen) -> tuple[Any, Any]:
        """Return both rows of a job with what it is in its workflow."""
        old = None if self.seen is None else self.seen.members.get(job)
        new = now.members.get(job)
        was = None if before is None else structs.replace(before, member=old or new)
        return was, None if after is None else structs.replace(after, member=new or old)

    def look(self, call: Call, now: FlowsSeen, rows: Mapping[UUID, JobRow], *, has_moved: bool) -> dict[UUID, JobRow]:
        """Record what has changed beside the rows of jobs; return the rows whose counters have changed."""
        before, self.seen = self.seen or FlowsSeen(at=now.at), now
        changed = {}
        for job, member in now.members.items():
            row = rows.get(job)
            if row is not None and row.member is not None and row.member != member:
                changed[job] = structs.replace(row, member=member)
                self._record("job", By(call.verb), job=job, token=row.token, before=row, after=changed[job])
        for flow in sorted({*before.flows, *now.flows}):
            if before.flows.get(flow) != now.flows.get(flow):
                self._record("flow", By(call.verb), job=flow, after=now.flows.get(flow))
        is_other = before.steps != now.steps or before.signals != now.signals
        if is_other:
            self._see_steps(call, before, now)
            self._see_signals(call, before, now)
        if changed or is_other or has_moved or before.flows != now.flows:
            self._record("written", By(call.verb), note=now.at.isoformat())
        return changed

    def _see_steps(self, call: Call, before: FlowsSeen, now: FlowsSeen) -> None:
        for job in sorted({step[0] for step in before.steps if step not in now.steps}):
            self._record("steps.forgotten", By(call.verb), job=job)
        for (job, name, nth), result in now.steps.items():
            if (job, name, nth) not in before.steps or before.steps[job, name, nth] != result:
                by = _right_to_step(call, job)
                self._record("step", by, job=job, token=by.token, after=StepRow(name, nth, result))

    def _see_signals(self, call: Call, before: FlowsSeen, now: FlowsSeen) -> None:
        for place, signal in before.signals.items():
            if now.signals.get(place) == signal:
                continue
            row = SignalRow(self._calls.pop(place), signal.name, signal.value)
            if call.verb == "take_signal" and call.arguments[0] == signal.job:
                by = By(call.verb, call.arguments[1])
                self._record("signal.taken", by, job=signal.job, token=by.token, after=row)
            else:
                self._record("steps.forgotten", By(call.verb), job=signal.job, note="and signals")
        for place, signal in now.signals.items():
            if before.signals.get(place) != signal:
                sent = self._calls[place] = call.arguments[1].call
                by = By(call.verb, call=sent)
                self._record("signal.kept", by, job=signal.job, after=SignalRow(sent, signal.name, signal.value))


def _right_to_step(call: Call, job: UUID) -> By:
    if call.verb == "exchange" and (adopting := call.adopting(job)) is not None:
        return By("adopt", adopting.token, parent=job)
    return By(call.verb, call.arguments[1] if call.verb in ("record_step", "take_signal") else None)

"""The part of a recording book that concerns workflows, steps and signals, and where each write that moved members ends."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast._core.book.moment import Moment
from holdfast._core.job import Token
from holdfast._core.lifecycle import Transition
from holdfast._core.record import JobRecord
from holdfast._core.steps import Signal, SignalAnswer, SignalTaken, StepRecord
from holdfast._core.workflow import Edge, Flow
from proof.checker.flow_rows import FlowRow, SignalRow, StepRow
from proof.checker.history import By
from proof.stores.recording_schedules import RecordingSchedules

_WRITES = (
    *("enqueue_flow", "enqueue_member", "enqueue_after", "steer_flow", "revive"),
    *("exchange", "request_cancel", "reopen", "delete", "purge", "expire", "prune"),
)


class RecordingFlows(RecordingSchedules):
    """A mixin before a correct or a broken book: it records what becomes of workflows, steps and signals, and changes nothing.

    After each write that concerns one of them comes the event "written", with the time of the store's clock.
    """

    recorded_flows: dict[UUID, Flow]
    _by: By | None
    _tokens: Collection[tuple[UUID, Token]]

    def __init__(self) -> None:
        super().__init__()
        self.recorded_flows = {}
        self._grown = set[UUID]()  # the flows whose edges this write has changed
        self._depth = 0
        self._is_marked = False

    @contextmanager
    def one_write(self, now: Moment) -> Iterator[None]:
        """Note the end of a write, after all that it has changed."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._end_write(now)

    def record_step(self, now: Moment, job: UUID, token: Token, record: StepRecord) -> bool:
        """Record the new step of a job."""
        with self.one_write(now), self._changes_of(job, By("record_step", token)):
            return super().record_step(now, job, token, record)

    def take_signal(self, now: Moment, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        """Record the signal that a job consumes, and the step by which it does."""
        with self.one_write(now), self._changes_of(job, By("take_signal", token)):
            return super().take_signal(now, job, token, name, record)

    def signal(self, now: Moment, job: UUID, signal: Signal) -> SignalAnswer:
        """Record the signal that is kept, and the job that it wakes."""
        self._by, self._tokens = By("signal", call=signal.call), ()
        with self.one_write(now), self._changes_of(job, self._by):
            return super().signal(now, job, signal)

    def damage(self, now: Moment, row: JobRecord) -> None:
        """Write a row with wrong counters, as a bug elsewhere could."""
        self._by, self._tokens = By("drift"), ()
        with self.one_write(now):
            self._put(row)

    def _pass_on(self, moved: Sequence[UUID], now: Moment) -> None:
        self._by, self._tokens = By("pass_on"), ()
        super()._pass_on(moved, now)

    def _adopt_all(self, moved: Sequence[Transition], now: Moment) -> None:
        for each in moved:
            if each.children is not None:
                self._by, self._tokens = By("adopt", each.token, parent=each.job), ()
                with self._changes_of(each.job, self._by):
                    super()._adopt_all([each], now)

    def _put_edges(self, edges: Iterable[Edge]) -> None:
        edges = list(edges)
        super()._put_edges(edges)
        self._grown |= self._flows_of([edge.child for edge in edges])

    def _put(self, row: JobRecord) -> None:
        super()._put(row)
        self._is_marked |= row.member is not None or row.awaits is not None

    def _forget(self, row: JobRecord) -> None:
        if row.member is not None:
            self._is_marked = True
            self._grown |= self._flows_of([row.id, *self._all.children.get(row.id, ())])
        super()._forget(row)

    def _flows_of(self, jobs: Sequence[UUID]) -> set[UUID]:
        rows = [self._all.jobs.get(job) for job in jobs]
        return {row.member.flow for row in rows if row is not None and row.member is not None}

    def _forget_steps(self, job: UUID, *, with_signals: bool) -> None:
        had_steps = bool(self._all.steps.get(job) or (with_signals and self._all.signals.get(job)))
        super()._forget_steps(job, with_signals=with_signals)
        if had_steps:
            self._record("steps.forgotten", self._by, job=job, note="and signals" if with_signals else "")

    def _reopened(self, row: JobRecord, wall: datetime, *, is_fresh: bool) -> JobRecord:
        had_steps = bool(self._all.steps.get(row.id))
        made = super()._reopened(row, wall, is_fresh=is_fresh)
        if had_steps and not self._all.steps.get(row.id):
            self._record("steps.forgotten", self._by, job=row.id)
        return made

    @contextmanager
    def _changes_of(self, job: UUID, by: By) -> Iterator[None]:
        steps, signals = self._all.steps.get(job, {}).copy(), [*self._all.signals.get(job, ())]
        yield
        for key, record in self._all.steps.get(job, {}).items():
            if steps.get(key) != record:
                result = None if record.result is None else record.result.decode()
                self._record("step", by, job=job, token=by.token, after=StepRow(*key, result))
        kept = [*self._all.signals.get(job, ())]
        for signal in signals:
            if signal not in kept:
                self._record("signal.taken", by, job=job, token=by.token, after=_signal_row(signal))
        for signal in kept[len(signals) :] if kept[: len(signals)] == signals else ():
            self._record("signal.kept", by, job=job, after=_signal_row(signal))
        self._is_marked = True

    def _end_write(self, now: Moment) -> None:
        if self._all.flows or self.recorded_flows:
            self._record_flows()
        if self._is_marked:
            self._note("written", self._by, note=now.wall.isoformat())
            self._is_marked = False

    def _record_flows(self) -> None:
        for flow in [each for each in self.recorded_flows if each not in self._all.flows]:
            del self.recorded_flows[flow]
            self._record("flow", self._by, job=flow)
        for flow, state in self._all.flows.items():
            if self.recorded_flows.get(flow) != state or flow in self._grown:
                self.recorded_flows[flow] = state
                self._record("flow", self._by, job=flow, after=self._flow_row(state))
        self._grown.clear()

    def _flow_row(self, flow: Flow) -> FlowRow:
        members = self._all.members.get(flow.id, {})
        edges = [edge for child in members for edge in self._all.edges.get(child, {}).values()]
        return FlowRow(
            is_paused=flow.paused_at is not None and flow.ended_for is None,
            ended_for=flow.ended_for,
            deadline_at=flow.deadline_at,
            edges=tuple(edges),
        )

    def _note(self, what: str, by: By | None, **fields: Any) -> None:
        raise NotImplementedError


def _one_write(name: str) -> Callable[..., Any]:
    def write(self: RecordingFlows, now: Moment, *arguments: Any, **keywords: Any) -> Any:
        with self.one_write(now):
            return getattr(super(RecordingFlows, self), name)(now, *arguments, **keywords)

    return write


for _name in _WRITES:
    setattr(RecordingFlows, _name, _one_write(_name))


def _signal_row(signal: Signal) -> SignalRow:
    return SignalRow(signal.call, signal.name, signal.value.decode())

"""The verbs of a book for durable steps and signals."""

from uuid import UUID

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.book.moment import Moment
from holdfast._core.book.state import BookState
from holdfast._core.job import FINISHED, PLACE_OF, Place, State, Token
from holdfast._core.steps import MOST_SIGNALS, Signal, SignalAnswer, SignalTaken, StepList, StepRecord
from holdfast._core.unique_keys import holds_key


class BookSteps(BookState):
    """The verbs of ``Steps``; each keeps the promise of the verb of this name in ``_ports/steps``."""

    def steps(self, now: Moment, job: UUID) -> StepList:
        found = self._all.steps.get(job, {}).values()
        return StepList(tuple(sorted(found, key=lambda record: (record.place, record.key))), now.wall)

    def record_step(self, now: Moment, job: UUID, token: Token, record: StepRecord) -> bool:
        del now
        if self._active(job, token) is None:
            return False
        self._keep_step(job, record)
        return True

    def take_signal(self, now: Moment, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        del now
        if self._active(job, token) is None:
            return SignalTaken(is_lost=True)
        known = self._all.steps.row((job, record.key))
        if known is not None:
            return SignalTaken(known.result)
        waiting = self._all.signals.get(job, ())
        taken = next((signal for signal in waiting if signal.name == name), None)
        if taken is None:
            return SignalTaken()
        self._keep_signals(job, tuple(signal for signal in waiting if signal is not taken))
        self._all.steps.put(job, record.key, structs.replace(record, result=taken.value))
        return SignalTaken(taken.value)

    def signal(self, now: Moment, job: UUID, signal: Signal) -> SignalAnswer:
        if signal.call in self._all.receipts:
            return SignalAnswer.ACCEPTED
        row = self._all.jobs.get(job)
        if row is None:
            return SignalAnswer.MISSING
        if PLACE_OF[row.state] is Place.FINISHED:
            return SignalAnswer.REFUSED
        waiting = self._all.signals.get(job, ())
        if len(waiting) >= MOST_SIGNALS:
            return SignalAnswer.FULL
        self._all.receipts[signal.call] = (now.wall, EnqueueAnswer())
        self._keep_signals(job, (*waiting, signal))
        if row.awaits == signal.name and row.state in (State.AVAILABLE, State.HELD):
            self._put(structs.replace(row, available_at=now.wall, awaits=None))
        return SignalAnswer.ACCEPTED

    def job_with_key(self, now: Moment, task: str, unique_key: str) -> UUID | None:
        job = self._all.keys.get((task, unique_key))
        row = None if job is None else self._all.jobs[job]
        return None if row is None or row.state in FINISHED or not holds_key(row, now.wall) else job

    def _keep_signals(self, job: UUID, signals: tuple[Signal, ...]) -> None:
        if signals:
            self._all.signals[job] = signals
        else:
            self._all.signals.pop(job, None)

    def _has_signal(self, job: UUID, name: str) -> bool:
        return any(signal.name == name for signal in self._all.signals.get(job, ()))

    def _forget_steps(self, job: UUID, *, with_signals: bool) -> None:
        self._all.steps.drop_all(job)
        if with_signals:
            self._all.signals.pop(job, None)

"""The rules of the model that record steps, send signals and consume them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdfast._core.job import ActiveJob, NewJob, Token
from holdfast._core.steps import Signal, StepRecord
from holdfast._engine.store_defaults import steps
from holdfast._ports.store import Store

indexes = st.integers(0, 10**6)
names = st.sampled_from(["go", "go", "stop"])


class StepRules:
    """What a model needs beside its own rules."""

    active_jobs: list[ActiveJob]
    calls: list[tuple[UUID, list[NewJob]]]
    chance: Any
    ask: Callable[[Callable[[Store], Awaitable[Any]]], Any]
    pick: Callable[[Sequence[Any], Sequence[int]], list[Any]]
    token: Callable[[ActiveJob, int], Token]
    ids: Callable[[Sequence[int]], list[UUID]]

    def __init__(self) -> None:
        super().__init__()
        self.signals: list[tuple[UUID, Signal]] = []

    @precondition(lambda self: self.active_jobs)
    @rule(index=indexes, wrong=indexes, name=names, nth=st.integers(1, 2), result=st.sampled_from([None, b"1", b"2"]))
    def record_step(self, index: int, wrong: int, name: str, nth: int, result: bytes | None) -> None:
        (active,) = self.pick(self.active_jobs, [index])
        record = StepRecord(name=name, nth=nth, place=nth, is_sequential=nth == 1, result=result)
        self.ask(lambda store: steps(store).record_step(active.id, self.token(active, wrong), record))
        self.ask(lambda store: self._records(store, active.id))

    @precondition(lambda self: self.active_jobs)
    @rule(index=indexes, wrong=indexes, name=names, nth=st.integers(1, 3))
    def take_signal(self, index: int, wrong: int, name: str, nth: int) -> None:
        (active,) = self.pick(self.active_jobs, [index])
        record = StepRecord(name=f":wait_for:{name}", nth=nth, place=nth, is_sequential=True)
        self.ask(lambda store: steps(store).take_signal(active.id, self.token(active, wrong), name, record))
        self.ask(lambda store: self._records(store, active.id))

    @precondition(lambda self: any(jobs for _, jobs in self.calls))
    @rule(index=indexes, name=names, value=st.sampled_from([b"null", b"1"]))
    def signal(self, index: int, name: str, value: bytes) -> None:
        (job,) = self.ids([index])
        self.signals.append((job, Signal(self.chance.uuid4(), name, value)))
        self.ask(lambda store: steps(store).signal(*self.signals[-1]))

    @precondition(lambda self: self.signals)
    @rule(index=indexes)
    def signal_again(self, index: int) -> None:
        job, signal = self.signals[index % len(self.signals)]
        self.ask(lambda store: steps(store).signal(job, signal))

    @rule(task=st.sampled_from(["a", "b"]), key=st.sampled_from(["k", "l"]))
    def find_by_key(self, task: str, key: str) -> None:
        self.ask(lambda store: steps(store).job_with_key(task, key))

    @precondition(lambda self: any(jobs for _, jobs in self.calls))
    @rule(chosen=st.lists(indexes, min_size=1, max_size=4))
    def read_steps(self, chosen: list[int]) -> None:
        for job in self.ids(chosen):
            self.ask(lambda store, job=job: self._records(store, job))  # type: ignore[misc]

    async def _records(self, store: Store, job: UUID) -> tuple[StepRecord, ...]:
        return (await steps(store).steps(job)).records

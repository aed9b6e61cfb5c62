"""The rules of the model test for schedules: define, change, pause, remove, read, fire, fire again."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec import structs

from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.schedule import (
    UNNUMBERED,
    Advance,
    Definition,
    Overlap,
    Schedule,
    Source,
    TickAnswer,
    advance,
    defined,
    pausing,
    skipping,
)
from holdfast._core.ticks import cron, every
from holdfast._engine.store_defaults import scheduling
from holdfast._ports.store import Scheduling, Store

NAMES = ("p", "q", "r")
JOB = ("task", "queue", "payload")
indexes = st.integers(0, 10**6)
definitions = st.builds(
    dict,
    when=st.sampled_from([every("2s"), every("7s"), every("1h"), cron("* * * * *")]),
    catch_up=st.sampled_from([0, 1, 3]),
    overlap=st.sampled_from(Overlap),
    jitter=st.sampled_from([0.0, 3.0]),
    grace=st.sampled_from([1.0, 60.0]),
    task=st.sampled_from(["a", "b"]),
    queue=st.just("x"),
    payload=st.sampled_from([b"{}", b"x" * 600]),
)


class ScheduleRules:
    """The part of the model that concerns schedules. ``moves``: all that were sent, the newest last."""

    chance: Any
    calls: list[tuple[UUID, list[NewJob]]]
    ask: Callable[[Callable[[Store], Awaitable[Any]]], Any]
    advance: Callable[[float], None]

    def __init__(self) -> None:
        super().__init__()
        self.moves: list[Advance] = []
        self.changes: list[tuple[Schedule, UUID]] = []

    @rule(name=st.sampled_from(NAMES), given=definitions, source=st.sampled_from(Source), wrong=indexes)
    def set_schedule(self, name: str, given: dict[str, Any], source: Source, wrong: int) -> None:
        job = NewJob(id=UNNUMBERED, policy=Policy(retention=0.0), **{key: given[key] for key in JOB})
        edition = self.chance.uuid4()
        definition = Definition(job=job, **{key: value for key, value in given.items() if key not in JOB})
        self._change(name, wrong, lambda old, now: defined(name, definition, old, now, edition, source))

    @rule(name=st.sampled_from(NAMES), kind=st.integers(0, 3), wrong=indexes)
    def change_schedule(self, name: str, kind: int, wrong: int) -> None:
        def change(old: Schedule | None, now: datetime) -> Schedule | None:
            if old is None:
                return None
            return skipping(old, kind) if kind < 2 else pausing(old, now, is_paused=kind == 2)

        self._change(name, wrong, change)

    @precondition(lambda self: self.changes)
    @rule(index=indexes)
    def change_again(self, index: int) -> None:
        schedule, change = self.changes[-1 - index % min(3, len(self.changes))]
        self._ask(lambda verbs: verbs.set_schedule(schedule, change))

    @rule(name=st.sampled_from(NAMES))
    def remove_schedule(self, name: str) -> None:
        self._ask(lambda verbs: verbs.remove_schedule(name))

    @initialize(given=st.tuples(definitions, definitions))
    def begin_with_schedules(self, given: tuple[dict[str, Any], dict[str, Any]]) -> None:
        for name, each in zip(NAMES, given, strict=False):
            self.set_schedule(name, each, Source.CODE, 0)

    @rule(limit=st.integers(0, 3), pauses=st.lists(st.sampled_from([0.0, 2.0, 7.5, 70.0]), max_size=4), wrong=indexes)
    def fire(self, limit: int, pauses: list[float], wrong: int) -> None:
        for seconds in pauses:
            self.advance(seconds)
            found = self._ask(lambda verbs: verbs.ticks(limit))
            for schedule in found.found:
                move, _ = advance(schedule, found.now, self.chance.uuid4())
                self._send(structs.replace(move, version=move.version + (wrong % 10 == 9)))

    @precondition(lambda self: self.moves)
    @rule(index=indexes)
    def fire_again(self, index: int) -> None:
        self._send(self.moves[-1 - index % min(4, len(self.moves))])

    @invariant()
    def both_stores_have_the_same_schedules(self) -> None:
        self._ask(lambda verbs: verbs.schedules())

    def _send(self, move: Advance) -> None:
        self.moves.append(move)
        answer = self._ask(lambda verbs: verbs.advance(move))
        if answer is TickAnswer.FIRED and move.job is not None and all(move.job.id != call for call, _ in self.calls):
            self.calls.append((move.job.id, [move.job]))

    def _change(self, name: str, wrong: int, change: Callable[[Schedule | None, datetime], Schedule | None]) -> None:
        found = self._ask(lambda verbs: verbs.schedules())
        new = change(next((each for each in found.found if each.name == name), None), found.now)
        if new is not None:
            new = structs.replace(new, version=new.version + (wrong % 10 == 9))
            self.changes.append((new, self.chance.uuid4()))
            self._ask(lambda verbs: verbs.set_schedule(*self.changes[-1]))

    def _ask(self, call: Callable[[Scheduling], Awaitable[Any]]) -> Any:
        return self.ask(lambda store: call(scheduling(store)))

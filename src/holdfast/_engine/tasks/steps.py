"""The steps of one attempt: which of them are recorded, in which order the code calls them, and why the attempt is suspended."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._core.children import Children
from holdfast._core.job import ActiveJob, Failure, Json
from holdfast._core.outcome import StepsChanged, Suspend, WaitFor
from holdfast._core.payload import decode_json
from holdfast._core.steps import (
    FOREVER,
    MOST_STEPS,
    SLEEP,
    STEPS_LIMIT,
    UNTIL,
    WAIT,
    SignalTaken,
    StepKey,
    StepList,
    StepRecord,
    changed_code,
    shown,
)
from holdfast._core.workflow import Edge, NewMember
from holdfast.errors import HoldfastError, PayloadTooLarge

Suspension = Suspend | StepsChanged | WaitFor

_CURRENT: ContextVar[str | None] = ContextVar("step", default=None)


class Suspended(BaseException):
    """Ends a handler whose job sleeps, waits for a signal, or is held. Code that catches it gets it again from its next ``job.*`` call."""


class StepWriter(Protocol):
    """Reads and writes the steps of a job under the token of an attempt; ``JobLost`` if the job belongs to another one."""

    @property
    def longest_nap(self) -> float:
        """The seconds that a job may sleep in its slot; a longer sleep suspends it."""
        ...

    async def read(self, job: ActiveJob) -> StepList:
        """Return the steps that all attempts have recorded."""
        ...

    async def record(self, job: ActiveJob, record: StepRecord) -> None:
        """Return once the record is durable."""
        ...

    async def take_signal(self, job: ActiveJob, name: str, record: StepRecord) -> SignalTaken:
        """Consume the oldest signal of that name as the result of this step."""
        ...


class Step(Struct, eq=False):
    """A call of a step. ``record``: what an earlier attempt has recorded; else its code must run."""

    name: str
    nth: int
    place: int
    is_sequential: bool
    is_unordered: bool
    record: StepRecord | None = None

    @property
    def key(self) -> StepKey:
        """What the step is known by in every attempt."""
        return self.name, self.nth

    def recorded(self) -> Json:
        """Return what an earlier attempt has recorded. ``PayloadInvalid`` names the step if it is not JSON, as after a change by hand."""
        data = b"null" if self.record is None else self.record.result or b"null"
        return decode_json(data, f"step {shown(self.key)}: its result")

    def new_record(self, result: bytes | None = None) -> StepRecord:
        """Return the record to write."""
        is_sequential = self.is_sequential and not self.is_unordered
        return StepRecord(name=self.name, nth=self.nth, place=self.place, is_sequential=is_sequential, result=result)


class StepLog:
    """The steps of one attempt. The records of earlier attempts are read with the first step."""

    def __init__(self, job: ActiveJob, writer: StepWriter) -> None:
        self.suspension: Suspension | None = None
        self._job, self._writer = job, writer
        self._records: dict[StepKey, StepRecord] | None = None
        self._size = 0
        self._clock_offset = 0.0  # the store's time since the epoch, less the loop's
        self._reading = asyncio.Lock()
        self._uses = Counter[str]()
        self._asked = set[StepKey]()
        self._running: list[Step] = []

    @property
    def unused(self) -> tuple[str, ...]:
        """The recorded steps that this attempt has not asked for."""
        return tuple(shown(key) for key in self._records or () if key not in self._asked)

    def suspend(self, why: Suspension) -> Suspended:
        """Suspend the attempt, and return the exception to raise; the first reason stands."""
        self.suspension = self.suspension or why
        return Suspended(f"job {self._job.id} is suspended; its handler must end")

    def require_awake(self) -> None:
        """Raise ``Suspended`` again for a handler that has caught it."""
        if self.suspension is not None:
            raise self.suspend(self.suspension)

    async def begin(self, name: str, *, is_unordered: bool = False) -> Step:
        """Return the step, with its record if there is one. Without one it runs until ``end`` or ``drop``."""
        self._uses[name] += 1
        step = Step(name, self._uses[name], self._uses.total() - 1, not self._running, is_unordered)
        self._asked.add(step.key)
        for other in self._running:
            other.is_sequential = False
        self._running.append(step)
        try:
            records = await self._read()
            step.record = records.get(step.key)
            if step.record is None:
                self._require_allowed(step, records)
        except BaseException:
            self.drop(step)
            raise
        if step.record is not None:
            self.drop(step)
        return step

    async def end(self, step: Step, result: bytes | None) -> None:
        """Return once the result of a step that ran is recorded."""
        try:
            self._require_room(step, result)
            record = step.new_record(result)
            await self._writer.record(self._job, record)
            self._keep(record)
        finally:
            self.drop(step)

    def drop(self, step: Step) -> None:
        """Forget that a step runs: it raised, or has a record."""
        self._running.remove(step)

    @contextmanager
    def running(self, step: Step) -> Iterator[None]:
        """Run code of a step, which sees its key; if it raises, nothing is recorded."""
        token = _CURRENT.set(f"{self._job.id}:{step.name}:{step.nth}")
        try:
            yield
        except BaseException:
            self.drop(step)
            raise
        finally:
            _CURRENT.reset(token)

    async def sleep(self, seconds: float) -> None:
        """Sleep until the instant that the first attempt recorded: in place up to one beat, suspended if it is longer."""
        left = await self._left(SLEEP, seconds)
        if left > self._writer.longest_nap:
            raise self.suspend(Suspend(min(left, FOREVER)))
        if left > 0:
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=left)

    async def wait_for(self, name: str, seconds: float | None) -> bytes:
        """Return the value of the signal; suspend until it comes, or raise ``TimeoutError`` once the time is over."""
        left = FOREVER if seconds is None else await self._left(f"{UNTIL}{name}", seconds, is_unordered=True)
        step = await self.begin(f"{WAIT}{name}")
        result = (step.record or await self._take(step, name, left)).result
        if result is None:
            raise TimeoutError(f"job {self._job.id}: no signal {name!r} came in time")
        return result

    async def children(self, name: str, members: Sequence[NewMember]) -> list[UUID]:
        """Return the ids of the children that the first attempt has added here; if this is the first, suspend it with these ones."""
        step = await self.begin(name)
        if step.record is not None:
            return [UUID(each) for each in step.recorded() or ()]
        self.drop(step)
        ids = msgspec.json.encode([each.job.id for each in members])
        self._require_room(step, ids)
        added = [_numbered(each, step.nth) for each in members]
        edges = tuple(Edge(each.job.id, self._job.id, tolerates=True) for each in added)
        raise self.suspend(WaitFor(Children(members=tuple(added), edges=edges, records=(step.new_record(ids),))))

    def wait_for_children(self) -> Suspended:
        """Suspend the attempt until all children have ended that the job has added before."""
        return self.suspend(WaitFor(Children()))

    async def _take(self, step: Step, name: str, left: float) -> StepRecord:
        record = step.new_record()
        try:
            taken = await self._writer.take_signal(self._job, name, record)
        except BaseException:
            self.drop(step)
            raise
        if taken.value is not None:
            self._keep(record := structs.replace(record, result=taken.value))
            self.drop(step)
        elif left > 0:
            self.drop(step)
            raise self.suspend(Suspend(min(left, FOREVER), name))
        else:
            await self.end(step, None)
        return record

    async def _left(self, name: str, seconds: float, *, is_unordered: bool = False) -> float:
        """Return the seconds until an instant of the store's clock, which the first attempt that asks records."""
        step = await self.begin(name, is_unordered=is_unordered)
        if step.record is not None:
            return int(step.record.result or b"0") / 1e6 - self._now()
        until = self._now() + min(seconds, FOREVER)
        await self.end(step, b"%d" % round(until * 1e6))
        return until - self._now()

    async def _read(self) -> dict[StepKey, StepRecord]:
        async with self._reading:
            if self._records is None:
                found = await self._writer.read(self._job)
                self._records = {record.key: record for record in found.records}
                self._size = sum(len(record.result or b"") for record in found.records)
                self._clock_offset = found.now.timestamp() - asyncio.get_running_loop().time()
        return self._records

    def _require_allowed(self, step: Step, records: dict[StepKey, StepRecord]) -> None:
        if step.is_sequential and not step.is_unordered and (change := changed_code(step.key, records.values(), self._asked)):
            raise self.suspend(StepsChanged(Failure("StepsChanged", change)))
        if len(records) >= MOST_STEPS:
            raise PayloadTooLarge(
                f"job {self._job.id} has {MOST_STEPS:,} steps, and may have no more: do several things in one step"
            )

    def _require_room(self, step: Step, result: bytes | None) -> None:
        size = self._size + len(result or b"")
        if size > STEPS_LIMIT:
            name = shown(step.key)
            raise PayloadTooLarge(
                f"step {name}: with it, the steps of the job have {size:,} bytes, at most {STEPS_LIMIT:,}: return less, and store "
                "the rest elsewhere"
            )

    def _keep(self, record: StepRecord) -> None:
        assert self._records is not None
        self._records[record.key] = record
        self._size += len(record.result or b"")

    def _now(self) -> float:
        return self._clock_offset + asyncio.get_running_loop().time()


def _numbered(member: NewMember, nth: int) -> NewMember:
    """Return a member whose name has the number of its call, from the second one on."""
    if nth == 1:
        return member
    task, bracket, place = member.member.node.partition("[")
    return NewMember(member.job, structs.replace(member.member, node=f"{task}-{nth}{bracket}{place}"))


def current_key() -> str:
    """Return the key of the step whose code calls this."""
    key = _CURRENT.get()
    if key is None:
        raise HoldfastError("job.step_key is the key of the step that runs: read it in the function that job.step calls")
    return key

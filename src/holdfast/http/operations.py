"""Actions on many jobs: a batch at a time, with progress, until all are done or a person stops them."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import State
from holdfast._core.requests import FITTING, MEANT, JobFilter, Steer, SteerVerb
from holdfast._core.text import json_text, printable
from holdfast._engine.client.acting import named
from holdfast._engine.client.client import ACTIONS, BATCH, Client
from holdfast._engine.error_text import described
from holdfast._engine.operators.where import Where, selector_of
from holdfast.errors import ConfigurationError
from holdfast.http.changes import Change, make
from holdfast.http.permissions import Action
from holdfast.http.problems import ApiError

MOST_AT_ONCE: Final = 1000
"""The most jobs of an action that is done within its request."""
MOST_COUNTED: Final = 100_000
"""The most jobs that are counted before an action."""
LONGEST_COUNT: Final = 1.5
"""Seconds for counting jobs: the number is for people, and the action does not depend on it."""
MOST_RUNNING: Final = 4
MOST_KEPT: Final = 100


class Phase(StrEnum):
    """How far an operation is."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"


class Tally(Struct, frozen=True):
    """What an action has done. ``jobs``: those it looked at. ``refused``: those among them that had moved on, or that it does not fit.

    ``states``: the jobs by the state they are in now; ``deleted``: those that it deleted; ``unknown``: those that were gone.
    """

    jobs: int = 0
    changed: int = 0
    refused: int = 0
    states: dict[str, int] = {}

    def plus(self, other: "Tally") -> "Tally":
        """Return both tallies as one."""
        states = dict(Counter(self.states) + Counter(other.states))
        return Tally(self.jobs + other.jobs, self.changed + other.changed, self.refused + other.refused, states)


class OperationProgress(Struct, frozen=True, kw_only=True):
    """An action on many jobs. ``expected``: how many jobs matched when it began; with ``is_bounded``, there were more."""

    id: str
    action: Action
    phase: Phase
    by: str
    reason: str
    expected: int
    is_bounded: bool
    done: Tally
    began_at: datetime
    ended_at: datetime | None = None
    error: str = ""


class Bulk(Struct, frozen=True, kw_only=True):
    """An action on all jobs that match. ``states``: where it looks if the conditions name no state.

    ``chosen``: only these jobs, each in the state in which a person saw it.
    """

    how: Steer
    where: Where
    states: tuple[State, ...] = ()
    chosen: Mapping[UUID, State] | None = None

    @classmethod
    def of(cls, action: Action, how: Steer, where: Where) -> "Bulk":
        """Return an action. Raises ``ConfigurationError`` for a retry that would run completed jobs again."""
        if action is Action.RETRY and where.state is None:
            if where.error_key is None and where.reason is None:
                raise ConfigurationError(
                    ["selector: a retry needs a state, a reason or an error, or completed jobs would run again"]
                )
            where = structs.replace(where, state=State.FAILED) if where.reason is None else where
        return cls(how=how, where=where, states=tuple(state for state in State if state in _LOOKED_AT[how.verb]))

    @classmethod
    def of_chosen(cls, how: Steer, jobs: Mapping[UUID, State]) -> "Bulk":
        """Return an action on jobs that a person chose. Raises ``ConfigurationError`` without a job."""
        if not jobs:
            raise ConfigurationError(["selected jobs: there is none"])
        states = tuple(state for state in State if state in _LOOKED_AT[how.verb])
        return cls(how=how, where=Where(), states=states, chosen=jobs)

    def groups(self) -> list[tuple[Where, list[UUID]]]:
        """Return the chosen jobs by the conditions that each must meet: it is in the state as before, or if it is to end, unfinished."""
        found = defaultdict[State | tuple[State, ...], list[UUID]](list)
        for job, state in (self.chosen or {}).items():
            found[self.states if self.how.verb is SteerVerb.CANCEL else state].append(job)
        return [(structs.replace(self.where, state=state), jobs) for state, jobs in found.items()]

    def parts(self) -> list[Where]:
        """Return the conditions for each state that it looks at."""
        if self.chosen is not None:
            return []
        if self.where.state is not None or not self.states:
            return [self.where]
        return [structs.replace(self.where, state=state) for state in self.states]


_FINISHED: Final = frozenset((State.COMPLETED, State.FAILED, State.CANCELLED))
_LOOKED_AT: Final[Mapping[SteerVerb, frozenset[State]]] = {
    SteerVerb.CANCEL: FITTING[SteerVerb.CANCEL] - _FINISHED,
    SteerVerb.REOPEN: frozenset(),
    SteerVerb.RESCHEDULE: FITTING[SteerVerb.RESCHEDULE],
    SteerVerb.DELETE: frozenset(),
}


def fits(verb: SteerVerb, state: State) -> bool:
    """Return whether a verb changes jobs in this state.

    >>> fits(SteerVerb.CANCEL, State.RUNNING), fits(SteerVerb.CANCEL, State.CANCELLED)
    (True, False)
    """
    return state in (_LOOKED_AT[verb] or FITTING[verb])


class Count(NamedTuple):
    """How many jobs match and fit; with ``is_all=False``, there are more."""

    jobs: int
    is_all: bool


async def count(client: Client, bulk: Bulk, most: int = MOST_COUNTED) -> Count:
    """Count the jobs that match and fit, as far as that takes no longer than a person waits."""
    found = sum(fits(bulk.how.verb, state) for state in (bulk.chosen or {}).values())
    try:
        async with asyncio.timeout(LONGEST_COUNT):
            async for some in _counted(client, bulk):
                found += some
                if found > most:
                    return Count(most, is_all=False)
    except TimeoutError:
        return Count(found, is_all=False)
    return Count(found, is_all=True)


async def _counted(client: Client, bulk: Bulk) -> AsyncIterator[int]:
    for where in bulk.parts():
        which = structs.replace(where.filter(None), limit=BATCH)
        while page := await client.page(which):
            yield sum(job.state in FITTING[bulk.how.verb] for job in page)
            if len(page) < which.limit:
                break
            which = structs.replace(which, before=page[-1].id)


class Operations:
    """Actions on many jobs of one process. What a process has done before it dies is done; the action can be repeated."""

    def __init__(self, connect: Callable[[], Client], new_id: Callable[[], UUID]) -> None:
        self._connect, self._new_id = connect, new_id
        self._known: dict[str, OperationProgress] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def at_once(self, change: Change, bulk: Bulk) -> Tally:
        """Make a change to jobs that are few, and return what was done."""

        async def act() -> Tally:
            done = Tally()
            async for some in self._tallies(bulk):
                done = done.plus(some)
            self._report(bulk.how.verb, done)
            return done

        return await make(change, act, selector=_selector(bulk), operation=self._new_id())

    def start(self, change: Change, bulk: Bulk, expected: Count) -> OperationProgress:
        """Begin an action on many jobs. Raises ``ApiError`` while too many go on."""
        if len(self._tasks) >= MOST_RUNNING:
            raise ApiError(429, "too_many", f"{MOST_RUNNING} operations go on here", "wait for one to end, or stop it")
        operation = self._new_id()
        begun = OperationProgress(
            id=str(operation),
            action=change.action,
            phase=Phase.RUNNING,
            by=change.by,
            reason=change.reason,
            expected=expected.jobs,
            is_bounded=not expected.is_all,
            done=Tally(),
            began_at=self._connect().now(),
        )
        self._known[begun.id] = begun
        for old in [each for each in self._known if each not in self._tasks and each != begun.id][:-MOST_KEPT]:
            del self._known[old]
        task = asyncio.get_running_loop().create_task(
            make(change, lambda: self._run(begun.id, bulk), selector=_selector(bulk), operation=operation)
        )
        self._tasks[begun.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(begun.id, None))
        return begun

    def list(self) -> list[OperationProgress]:
        """Return the operations of this process, newest first."""
        return [*reversed(self._known.values())]

    def get(self, operation: str) -> OperationProgress:
        """Return how far an operation is. Raises ``ApiError`` for one that this process does not know."""
        if operation not in self._known:
            detail = f"this process knows no operation {operation!r}"
            raise ApiError(404, "not_found", detail, "what it did stays done: start it again for the jobs that are left")
        return self._known[operation]

    async def stop(self, change: Change, operation: str) -> OperationProgress:
        """Stop an operation after the batch that is being written, and record who did. What was done stays done."""
        found = self.get(operation)
        is_running = found.phase is Phase.RUNNING
        if is_running:
            self._set(operation, phase=Phase.STOPPED)
        await make(change, lambda: self._connect().record(Action.STOP, {"operation": found.id}, int(is_running)))
        return self._known[operation]

    async def _run(self, operation: str, bulk: Bulk) -> None:
        try:
            async for some in self._tallies(bulk):
                self._set(operation, done=self._known[operation].done.plus(some))
                if self._known[operation].phase is not Phase.RUNNING:
                    return
            self._set(operation, phase=Phase.COMPLETED)
        except Exception as error:  # any: the operation reports why it ended
            self._set(operation, phase=Phase.FAILED, error=printable(described(error)))
        finally:
            self._set(operation, ended_at=self._connect().now())
            self._report(bulk.how.verb, self._known[operation].done)

    async def _tallies(self, bulk: Bulk) -> AsyncIterator[Tally]:
        """Do it, and return what was done, a batch at a time."""
        for where, ids in bulk.groups():
            yield await self._write(bulk.how, ids, where.filter(None))
        for where in bulk.parts():
            async for some in self._batches(bulk.how, where):
                yield some

    async def _batches(self, how: Steer, where: Where) -> AsyncIterator[Tally]:
        """Apply the verb to a page of the jobs that match at a time, newest first: to those that still do when they are written."""
        client, which = self._connect(), structs.replace(where.filter(None), limit=BATCH)
        while page := await client.page(which):
            yield await self._write(how, [job.id for job in page], structs.replace(which, before=None))
            if len(page) < which.limit:
                return
            which = structs.replace(which, before=page[-1].id)

    async def _write(self, how: Steer, ids: Sequence[UUID], which: JobFilter) -> Tally:
        client = self._connect()
        answer = await client.steer(how, ids, which, by=client.note(ACTIONS[how.verb], {}))
        return _tally(how.verb, ids, answer.states, answer.left)

    def _set(self, operation: str, **changed: object) -> None:
        self._known[operation] = structs.replace(self._known[operation], **changed)

    def _report(self, verb: SteerVerb, done: Tally) -> None:
        self._connect().report_selected(verb, done.changed, done.refused)


def _selector(bulk: Bulk) -> str:
    return json_text(selector_of(bulk.where, None) if bulk.chosen is None else named([*bulk.chosen]))


def _tally(verb: SteerVerb, ids: Sequence[UUID], states: Mapping[UUID, State], left: frozenset[UUID]) -> Tally:
    is_deleting = verb is SteerVerb.DELETE
    refused = sum(job in left or (states[job] not in MEANT[verb] if job in states else not is_deleting) for job in ids)
    now = Counter(states[job].value if job in states else "deleted" if is_deleting else "unknown" for job in ids)
    return Tally(len(ids), len(ids) - refused, refused, dict(now))

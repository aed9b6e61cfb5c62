"""The changes of a real store under simulation, recorded per statement, as ``recording_store`` does for a memory store.

Triggers in the store's own tables log each change of a row in the transaction that makes it. After each statement the recorder
reads the log. Each change becomes an event, with the right under which it was asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, cast
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.job import State, Token
from holdfast._core.limits import Scope
from holdfast._core.schedule import Schedule
from holdfast._ports.clock import Clock
from holdfast._ports.own_connections import OwnConnections
from holdfast._ports.store import Store
from proof.checker.flow_rows import FlowRow
from proof.checker.history import By, Event, History, JobRow, LeaseRow, Phase
from proof.simulator.loop import Process
from proof.stores.gateways import VERBS
from proof.stores.mirrored_flows import FlowsSeen, MirroredFlows
from proof.stores.own_connections import token_of
from proof.stores.recording_schedules import schedule_row
from proof.stores.rights import Call

SCHEDULING = ("advance", "set_schedule", "remove_schedule")
"""The verbs that change schedules: after each of them the recorder reads all of them."""
CALL: ContextVar[Call] = ContextVar("call")


class Change(Struct, frozen=True):
    """The change of one row; changes are in the order of commits. That of a paused queue has only a ``note``,
    and a row that a handler has written itself has its token there."""

    what: Literal["job", "lease", "queue", "own_row"]
    id: UUID | None = None
    before: JobRow | LeaseRow | None = None
    after: JobRow | LeaseRow | None = None
    note: str = ""


class Known(Struct, frozen=True):
    """A job as last read. ``hook_due_at``: whether its rescue hook is due."""

    state: State
    task: str
    queue: str
    token: Token
    lease: UUID | None
    hook_due_at: bool | None
    awaits: str | None = None


class Seen(Struct, frozen=True):
    """All jobs, all paused queues, and all workflows with the ids of their members."""

    jobs: dict[UUID, Known]
    paused_queues: frozenset[str]
    flows: dict[UUID, FlowRow] = {}
    members: dict[UUID, list[UUID]] = {}


class Mirror(ABC):
    """The recorder of one real store. ``known``: the tasks for which some process has code."""

    clock_of: Callable[[str], Clock]
    caller = ""  # used by memory stores only: here each call names its caller

    def __init__(self, history: History, now: Callable[[], float], known: Collection[str]) -> None:
        self.history, self.now, self._known = history, now, known
        self._jobs: dict[UUID, JobRow] = {}
        self._paused: set[str] = set()
        self._schedules: dict[str, Schedule] = {}
        self._flows = MirroredFlows(self._add)

    @abstractmethod
    def reached_by(self, process: Process) -> Store:
        """Return the store that this process uses."""

    @abstractmethod
    def changes(self) -> Iterator[Change]:
        """Yield the changes that were committed since the last call."""

    @abstractmethod
    def schedules(self) -> tuple[datetime, list[Schedule]]:
        """Return the time of the store's clock, and all schedules."""

    def flows(self) -> FlowsSeen | None:
        """Return all workflows, steps and signals; none where the worlds of this store have no workflows."""
        return None

    @abstractmethod
    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock the rows of jobs, or the whole store, as a foreign session; the returned function unlocks them."""

    @abstractmethod
    def close_world(self) -> None:
        """Free all files and sessions of the world."""

    def snapshot(self) -> Seen:
        """Return the state that follows from the log."""
        jobs = {
            job: Known(row.state, row.task, row.queue, row.token, row.lease, row.is_owed or None, row.awaits or None)
            for job, row in self._jobs.items()
        }
        seen, members = self._flows.seen, dict[UUID, list[UUID]]()
        for job, member in seen.members.items() if seen is not None else ():
            members.setdefault(member.flow, []).append(job)
        return Seen(jobs, frozenset(self._paused), {} if seen is None else seen.flows, members)

    def ticking(self) -> list[str]:
        """Return the names of the schedules that are not paused."""
        return [name for name, schedule in self._schedules.items() if schedule.paused_at is None]

    def limited(self) -> list[Scope]:
        """Return no scope: worlds of real statements have no limits."""
        return []

    def look(self) -> None:
        """Record the changes of the statement that just ended."""
        call, flows, has_moved = CALL.get(), self.flows(), False
        for change in self.changes():
            match change.what:
                case "job" if flows is not None and change.id is not None:
                    before, after = self._flows.with_members(change.id, *_rows_of(change), flows)
                    has_moved |= any(row is not None and (row.member or row.awaits) for row in (before, after))
                    self._record_job(call, structs.replace(change, before=before, after=after))
                case "job":
                    self._record_job(call, change)
                case "lease" if change.after is not None and change.after != change.before:
                    self._record(call, change, call.of_lease, lease=change.id)
                case "queue":
                    word, _, queue = change.note.partition(" ")
                    (self._paused.add if word == "paused" else self._paused.discard)(queue)
                    self._record(call, change, By("pause"), note=change.note)
                case "own_row":
                    self._record(call, change, By(call.verb), job=change.id, token=token_of(change.note))
                case _:
                    pass  # a lease that was pruned, or written unchanged

        if call.verb in SCHEDULING:
            self._look_at_schedules(call)
        if flows is not None:
            self._jobs |= self._flows.look(call, flows, self._jobs, has_moved=has_moved)

    def look_at(self, process: str, verb: str) -> None:
        """Record what a process has committed beside its store."""
        CALL.set(Call(process, verb, (), {}))
        self.look()

    def _add(self, what: str, by: By, **fields: Any) -> None:
        process = CALL.get().process
        self.history.add(Event(time=self.now(), process=process, what=what, phase=Phase.TRUTH, by=by, **fields))

    def _look_at_schedules(self, call: Call) -> None:
        """Record the changes of schedules, after those of jobs: both are of one transaction."""
        now, found = self.schedules()
        known, self._schedules = self._schedules, {each.name: each for each in found}
        for name in sorted({*known, *self._schedules}):
            before, after = known.get(name), self._schedules.get(name)
            if before != after:
                old, new = (None if each is None else schedule_row(each, now) for each in (before, after))
                by = By(call.verb, call=call.arguments[0].change if call.verb == "advance" else None)
                made = Event(time=self.now(), process=call.process, what="schedule", phase=Phase.TRUTH, by=by, note=name)
                self.history.add(structs.replace(made, before=old, after=new))

    def _record_job(self, call: Call, change: Change) -> None:
        assert change.id is not None
        old, new = _rows_of(change)
        if new is None:
            self._jobs.pop(change.id, None)
        else:
            self._jobs[change.id] = new
        last = new or old
        assert last is not None
        lease = last.lease or (old.lease if old is not None else None)
        self._record(call, change, call.by(change.id, old, new), job=change.id, token=last.token, lease=lease)

    def _record(self, call: Call, change: Change, by: By, **fields: Any) -> None:
        before, after = change.before, change.after
        made = Event(time=self.now(), process=call.process, what=change.what, phase=Phase.TRUTH, by=by, **fields)
        self.history.add(structs.replace(made, before=before, after=after))

    def is_known(self, task: str) -> bool:
        """Whether some process has the task's code."""
        return not self._known or task in self._known


def _rows_of(change: Change) -> tuple[JobRow | None, JobRow | None]:
    before, after = (row if isinstance(row, JobRow) else None for row in (change.before, change.after))
    return before, after


class AnnouncedStore:
    """A real store; each call sets its process, verb and arguments in ``CALL`` first."""

    def __init__(self, store: Store, process: str) -> None:
        self._store, self._process = store, process
        self.capabilities = store.capabilities

    def transaction_within(self, *arguments: Any, **keywords: Any) -> Any:
        """Open a block on a handler's own connection; the handler itself calls ``look_at`` after it."""
        return cast(OwnConnections, self._store).transaction_within(*arguments, **keywords)


def _verb(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def ask(self: AnnouncedStore, *arguments: Any, **keywords: Any) -> Any:
        CALL.set(Call(self._process, name, arguments, keywords))
        return await getattr(self._store, name)(*arguments, **keywords)

    return ask


for _name in VERBS:
    setattr(AnnouncedStore, _name, _verb(_name))


def announced(store: Store, process: str) -> Store:
    """Return the store, with each call announced to its mirror."""
    return cast(Store, AnnouncedStore(store, process))

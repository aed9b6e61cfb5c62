"""A memory store that records every change of a row, in order, with the right under which it was asked for."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import Capabilities
from holdfast._core.book.book import Book
from holdfast._core.book.content import Snapshot
from holdfast._core.book.moment import Moment
from holdfast._core.job import Token
from holdfast._core.limits import Scope
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.workflow import Flow
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.mongo.terms import MomentInTerm, Terms
from proof.checker.history import History, JobRow, Phase
from proof.checker.hooks import HookedBook
from proof.simulator.loop import Process
from proof.stores.locked_rows import LockedRows
from proof.stores.recording_book import RecordingBook


class Memory(Struct, frozen=True):
    """A store at one moment, and how many events its witness had recorded by then."""

    snapshot: Snapshot
    recorded_rows: dict[UUID, JobRow]
    hook_writes: dict[UUID, list[str]]
    recorded_flows: dict[UUID, Flow]
    event_count: int


class Witness(MemoryStore):
    """A memory store around a book that records its changes; set ``caller`` before each call.

    ``terms``: what that caller knows of the terms of primaries. ``lease_terms``: in which each lease was beaten.
    """

    history: History
    now: Callable[[], float]
    profile: Capabilities
    known: Collection[str] = ()
    caller: str = ""
    clock_of: Callable[[str], Clock]
    book: RecordingBook
    terms: Terms | None = None
    lease_terms: dict[UUID, int]

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the store that it simulates."""
        return self.profile

    def reached_by(self, process: Process) -> Store:
        """Return this store: all processes share it, and ``caller`` names the one that asks."""
        del process
        return cast(Store, self)

    def ticking(self) -> list[str]:
        """Return the names of the schedules that are not paused."""
        return [name for name, kept in self.snapshot().schedules.items() if kept.schedule.paused_at is None]

    def limited(self) -> list[Scope]:
        """Return the scopes that have a limit."""
        return sorted(self.snapshot().limits)

    def close_world(self) -> None:
        """Do nothing: this store leaves no file and no session."""

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock rows as a foreign session does; the returned function unlocks them."""
        assert isinstance(self.book, LockedRows)
        return self.book.lock(jobs, is_exclusive=is_exclusive)

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Open the transaction of a rescue hook: its writes and the end of the hook are committed together, or not at all."""
        del idle
        assert isinstance(self.book, HookedBook)  # only such a store has the capability
        return _awaited(self.book.hook(job, token, hook_due_at))

    def moment(self) -> Moment:
        """Return the time, as the process that asks knows it: leases of another term of a primary are judged by watching them."""
        now = super().moment()
        return now if self.terms is None else MomentInTerm(now.wall, now.stamp, self.terms, self.lease_terms)

    def as_of(self, memory: Memory) -> Store:
        """Return a store for reads of what was there then."""
        old = MemoryStore(self._clock, Book())
        old.restore(memory.snapshot)
        return cast(Store, old)

    def fail_over(self, snapshot: Snapshot) -> None:
        """Forget all changes since the snapshot, and record that."""
        self.book.fail_over(snapshot)

    def remember(self) -> Memory:
        """Return all rows, and how many events have been recorded."""
        book = self.book
        hook_writes = {job: [*rows] for job, rows in book.rows.items()} if isinstance(book, HookedBook) else {}
        return Memory(self.snapshot(), dict(book.recorded_rows), hook_writes, dict(book.recorded_flows), len(self.history))

    def roll_back(self, memory: Memory) -> None:
        """Undo all writes since, and remove them from the history: no caller got a confirmation of them.

        A table of the user is not part of this.
        """
        book = self.book
        self.restore(memory.snapshot)
        book.recorded_rows, book.recorded_flows = dict(memory.recorded_rows), dict(memory.recorded_flows)
        if isinstance(book, HookedBook):
            book.rows.clear()
            book.rows.update(memory.hook_writes)
        since = self.history.events[memory.event_count :]
        self.history.events[memory.event_count :] = [
            event for event in since if event.phase is not Phase.TRUTH or event.what == "row"
        ]


def witnessed(
    kind: type[Book],
    clock: Clock,
    *,
    history: History,
    now: Callable[[], float],
    profile: Capabilities,
    floor: float = RETENTION_FLOOR,
    known: Collection[str] = (),
    has_strangers: bool = False,
    records_claims: bool = False,
) -> Witness:
    """Return a store of that kind that records its changes; set ``caller`` before each call.

    ``known``: the tasks with code; empty: all. ``has_strangers``: foreign sessions may lock its rows.
    ``records_claims``: claims are recorded too, also those that took nothing.
    """
    if profile.caller_transaction and not issubclass(kind, HookedBook):
        kind = HookedBook if kind is Book else type(kind.__name__, (kind, HookedBook), {})
    bases = (*((LockedRows,) if has_strangers else ()), RecordingBook, kind)
    book: RecordingBook = type(f"Witnessed{kind.__name__}", bases, {"floor": floor, "records_claims": records_claims})()
    made = Witness(clock, book)
    made.lease_terms = {}
    made.history, made.now, made.profile, made.known = history, now, profile, known
    book.around = made
    return made


@asynccontextmanager
async def _awaited(block: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    with block as entered:
        yield entered

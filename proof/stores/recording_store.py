"""What a memory store really did: every change of a row, in order, with the right it was asked for under."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import Capabilities
from holdfast._core.book import Book
from holdfast._core.book_state import Snapshot
from holdfast._core.job import Token
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._ports.clock import Clock
from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.history import History, JobRow, Phase
from proof.checker.hooks import HookedBook
from proof.simulator.loop import Process
from proof.stores.clockless import Clockless
from proof.stores.locked_rows import LockedRows
from proof.stores.recording_book import RecordingBook


class Memory(Struct, frozen=True):
    """A store at some moment, and what its witness had told of it by then."""

    snapshot: Snapshot
    recorded_rows: dict[UUID, JobRow]
    healed: dict[UUID, list[str]]
    told: int


class Witness(MemoryStore):
    """A memory store around a book that writes down what it does; set ``caller`` before each call."""

    history: History
    now: Callable[[], float]
    profile: Capabilities
    known: Collection[str] = ()
    caller: str = ""
    clock_of: Callable[[str], Clock]
    book: RecordingBook

    @property
    def capabilities(self) -> Capabilities:
        """Those of the store it plays."""
        return self.profile

    @property
    def versions(self) -> Counter[UUID | None]:
        """How often each row has changed, and all of them together."""
        return self.book.versions

    def reached_by(self, process: Process) -> Store:
        """All share it; ``caller`` says who asks."""
        del process
        return cast(Store, self)

    def close_world(self) -> None:
        """Nothing is left of it anywhere."""

    def lock(self, jobs: Sequence[UUID], *, is_exclusive: bool) -> Callable[[], None]:
        """Lock rows as a session of a stranger does; until the answer is called."""
        assert isinstance(self.book, LockedRows)
        return self.book.lock(jobs, is_exclusive=is_exclusive)

    def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AbstractAsyncContextManager[Any]:
        """Only for hooks: what is written lands with the mark, or not at all."""
        del idle
        assert isinstance(self.book, HookedBook)  # only such a store has the capability
        return _awaited(self.book.hook(job, token, hook_due_at))

    def fail_over(self, snapshot: Snapshot) -> None:
        """Forget everything since the snapshot, and say so."""
        self.book.fail_over(snapshot)

    def remember(self) -> Memory:
        """All that there is, and how much of it has been told."""
        book = self.book
        healed = {job: [*rows] for job, rows in book.rows.items()} if isinstance(book, HookedBook) else {}
        return Memory(self.snapshot(), dict(book.recorded_rows), healed, len(self.history))

    def roll_back(self, memory: Memory) -> None:
        """Whatever was written since never was, and is not told either: nobody was told that it counts.

        A watched table is not part of it.
        """
        book = self.book
        self.restore(memory.snapshot)
        book.recorded_rows = dict(memory.recorded_rows)
        if isinstance(book, HookedBook):
            book.rows.clear()
            book.rows.update(memory.healed)
        since = self.history.events[memory.told :]
        self.history.events[memory.told :] = [event for event in since if event.phase is not Phase.TRUTH or event.what == "row"]


class ClocklessWitness(Clockless, Witness):
    """The same of a store without a clock."""


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
) -> Witness:
    """A store of that kind that writes down what it does; set ``caller`` before each call. ``known``: tasks; empty: any.
    ``has_strangers``: sessions of others may lock its rows."""
    if profile.caller_transaction and not issubclass(kind, HookedBook):
        kind = HookedBook if kind is Book else type(kind.__name__, (kind, HookedBook), {})
    bases = (*((LockedRows,) if has_strangers else ()), RecordingBook, kind)
    book: RecordingBook = type(f"Witnessed{kind.__name__}", bases, {"floor": floor})()
    made = (ClocklessWitness if profile.lease_clock == "none" else Witness)(clock, book)
    made.history, made.now, made.profile, made.known = history, now, profile, known
    book.around = made
    return made


@asynccontextmanager
async def _awaited(block: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    with block as entered:
        yield entered

"""Jobs in this process: a book with a clock and a lock around it.

Every verb runs to its end without yielding, and the lock makes it one step for threads too: an App is used by its user's event
loop and by the thread of its blocking methods at once.
"""

from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any

from holdfast._core.answers import Capabilities, Check
from holdfast._core.book.book import Book
from holdfast._core.book.content import Snapshot
from holdfast._core.book.moment import Moment
from holdfast._core.book.verbs import BookVerbs
from holdfast._core.flow_changes import FlowChange
from holdfast._ports.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = 1


class MemoryStore(BookVerbs):
    """Jobs in this process only; they end with it."""

    def __init__(self, clock: Clock, book: Book | None = None) -> None:
        self.book = book or Book()
        self._clock = clock
        self._lock = RLock()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("memory", "kernel")

    def moment(self) -> Moment:
        """Return the time on both clocks, for a verb that is called now."""
        clock = self._clock
        return Moment(_EPOCH + timedelta(0, 0, round(clock.wall() * 1e6)), round(clock.monotonic() * 1e6))

    def snapshot(self) -> Snapshot:
        """Return a copy of the store's content. To ``restore`` it later simulates a fail-over that loses the newest writes."""
        with self._lock:
            return self.book.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the store's content by a snapshot, which can be restored again."""
        with self._lock:
            self.book.restore(snapshot)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self.book.flow_changes.take()

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        with self._lock:
            try:
                return getattr(self.book, verb)(self.moment(), *arguments, **keywords)
            finally:
                self.book.forget_journal()

    async def migrate(self) -> tuple[int, int]:
        return _VERSION, _VERSION

    async def check(self) -> tuple[Check, ...]:
        message = "jobs live in this process and end with it"
        return (Check("warning", "durability", message, "use a store that writes to disk, such as sqlite:///jobs.db"),)

    async def close(self) -> None:
        pass

"""A user's table in memory, as a rows declaration reads it: the shortest correct code, for tests of the code that works on one.

Every verb runs to its end without yielding. One lock makes it one step for threads too; a transaction holds the lock throughout.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import RLock
from typing import Any

from holdfast._core.table_spec import Key, RowOutcome, TableSpec
from holdfast._ports.clock import Clock
from holdfast._ports.table import ClaimedRows, Findings, Refusal, ResetRow, RowFence, RowHolder, States

Row = dict[str, Any]  # of values that nothing changes


def copied(rows: dict[Key, Row]) -> dict[Key, Row]:
    """Return a copy of the rows, to which no change of these comes through."""
    return {key: row.copy() for key, row in rows.items()}


class MemoryMoves:
    """The moves inside a transaction. ``connection``: another table of the user, a dict."""

    def __init__(self, table: "MemoryTable", fence: RowFence) -> None:
        self._table, self._fence = table, fence
        self.connection: Any = table.others

    async def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        """Move the rows at once; a rollback of the transaction undoes it."""
        return self._table.moved(self._fence, keys, end, reason, is_all=is_all)


class BlockingMemoryMoves(MemoryMoves):
    """The moves inside a transaction of a thread."""

    def move(  # type: ignore[override]
        self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        """Move the rows at once; a rollback of the transaction undoes it."""
        return self._table.moved(self._fence, keys, end, reason, is_all=is_all)


class MemoryTable:
    """A table of dictionaries. ``is_due``: the condition ``where`` in Python. ``others``: another table of the same database.

    ``tells_stamps``: stamps can be asked for before a claim. ``refuses_stamps``: a claim uses another stamp, as if this one were taken.
    """

    def __init__(
        self,
        watch: TableSpec,
        clock: Clock,
        rows: Sequence[Row] = (),
        is_due: Callable[[Row], bool] = lambda _: True,
        *,
        tells_stamps: bool = False,
    ) -> None:
        self._watch, self._clock, self._is_due = watch, clock, is_due
        self.rows: dict[Key, Row] = {}
        self.others: dict[Any, Any] = {}
        self.tells_stamps, self.refuses_stamps = tells_stamps, False
        self.findings = Findings()
        self.refusals: list[Refusal] = []
        self._claims = 0
        self._lock = RLock()
        for row in rows:
            self.add(row)

    @property
    def watch(self) -> TableSpec:
        return self._watch

    def add(self, row: Row) -> None:
        """Add a row, which is pending if it has no status."""
        full = {self._watch.status: self._watch.pending, **dict.fromkeys(self._watch.named.values()), **row}
        if full[self._watch.status] is None:
            full[self._watch.status] = self._watch.pending
        self.rows[tuple(row[column] for column in self._watch.key)] = full

    async def inspect(self) -> Findings:
        return self.findings

    async def create_indexes(self) -> tuple[str, ...]:
        """Return the indexes of ``findings``, which no longer reports them."""
        made, self.findings = self.findings.indexes, Findings(self.findings.problems, self.findings.warnings)
        return made

    async def has_due(self) -> bool:
        return bool(self._due())

    async def stamps(self, number: int) -> list[str]:
        """Return stamps for the next claims, if ``tells_stamps`` and no owner column proves a claim."""
        with self._lock:
            return [repr(self._stamp()) for _ in range(number if self.tells_stamps and self._watch.owner is None else 0)]

    async def claim(self, owner: str, limit: int, stamp: str = "") -> ClaimedRows:
        """Claim due rows, in the order in which they were added."""
        with self._lock:
            now = float(stamp) if stamp and not self.refuses_stamps else self._stamp()
            fence = RowFence(repr(now), owner if self._watch.owner else "")
            for row in (taken := self._due()[:limit]):
                row |= {self._watch.status: self._watch.in_progress, self._watch.claimed_at: now}
                self._own(row, fence.owner)
            keys = tuple(tuple(row[column] for column in self._watch.key) for row in taken)
            return ClaimedRows(fence, tuple(row.copy() for row in taken), keys)

    async def move(
        self, fence: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        """Move those of the rows that are under the fence."""
        return self.moved(fence, keys, end, reason, is_all=is_all)

    async def release(self, fence: RowFence) -> int:
        """Return all rows under the fence to pending."""
        return len(self.moved(fence, list(self.rows), RowOutcome.RETRY))

    async def renew(self, fence: RowFence) -> RowFence | None:
        """Stamp the rows of the owner again: the owner is the fence, so the stamp may change."""
        with self._lock:
            held = [row for row in self.rows.values() if self._is_under(row, fence)]
            for row in held:
                row[self._watch.claimed_at] = self._clock.wall()
            return RowFence(repr(self._clock.wall()), fence.owner) if held else None

    async def stamp_unstamped(self, limit: int) -> list[Key]:
        """Stamp rows that are in progress and have no stamp."""
        with self._lock:
            status, since = self._watch.status, self._watch.claimed_at
            held = [key for key, row in self.rows.items() if row[status] == self._watch.in_progress]
            bare = [key for key in held if self.rows[key][since] is None][:limit]
            for key in bare:
                self.rows[key][since] = self._clock.wall()
            return bare

    async def reset(self, limit: int, past: int = 0) -> list[ResetRow]:
        """Reset stale rows, the stalest first."""
        with self._lock:
            stuck = sorted((held, key) for key, held in self._held().items() if held > self._watch.stale_after)[::-1]
            return [self._reset(key, held) for held, key in stuck[past : past + limit]]

    async def prune(self, limit: int) -> int:
        """Delete done rows, judged by their stamp."""
        with self._lock:
            kept, now = self._watch.retention, self._clock.wall()
            old = [
                key
                for key, row in self.rows.items()
                if kept is not None and row[self._watch.status] == self._watch.done and now - row[self._watch.claimed_at] > kept
            ][:limit]
            for key in old:
                del self.rows[key]
            return len(old)

    async def unreadable(self, limit: int) -> list[Key]:
        """Return the keys of rows in progress whose stamp is not a number."""
        busy = [key for key, row in self.rows.items() if row[self._watch.status] == self._watch.in_progress]
        return [key for key in busy if not isinstance(self.rows[key][self._watch.claimed_at], float | None)][:limit]

    def refused(self) -> list[Refusal]:
        """Return ``refusals``, and forget them."""
        refusals, self.refusals = self.refusals, []
        return refusals

    async def states(self) -> States:
        held, status = self._held(), [str(row[self._watch.status]) for row in self.rows.values()]
        owners = [(self._owner(self.rows[key]) or "", age) for key, age in held.items()]
        holders = tuple(
            RowHolder(owner, len(ages := [age for each, age in owners if each == owner]), max(ages)) for owner in dict(owners)
        )
        stuck = sum(age > self._watch.stale_after for age in held.values())
        counts = {each: status.count(each) for each in dict.fromkeys(status)}
        return States(counts, len(self._due()), stuck, max(held.values(), default=None), holders)

    @asynccontextmanager
    async def transaction(self, fence: RowFence) -> AsyncIterator[MemoryMoves]:
        """Open a transaction; an exception rolls it back."""
        with self._or_undone():
            yield MemoryMoves(self, fence)

    @contextmanager
    def blocking_transaction(self, fence: RowFence) -> Iterator[BlockingMemoryMoves]:
        """Open a transaction; an exception rolls it back."""
        with self._lock, self._or_undone():
            yield BlockingMemoryMoves(self, fence)

    async def close(self) -> None:
        """There is nothing to close."""

    def moved(
        self, fence: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        """Move rows and return those that were under the fence; ``AssertionError`` if ``is_all`` is wrong."""
        with self._lock:
            assert not is_all or {key for key, row in self.rows.items() if self._is_under(row, fence)} <= set(keys)
            found = [key for key in keys if key in self.rows and self._is_under(self.rows[key], fence)]
            for key in found:
                self._move(key, end, reason)
            return found

    def _move(self, key: Key, end: RowOutcome, reason: str) -> None:
        watch, row = self._watch, self.rows[key]
        if end is RowOutcome.DONE and watch.deletes:
            del self.rows[key]
            return
        row[watch.status] = {RowOutcome.DONE: watch.done, RowOutcome.RETRY: watch.pending, RowOutcome.FAIL: watch.failed}[end]
        self._own(row, None)
        if end is RowOutcome.FAIL and watch.reason is not None:
            row[watch.reason] = reason

    def _reset(self, key: Key, held: float) -> ResetRow:
        watch, row, owner = self._watch, self.rows[key], self._owner(self.rows[key])
        end = RowOutcome.RETRY
        if watch.resets is not None:
            row[watch.resets] = (row[watch.resets] or 0) + 1
            if watch.max_resets is not None and row[watch.resets] > watch.max_resets:
                end = RowOutcome.FAIL
        self._move(key, end, f"taken from {owner or 'an unknown worker'} {row.get(watch.resets or '', 0)} times")
        return ResetRow(key, end, owner, held)

    def _stamp(self) -> float:
        self._claims += 1
        return self._clock.wall() + self._claims / 1e6

    def _due(self) -> list[Row]:
        return [row for row in self.rows.values() if row[self._watch.status] == self._watch.pending and self._is_due(row)]

    def _held(self) -> dict[Key, float]:
        now, watch = self._clock.wall(), self._watch
        busy = {key: row[watch.claimed_at] for key, row in self.rows.items() if row[watch.status] == watch.in_progress}
        return {key: now - since for key, since in busy.items() if isinstance(since, float)}

    def _is_under(self, row: Row, fence: RowFence) -> bool:
        if row[self._watch.status] != self._watch.in_progress:
            return False
        if self._watch.owner is not None:
            return self._owner(row) == fence.owner
        return repr(row[self._watch.claimed_at]) == fence.stamp

    def _owner(self, row: Row) -> str | None:
        return None if self._watch.owner is None else row[self._watch.owner]

    def _own(self, row: Row, owner: str | None) -> None:
        if self._watch.owner is not None:
            row[self._watch.owner] = owner

    @contextmanager
    def _or_undone(self) -> Iterator[None]:
        before, others = copied(self.rows), self.others.copy()
        try:
            yield
        except BaseException:
            self.rows = before
            self.others.clear()
            self.others |= others
            raise

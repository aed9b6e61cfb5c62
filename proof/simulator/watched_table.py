"""A watched table of a world: its changes, as events, and the faults of the calls to it."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, cast

from holdfast._core.table_spec import Key, RowOutcome, TableSpec
from holdfast._ports.clock import Clock
from holdfast._ports.table import BlockingRowWriter, ClaimedRows, Refusal, ResetRow, RowFence, RowWriter, Table
from holdfast.errors import StoreUnavailable
from proof.checker.history import By, Event, History, Phase, TableRow
from proof.simulator.faults import Faulty, verb_of
from proof.stores.memory_table import MemoryTable, Row, copied

VERBS = tuple(name for name, member in vars(Table).items() if inspect.iscoroutinefunction(member))


class _Moves:
    """Moves of one transaction, made when it commits. ``connection``: keys of rows whose effect it commits with them."""

    def __init__(self, table: "WitnessedTable", fence: RowFence) -> None:
        self._table, self._fence = table, fence
        self.connection: list[Any] = []
        self.sent: list[tuple[Key, RowOutcome, str]] = []

    async def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        """Return the keys whose rows are under the fence now, and move these when the transaction commits."""
        self._table.require_all(self._fence, keys, is_all=is_all)
        found = self._table.under(self._fence, keys)
        self.sent += [(key, end, reason) for key in found]
        return found


class WitnessedTable(MemoryTable):
    """A table that records each change of a row, with the fence of the call. ``complain`` reports callers that are wrong."""

    def __init__(
        self,
        watch: TableSpec,
        clock: Clock,
        rows: Sequence[Row],
        *,
        tells_stamps: bool,
        history: History,
        now: Callable[[], float],
        complain: Callable[[str], None],
    ) -> None:
        super().__init__(watch, clock, rows, tells_stamps=tells_stamps)
        self.caller = ""
        self._history, self._now, self._complain = history, now, complain
        for key in self.rows:
            self._write("insert", "", None, self._shown(key))

    def introduce(self, process: str) -> None:
        """Set the process for which the table works next."""
        self.caller = process

    async def claim(self, owner: str, limit: int, stamp: str = "") -> ClaimedRows:
        before = copied(self.rows)
        claimed = await super().claim(owner, limit, stamp)
        self._tell(before, "claim", claimed.fence)
        return claimed

    async def renew(self, fence: RowFence) -> RowFence | None:
        before = copied(self.rows)
        renewed = await super().renew(fence)
        self._tell(before, "renew", fence)
        return renewed

    async def stamp_unstamped(self, limit: int) -> list[Key]:
        before = copied(self.rows)
        adopted = await super().stamp_unstamped(limit)
        self._tell(before, "adopt")
        return adopted

    async def reset(self, limit: int, past: int = 0) -> list[ResetRow]:
        before = copied(self.rows)
        found = await super().reset(limit, past)
        self._tell(before, "reset")
        return found

    def transaction(self, fence: RowFence) -> AbstractAsyncContextManager[Any]:  # type: ignore[override]
        """Open a transaction that makes its moves at once when it commits. A row taken before that aborts it, as a lock would."""
        return self._transaction(fence, self.caller)

    def moved(
        self, fence: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        self.require_all(fence, keys, is_all=is_all)
        before = copied(self.rows)
        found = super().moved(fence, keys, end, reason)
        self._tell(before, "move", fence)
        return found

    def under(self, fence: RowFence, keys: Iterable[Key]) -> list[Key]:
        """Return the keys whose rows are under the fence."""
        return [key for key in keys if key in self.rows and self._is_under(self.rows[key], fence)]

    def require_all(self, fence: RowFence, keys: Sequence[Key], *, is_all: bool) -> None:
        """Complain of a caller that claims to move all rows under its fence, and leaves some."""
        if is_all and (others := set(self.under(fence, self.rows)) - set(keys)):
            self._complain(f"{self.caller} claimed that these are all rows of its batch, and {sorted(others)} were too")

    @asynccontextmanager
    async def _transaction(self, fence: RowFence, caller: str) -> AsyncIterator[_Moves]:
        yield (moves := _Moves(self, fence))
        self.caller, before, sent = caller, copied(self.rows), [key for key, _, _ in moves.sent]
        if self.under(fence, sent) != sent:
            raise StoreUnavailable("transaction: a row was taken by another one, and it is rolled back")
        for key in moves.connection:
            self.others[key,] = self.others.get((key,), 0) + 1
        for key, end, reason in moves.sent:
            self._move(key, end, reason)
        self._tell(before, "transaction", fence, [(key,) for key in moves.connection])

    def _tell(self, before: dict[Key, Row], verb: str, fence: RowFence | None = None, effects: Sequence[Key] = ()) -> None:
        carried = "" if fence is None else self._fence_of(fence.owner, fence.stamp)
        for key, old in before.items():
            if self.rows.get(key) != old or key in effects:
                self._write(verb, carried, self._row_of(old, key in effects), self._shown(key))

    def _write(self, verb: str, fence: str, before: TableRow | None, after: TableRow | None) -> None:
        by = By(verb, outcome=fence)
        event = Event(time=self._now(), process=self.caller, what="row", phase=Phase.TRUTH, by=by, before=before, after=after)
        self._history.add(event)

    def _shown(self, key: Key) -> TableRow | None:
        return self._row_of(self.rows[key]) if key in self.rows else None

    def _row_of(self, row: Row, has_effect: bool = False) -> TableRow:
        watch = self.watch
        is_busy, since, key = row[watch.status] == watch.in_progress, row[watch.claimed_at], row[watch.key[0]]
        return TableRow(
            key=key,
            status=row[watch.status],
            fence=self._fence_of(self._owner(row) or "", "" if since is None else repr(since)) if is_busy else "",
            held=self._clock.wall() - since if is_busy and since is not None else 0.0,
            resets=(row[watch.resets] or 0) if watch.resets else 0,
            effects=self.others.get((key,), 0) - has_effect,
        )

    def _fence_of(self, owner: str, stamp: str) -> str:
        return owner if self.watch.owner else stamp


class _FaultyTable(Faulty):
    """The wrapper of a store's verbs around those of a table."""

    _store: Any

    @property
    def watch(self) -> TableSpec:
        return cast(TableSpec, self._store.watch)

    def refused(self) -> list[Refusal]:
        return cast(list[Refusal], self._store.refused())

    def transaction(self, fence: RowFence) -> AbstractAsyncContextManager[RowWriter]:  # type: ignore[override]
        """Open a transaction that can fail when it commits."""
        self._introduce(self._process)
        return self._committing(self._store.transaction(fence))

    def blocking_transaction(self, fence: RowFence) -> AbstractContextManager[BlockingRowWriter]:  # type: ignore[override]
        return cast("AbstractContextManager[BlockingRowWriter]", self._store.blocking_transaction(fence))


for _name in VERBS:
    setattr(_FaultyTable, _name, verb_of(_name))


def faulty_table(table: WitnessedTable, **around: Any) -> Table:
    """Return the table as one process reaches it under faults; ``around``: arguments of ``faulty``."""
    return cast(Table, _FaultyTable(cast(Any, table), introduce=table.introduce, connections=None, **around))

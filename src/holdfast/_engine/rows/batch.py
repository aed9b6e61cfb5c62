"""What a handler of rows receives: a batch, whose rows it finishes one by one or many at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast._core.payload import ERROR_TEXT_LIMIT, cut_text
from holdfast._core.table_spec import Key, RowOutcome
from holdfast._engine.events import EventName, Events
from holdfast._engine.retry import Retrier
from holdfast._engine.rows.batch_state import BatchState, format_keys
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._ports.clock import Clock
from holdfast._ports.table import BlockingRowWriter, RowWriter, Table
from holdfast.errors import ConfigurationError, HoldfastError, JobLost, RowsLost, StoreUnavailable, Unsupported

Answered = TypeVar("Answered")
AnyJob = TypeVar("AnyJob", Job, SyncJob)
Keys = Iterable[Any]


class BatchParts(Struct, frozen=True):
    """What a batch works with."""

    ledger: BatchState
    table: Table
    clock: Clock
    retrier: Retrier
    events: Events


class BatchOfRows(Generic[AnyJob]):
    """What both kinds of batch have: rows, which of them are still open, and the run they belong to."""

    def __init__(self, holding: BatchParts, job: AnyJob) -> None:
        self._holding, self._ledger, self._table = holding, holding.ledger, holding.table
        self.job: AnyJob = job

    def __len__(self) -> int:
        return len(self._ledger.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as they were claimed, each a dict by column."""
        return self._ledger.rows

    @property
    def keys(self) -> list[Any]:
        """The keys of the rows, in the same order: values of the key column, or tuples where there are several."""
        return self._ledger.shown(self._ledger.keys)

    @property
    def open(self) -> list[Any]:
        """Keys of rows that are not finished yet; at the handler's end the run releases those that are left."""
        return self._ledger.shown(self._ledger.open)

    async def _finish(self, keys: Keys, end: RowOutcome, reason: str = "") -> list[Any]:
        self.job._require_owned()
        sent, _ = self._wanted(keys, end)
        if not sent:
            return []
        text = cut_text(reason, ERROR_TEXT_LIMIT)

        # Sent again after an outage it may be too late: the next batch may have the same rows under the same owner's name.
        def move() -> Awaitable[list[Key]]:
            ledger, keys = self._ledger, [] if self._ledger.is_closed else sent
            return self._table.move(ledger.fence, keys, end, text, is_all=ledger.is_whole_batch(keys))

        moved = await self._ask(move)
        self._ledger.settle(moved, end)
        self._lose(sent, moved)
        return self._ledger.shown(moved)

    async def _renew(self) -> bool:
        self.job._require_owned()
        watch, clock = self._ledger.watch, self._holding.clock
        if watch.owner is None:
            raise Unsupported(f"batch.alive: pass owner='column' to app.rows({watch.name!r}, …); a stamp is its own fence")
        if not self._ledger.open:
            return not self._ledger.is_closed
        sent = clock.monotonic()
        fence = await self._ask(lambda: self._table.renew(self._ledger.fence))
        if fence is None:
            self._lose(list(self._ledger.open), [])
            return False
        self._ledger.fence = fence
        self._ledger.measure(clock.monotonic(), since=sent)
        return True

    def _wanted(self, keys: Keys, end: RowOutcome) -> tuple[Sequence[Key], Sequence[Key]]:
        watch = self._ledger.watch
        if end is RowOutcome.FAIL and watch.failed is None:
            remedy = "the status of rows that failed for good; batch.retry(keys) releases them instead"
            raise ConfigurationError([f"batch.fail: pass failed='…' to app.rows({watch.name!r}, …), {remedy}"])
        return self._ledger.take(keys)

    async def _ask(self, verb: Callable[[], Awaitable[Answered]]) -> Answered:
        async def ask() -> Answered:
            self.job._require_owned()
            try:
                return await verb()
            except StoreUnavailable as error:
                self._ledger.is_unsure = True
                if self.job._is_cancelled:  # a thread cannot be cancelled, and must not wait here until it is killed
                    raise asyncio.CancelledError from error
                raise

        return await self._holding.retrier.call(f"rows.{self._ledger.watch.name}", ask)

    def _lose(self, sent: Sequence[Key], moved: Sequence[Key]) -> list[Key]:
        """Return those of ``sent`` that have not moved: another owner has them, or a call whose answer was lost has finished them."""
        if len(moved) == len(sent):
            return []
        came = frozenset(moved)
        lost = [key for key in sent if key not in came]
        self._ledger.lose(lost)
        if lost and not self._ledger.is_unsure:
            name = self._ledger.watch.name
            self._holding.events.emit(EventName.ROWS_LOST, rows=name, count=len(lost), keys=format_keys(lost), job=self.job.id)
        return lost


class BatchCommit(Generic[AnyJob]):
    """Rows that one transaction finishes together with the caller's own statements: all of it, or nothing."""

    def __init__(self, batch: BatchOfRows[AnyJob]) -> None:
        self._batch: BatchOfRows[AnyJob] = batch
        self._moved: list[tuple[Sequence[Key], RowOutcome]] = []
        self._error: BaseException | None = None

    def _sent(self, keys: Keys, end: RowOutcome) -> Sequence[Key]:
        self._batch.job._require_owned()
        self._require_all()
        wanted, gone = self._batch._wanted(keys, end)
        self._require_none(gone)
        taken = {key for moved, _ in self._moved for key in moved}
        return [key for key in wanted if key not in taken] if taken else wanted

    def _came(self, sent: Sequence[Key], moved: Sequence[Key], end: RowOutcome) -> list[Any]:
        self._require_none(self._batch._lose(sent, moved))
        self._require_all()
        self._moved.append((moved, end))
        return self._batch._ledger.shown(moved)

    def _require_none(self, lost: Sequence[Key]) -> None:
        if lost:
            name, shown = self._batch._ledger.watch.name, self._batch._ledger.shown(lost)
            text = f"rows {name}: {format_keys(lost)}: no longer this batch's; the transaction is rolled back"
            raise RowsLost(f"{text}, and batch.open has the others", shown)

    @contextmanager
    def _or_nothing(self) -> Iterator[None]:
        """Remember an error of a move: code that catches it must not commit the statements that belong to the move, either."""
        try:
            yield
        except (Exception, JobLost) as error:
            self._error = error
            raise
        except BaseException:
            self._error = HoldfastError("batch.transaction(): a move was cancelled; the transaction is rolled back")
            raise

    def _require_all(self) -> None:
        """Raise the error of an earlier move, also at the end: code that catches it must still not commit."""
        if self._error is not None:
            raise self._error

    def _committed(self) -> None:
        for moved, end in self._moved:
            self._batch._ledger.settle(moved, end)


class BatchTransaction(BatchCommit[Job]):
    """A transaction of yours in which rows are finished. ``connection``: asyncpg's or sqlite3's."""

    def __init__(self, batch: BatchOfRows[Job], moves: RowWriter) -> None:
        super().__init__(batch)
        self._moves = moves
        self.connection = moves.connection

    async def done(self, keys: Keys) -> list[Any]:
        """Finish rows when the transaction commits. ``RowsLost``, and nothing is committed, if another owner has one of them."""
        return await self._move(keys, RowOutcome.DONE)

    async def retry(self, keys: Keys) -> list[Any]:
        """Release rows when the transaction commits. ``RowsLost`` as for ``done``."""
        return await self._move(keys, RowOutcome.RETRY)

    async def fail(self, keys: Keys, reason: str = "") -> list[Any]:
        """Fail rows when the transaction commits. ``RowsLost`` as for ``done``."""
        return await self._move(keys, RowOutcome.FAIL, reason)

    async def _move(self, keys: Keys, end: RowOutcome, reason: str = "") -> list[Any]:
        with self._or_nothing():
            sent = self._sent(keys, end)
            text, is_all = cut_text(reason, ERROR_TEXT_LIMIT), self._batch._ledger.is_whole_batch(sent)
            moved = await self._moves.move(sent, end, text, is_all=is_all) if sent else []
            return self._came(sent, moved, end)


class SyncBatchTransaction(BatchCommit[SyncJob]):
    """A ``BatchTransaction`` for a ``def`` handler, which runs in a thread. ``connection``: psycopg's or sqlite3's."""

    def __init__(self, batch: BatchOfRows[SyncJob], moves: BlockingRowWriter) -> None:
        super().__init__(batch)
        self._moves = moves
        self.connection = moves.connection

    def done(self, keys: Keys) -> list[Any]:
        """Finish rows when the transaction commits. ``RowsLost``, and nothing is committed, if another owner has one of them."""
        return self._move(keys, RowOutcome.DONE)

    def retry(self, keys: Keys) -> list[Any]:
        """Release rows when the transaction commits. ``RowsLost`` as for ``done``."""
        return self._move(keys, RowOutcome.RETRY)

    def fail(self, keys: Keys, reason: str = "") -> list[Any]:
        """Fail rows when the transaction commits. ``RowsLost`` as for ``done``."""
        return self._move(keys, RowOutcome.FAIL, reason)

    def _move(self, keys: Keys, end: RowOutcome, reason: str = "") -> list[Any]:
        with self._or_nothing():
            sent = self._sent(keys, end)
            text, is_all = cut_text(reason, ERROR_TEXT_LIMIT), self._batch._ledger.is_whole_batch(sent)
            moved = self._moves.move(sent, end, text, is_all=is_all) if sent else []
            return self._came(sent, moved, end)


class Batch(BatchOfRows[Job]):
    """Rows that belong to this handler for now. Every verb raises ``JobLost`` once its job belongs to another attempt.

    >>> @pastes.handler  # doctest: +SKIP
    ... async def delete(batch: Batch) -> None:
    ...     gone = await bucket.delete([row["object"] for row in batch.rows])
    ...     await batch.done(row["id"] for row in batch.rows if row["object"] in gone)
    """

    async def done(self, keys: Keys) -> list[Any]:
        """Finish rows for good; return the keys of those that were still this batch's. ``ValueError`` for keys it never had."""
        return await self._finish(keys, RowOutcome.DONE)

    async def retry(self, keys: Keys) -> list[Any]:
        """Release rows now; return the keys of those that were still this batch's."""
        return await self._finish(keys, RowOutcome.RETRY)

    async def fail(self, keys: Keys, reason: str = "") -> list[Any]:
        """Fail rows, with a reason where there is a column for it; return the keys of those that were still this batch's."""
        return await self._finish(keys, RowOutcome.FAIL, reason)

    async def alive(self) -> bool:
        """Stamp the open rows again, so that no watchdog takes them for stuck; return false if other owners have all of them."""
        return await self._renew()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[BatchTransaction]:
        """Commit row states and your own statements together, so that no effect is ever applied for a row that is lost.

        >>> async with batch.transaction() as tx:  # doctest: +SKIP
        ...     await tx.done(batch.open)
        ...     await tx.connection.execute("UPDATE contents SET uses = uses - 1 WHERE id = $1", content)
        """
        self.job._require_owned()
        try:
            async with self._table.transaction(self._ledger.fence) as moves:
                transaction = BatchTransaction(self, moves)
                yield transaction
                transaction._require_all()
        except StoreUnavailable:
            self._ledger.is_unsure = True
            raise
        transaction._committed()


class SyncBatch(BatchOfRows[SyncJob]):
    """A ``Batch`` for a ``def`` handler, which runs in a thread: its verbs block.

    >>> @pastes.handler  # doctest: +SKIP
    ... def delete(batch: SyncBatch) -> None:
    ...     batch.done(batch.keys)
    """

    def done(self, keys: Keys) -> list[Any]:
        """Finish rows for good; return the keys of those that were still this batch's. ``ValueError`` for keys it never had."""
        return self.job._in_loop(self._finish(keys, RowOutcome.DONE))

    def retry(self, keys: Keys) -> list[Any]:
        """Release rows now; return the keys of those that were still this batch's."""
        return self.job._in_loop(self._finish(keys, RowOutcome.RETRY))

    def fail(self, keys: Keys, reason: str = "") -> list[Any]:
        """Fail rows, with a reason where there is a column for it; return the keys of those that were still this batch's."""
        return self.job._in_loop(self._finish(keys, RowOutcome.FAIL, reason))

    def alive(self) -> bool:
        """Stamp the open rows again, so that no watchdog takes them for stuck; return false if other owners have all of them."""
        return self.job._in_loop(self._renew())

    @contextmanager
    def transaction(self) -> Iterator[SyncBatchTransaction]:
        """Commit row states and your own statements together, so that no effect is ever applied for a row that is lost.

        >>> with batch.transaction() as tx:  # doctest: +SKIP
        ...     tx.done(batch.open)
        ...     tx.connection.execute("UPDATE contents SET uses = uses - 1 WHERE id = %s", (content,))
        """
        self.job._require_owned()
        try:
            with self._table.blocking_transaction(self._ledger.fence) as moves:
                transaction = SyncBatchTransaction(self, moves)
                yield transaction
                transaction._require_all()
        except StoreUnavailable:
            self._ledger.is_unsure = True
            raise
        transaction._committed()

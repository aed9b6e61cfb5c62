"""One run of a rows handler: an ordinary job that claims batch after batch until nothing is due."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from holdfast._core.outcome import Cancel, Fail, Retry, Snooze
from holdfast._core.table_spec import LAST, RowOutcome, RowsSettings, batch_size_after, has_resets_left
from holdfast._engine.error_text import text_of
from holdfast._engine.events import EventName, Events
from holdfast._engine.retry import Retrier
from holdfast._engine.rows.batch import BatchParts
from holdfast._engine.rows.batch_state import BatchState, format_keys
from holdfast._engine.rows.scheduler import telling_of_refused
from holdfast._engine.rows.tables import Tables
from holdfast._engine.runners.outcomes import leaves_of
from holdfast._engine.service import is_cancelled
from holdfast._engine.tasks.job_context import JobContext
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.table import RowFence, Table
from holdfast.errors import HoldfastError, StoreUnavailable

SLICE = 60.0
"""Seconds after which a run goes to the end of its queue: others want its slot, and an operator may have paused the queue."""
RELEASE_WITHIN = 2.0
"""Seconds that a release may take once the code is to stop; the next attempt releases the fences that are left."""
SAVED_AFTER = 1.0
"""Seconds between two writes of what a run with an owner's names has done so far: a count may be late."""
SAVED_FENCES = 16
"""Fences saved at once, ahead of the batches that use them: a write for each batch took a tenth of its time."""
FRESH, FRESH_PART = 0.1, 0.01
"""Seconds, and part of ``stale_after``, for which a stamp that was saved ahead is still close enough to the time of the claim."""
SLOW_BATCH = 3.0
"""A batch should need less than ``stale_after`` divided by this."""

Returned = TypeVar("Returned")


class RowsRun:
    """Claims batches, and releases the rows that the handler left open.

    Its job's checkpoint has the fence of the current batch. After the worker has died, the next attempt releases that batch by it,
    in seconds and not after ``stale_after``.
    """

    def __init__(
        self, settings: RowsSettings, tables: Tables, job: JobContext, *, clock: Clock, chance: Randomness, events: Events
    ) -> None:
        self._settings, self._tables, self._job = settings, tables, job
        self._clock, self._events = clock, events
        self._retrier = Retrier(clock, chance, events)
        self._began = clock.monotonic()
        self._current: BatchState | None = None
        self._is_idle = self.has_failed = False
        self._error: BaseException | None = None
        saved = job.checkpoint_value or {}
        self._fences = [RowFence(stamp, owner) for stamp, owner in saved.get("marks", ())]
        self._ahead: list[RowFence] = []
        self._passed = self._named = 0
        self._saved_at, self._saved_wall = clock.monotonic(), clock.wall()
        self.answer = {"batches": 0, "done": 0, "failed": 0, "retried": 0, "left": 0, "lost": 0, **saved.get("so_far", {})}
        self._saved = dict(self.answer)

    @property
    def _name(self) -> str:
        return self._settings.task

    async def begin(self) -> None:
        """Verify the table, and release the rows that earlier attempts had."""
        with self.snooze_if_unavailable():
            self._table: Table = await self._tables.verified(self._settings)
            for fence in self._fences:
                await self._release(fence)

    async def next(self) -> BatchParts | None:
        """Release what the handler left open of the last batch, and return the next one; ``None``: the run is over."""
        await self._give_back()
        self._require_not_cancelled()
        if self._is_idle:
            await self._rest()
            return None
        is_long = self._clock.monotonic() - self._began >= SLICE
        if self._ends and (is_long or self._has_passed_what_befell_it):
            return None  # else they would be summed up for as long as rows are due: the next run begins without them
        if self._job._is_draining or is_long:
            await self._remember([])
            raise Snooze(0)
        await shielded(self._take)
        self._require_not_cancelled()  # a thread is not interrupted, and past its deadline nothing may start
        if self._current is None:
            return None
        batches, finished = self.answer["batches"], self.answer["done"] + self.answer["failed"]
        await self._job._progress(None, None, f"batch {batches + 1:,}, {finished:,} rows finished")
        return BatchParts(self._current, self._table, self._clock, self._retrier, self._events)

    async def _rest(self) -> None:
        """Snooze if rows are due that no handler finishes. The run keeps its key: else each supervisor would enqueue another at once."""
        with self.snooze_if_unavailable():
            has_due = await self._table.has_due()
        if has_due:
            await self._remember([])
            raise Snooze(self._settings.interval)

    async def close(self) -> None:
        """Release the open rows. Call it once the run's code has stopped, for any reason.

        A cancelled run snoozes if that takes longer than ``RELEASE_WITHIN``. Any other run has no such limit: a snooze would replace
        the error that its handler raised. After a failure the counts are saved in the checkpoint, from which the next attempt goes on.
        """
        try:
            async with asyncio.timeout(RELEASE_WITHIN if self._job._is_cancelled else None):
                await self._give_back()
        except TimeoutError:
            raise Snooze(self._settings.interval) from None
        if self.has_failed and self._saved != self.answer and not self._job._is_cancelled:
            with suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_WITHIN):
                    await self._remember(self._fences)

    @property
    def _has_passed_what_befell_it(self) -> bool:
        """Whether the run has finished as many rows as one batch had, in smaller ones, since its worker died or its handler raised."""
        return self._passed >= batch_size_after(self._settings.watch.batch, self._ends - 1)

    @property
    def _ends(self) -> int:
        """How many attempts of this run ended in a crash or a failure."""
        job = self._job._claim.job
        return job.crashes + job.failures

    async def _take(self) -> None:
        watch, fence = self._settings.watch, await self._next_fence()
        sent = self._saved_at if fence.stamp else self._clock.monotonic()
        with self.snooze_if_unavailable(), telling_of_refused(self._table, self._events, self._job.id):
            claimed = await self._table.claim(fence.owner, batch_size_after(watch.batch, self._ends), fence.stamp)
        self._passed += len(claimed.rows)
        if claimed.rows:
            self._current = BatchState(watch, claimed, sent)
            if watch.owner is None and claimed.fence != fence:
                await self._remember([claimed.fence, *self._ahead])

    async def _next_fence(self) -> RowFence:
        """Return the fence that the next claim writes, saved before the claim; an empty one if only the claim's answer has it."""
        has_owner, clock = self._settings.watch.owner is not None, self._clock
        now, wall = clock.monotonic(), clock.wall()
        if not (self._ahead and self._is_fresh(now, wall)):
            with self.snooze_if_unavailable():
                self._ahead = (
                    self._names() if has_owner else [RowFence(stamp, "") for stamp in await self._table.stamps(SAVED_FENCES)]
                )
            if self._ahead:
                self._saved_at, self._saved_wall = now, wall
                await self._remember(list(self._ahead))
        return self._ahead.pop(0) if self._ahead else RowFence("", "")

    def _is_fresh(self, now: float, wall: float) -> bool:
        """Return whether fences that were saved ahead may still be used."""
        watch = self._settings.watch
        if watch.owner is not None:
            return now - self._saved_at < SAVED_AFTER
        most = min(FRESH, FRESH_PART * watch.stale_after)
        # A stamp is a time of the wall clock, which goes on while the machine sleeps, and may be set.
        return now - self._saved_at < most and 0 <= wall - self._saved_wall < most

    def _names(self) -> list[RowFence]:
        self._named += SAVED_FENCES
        return [RowFence("", self._owner(number)) for number in range(self._named - SAVED_FENCES + 1, self._named + 1)]

    def _owner(self, batch: int) -> str:
        """Return an owner's name that no other batch ever has. A store that lost its newest writes may number attempts again, but makes
        no claim twice. A late write of one batch may reach the table when the next batch has its rows."""
        claim = self._job.token.claim
        return f"{self._job.id.hex}.{self._job.attempt}.{claim.hex[:8] if claim else ''}.{batch}"

    async def _give_back(self) -> None:
        ledger = self._current
        if ledger is None:
            return
        left = 0
        if self._error is not None:
            left = await self._keep(ledger, self._error)
        elif ledger.open:
            with self.snooze_if_unavailable():
                left = await self._release(ledger.fence)
        ledger.close()
        self._current = None
        self._is_idle = not ledger.finished and self._error is None
        counts = {
            "done": ledger.moved[RowOutcome.DONE],
            "failed": ledger.moved[RowOutcome.FAIL],
            "retried": ledger.moved[RowOutcome.RETRY],
        }
        for what, count in (*counts.items(), ("batches", 1), ("left", left), ("lost", ledger.lost)):
            self.answer[what] += count
        self._judge_pace(ledger)

    @contextmanager
    def sparing_others(self) -> Iterator[None]:
        """Go on after an error of the handler if it had one row, after two errors with more: that row must not stop all others.

        A second error directly after it may have another cause than a row: it ends the run. ``Fail``, ``Cancel`` and ``Retry``
        are errors too: each would end the run, and the next one would begin with the same rows.
        """
        before, self._error = self._error, None
        try:
            yield
        except (Snooze, StoreUnavailable):
            raise
        except (Exception, SystemExit, asyncio.CancelledError, BaseExceptionGroup) as error:
            if is_of_no_row(error):
                raise
            ledger, verdict = self._current, verdict_in(error)
            has_one_row = ledger is not None and len(ledger.keys) == len(ledger.open) == 1
            if self._ends < LAST or not has_one_row or before is not None or self._job._is_cancelled:
                if verdict is None:
                    raise
                raise HoldfastError(f"{type(verdict).__name__}: {text_of(verdict)}") from error
            self._error = verdict or error

    async def _release(self, fence: RowFence) -> int:
        with telling_of_refused(self._table, self._events, self._job.id):
            return await self._table.release(fence)

    async def _keep(self, ledger: BatchState, error: BaseException) -> int:
        """Leave the row to the watchdog, which counts and resets it after ``stale_after``, or fail it if it has no resets left."""
        watch, (key,), reason = ledger.watch, ledger.open, text_of(error)
        if has_resets_left(watch, ledger.rows[0]):
            kept = [fence for fence in self._fences if (fence.owner or fence.stamp) != (ledger.fence.owner or ledger.fence.stamp)]
            await self._remember(kept)
        else:
            with self.snooze_if_unavailable():
                ledger.settle(await self._table.move(ledger.fence, [key], RowOutcome.FAIL, reason), RowOutcome.FAIL)
        shown = f"{type(error).__name__}: {reason}"
        self._events.emit(EventName.ROWS_KEPT, rows=watch.name, keys=format_keys([key]), error=shown, job=self._job.id)
        return len(ledger.open)

    def _judge_pace(self, ledger: BatchState) -> None:
        ledger.measure(self._clock.monotonic())
        stale_after = ledger.watch.stale_after
        if ledger.longest > stale_after / SLOW_BATCH:
            name, longest = ledger.watch.name, ledger.longest
            self._events.emit(EventName.ROWS_BATCH_SLOW, rows=name, seconds=longest, stale_after=stale_after, job=self._job.id)

    async def _remember(self, fences: list[RowFence]) -> None:
        """Save the fences and counts durably, unless the code is to stop: the store may be away, and the save would delay the stop."""
        self._require_not_cancelled()
        await self._job._save({"marks": [[fence.stamp, fence.owner] for fence in fences], "so_far": self.answer})
        self._fences, self._saved = fences, dict(self.answer)

    def _require_not_cancelled(self) -> None:
        if self._job._is_cancelled:
            raise asyncio.CancelledError

    @contextmanager
    def snooze_if_unavailable(self) -> Iterator[None]:
        """Snooze if the database is unreachable: the run has not failed, and it keeps the fences it still has to release."""
        try:
            yield
        except StoreUnavailable as error:
            self._events.emit(EventName.STORE_UNAVAILABLE, operation=self._name, error=str(error), failures=1)
            raise Snooze(self._settings.interval) from error


def verdict_in(error: BaseException) -> Retry | Cancel | Fail | None:
    """Return the outcome that a handler raised to end its job, which has no meaning for a batch of rows."""
    leaves = leaves_of(error)
    return leaves[0] if len(leaves) == 1 and isinstance(leaves[0], Retry | Cancel | Fail) else None


def is_of_no_row(error: BaseException) -> bool:
    """Return whether an error has no cause in the row: the job was lost, the code was cancelled, or a person stops the program."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_of_no_row, error.exceptions))
    if isinstance(error, asyncio.CancelledError):
        return asyncio._get_running_loop() is None or is_cancelled()
    return not isinstance(error, Exception | SystemExit)


async def shielded(action: Callable[[], Coroutine[Any, Any, Returned]]) -> Returned:
    """Return the action's result. When cancelled, give the action ``RELEASE_WITHIN`` seconds to end, so that its effect is known."""
    task, is_cancelled = asyncio.get_running_loop().create_task(action()), False
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=RELEASE_WITHIN if is_cancelled else None)
        except asyncio.CancelledError:
            is_cancelled = True
        else:
            if not task.done():
                task.cancel()
    if is_cancelled:
        if not task.cancelled():
            task.exception()  # read the error, because no caller waits for it any more
        raise asyncio.CancelledError
    return task.result()

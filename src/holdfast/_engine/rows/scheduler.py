"""What a supervisor does for users' own tables: it enqueues runs of their handlers, and resets rows of dead workers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from holdfast._core.job import NewJob
from holdfast._core.policy import Backoff, Policy
from holdfast._core.table_spec import Key, RowOutcome, RowsSettings, TableSpec
from holdfast._engine.client.client import Client
from holdfast._engine.events import EventName, Events
from holdfast._engine.rows.batch_state import format_keys
from holdfast._engine.rows.tables import Tables
from holdfast._engine.service import Service
from holdfast._ports.clock import Randomness
from holdfast._ports.table import Refusal, ResetRow, States, Table

PAUSE = 0.05
"""Seconds between two full batches of a watchdog: others want to write too."""
PRUNING = 60.0
"""Seconds between two looks for rows to delete, and for rows to report."""
DUE_TIMEOUT = 2.0
"""Seconds for all tables together to answer whether rows are due, before the watch over the workers goes on."""
TRIES = 3
RETENTION = 3600.0
"""Seconds for which runs are kept: there may be one every few seconds."""

Step = Callable[[], Coroutine[Any, Any, float]]


class TableJobs:
    """The steps of one table. A failure of its database affects no other table."""

    def __init__(self, settings: RowsSettings, tables: Tables, client: Client, *, chance: Randomness, events: Events) -> None:
        self.settings = settings
        self._tables, self._client, self._chance, self._events = tables, client, chance, events
        self._adopted, self._undone, self._reset = frozenset[Key](), frozenset[Key](), frozenset[Key]()
        self._past = 0

    async def enqueue_runs(self) -> float:
        """Enqueue runs where rows are due; those that wait or run already are not enqueued again."""
        await enqueue_runs(await self._tables.verified(self.settings), self.settings, self._client, self._chance)
        return self.settings.interval

    async def has_due(self) -> bool:
        """Return whether rows are due."""
        return await (await self._tables.verified(self.settings)).has_due()

    async def reset(self) -> float:
        """Reset one batch of rows that their owners have had for too long; return the seconds until the next batch.

        After a full batch the next follows soon. A row that is found again although it was just reset has been changed back, by a
        trigger or another program. The next batch skips as many rows, so that they do not block the others. After a batch that is
        not full, the search begins at the first row again."""
        table = await self._tables.verified(self.settings)
        error: Exception | None = None
        try:
            adopts_more = await self._adopt(table)
        except Exception as refusal:  # it must not prevent the reset of other rows
            adopts_more, error = False, refusal
        resets_more = await self._reset_stuck(table)
        if error is not None:
            raise error
        return PAUSE if adopts_more or resets_more else self.settings.interval

    async def _adopt(self, table: Table) -> bool:
        watch = self.settings.watch
        with telling_of_refused(table, self._events):
            adopted = frozenset(await table.stamp_unstamped(watch.batch))
        again, self._adopted = self._adopted & adopted, self._adopted or adopted
        self._undone |= again
        return len(adopted) >= watch.batch and not again

    async def _reset_stuck(self, table: Table) -> bool:
        watch = self.settings.watch
        with telling_of_refused(table, self._events):
            found = await table.reset(watch.batch, self._past)
        emit_reset(watch, found, self._events)
        before, self._reset = self._reset, frozenset(each.key for each in found)
        is_full = len(found) >= watch.batch
        self._past = self._past + len(before & self._reset) if is_full else 0
        return is_full

    async def look(self) -> float:
        """Report rows in progress that no watchdog can judge, or whose stamp does not stay."""
        watch, undone = self.settings.watch, self._undone
        self._adopted = self._undone = frozenset()
        if undone:
            self._events.emit(
                EventName.ROWS_UNDONE, rows=watch.name, count=len(undone), keys=format_keys(sorted(undone, key=str))
            )
        if keys := await (await self._tables.verified(self.settings)).unreadable(watch.batch):
            self._events.emit(EventName.ROWS_UNREADABLE, rows=watch.name, count=len(keys), keys=format_keys(keys))
        return PRUNING

    async def prune(self) -> float:
        """Delete a batch of rows that have been done for long enough."""
        watch = self.settings.watch
        table = await self._tables.verified(self.settings)
        with telling_of_refused(table, self._events):
            count = await table.prune(watch.batch)
        if count:
            self._events.emit(EventName.ROWS_PRUNED, rows=watch.name, count=count)
        return PAUSE if count >= watch.batch else PRUNING


class RowsScheduler:
    """The steps of all tables that a supervisor's workers know."""

    def __init__(
        self, tables: Tables, client: Client, *, serve: Callable[[str, Step], Service], chance: Randomness, events: Events
    ) -> None:
        self._tables, self._client, self._serve = tables, client, serve
        self._chance, self._events = chance, events
        self._jobs: dict[RowsSettings, TableJobs] = {}
        self._services: list[asyncio.Task[None]] = []

    def watch(self, rows: Sequence[RowsSettings]) -> None:
        """Start the steps of these tables, if not started yet: a ready worker has reported that it handles them."""
        for settings in rows:
            if settings not in self._jobs:
                jobs = TableJobs(settings, self._tables, self._client, chance=self._chance, events=self._events)
                self._jobs[settings] = jobs
                steps = [("enqueue runs", jobs.enqueue_runs), ("reset", jobs.reset), ("look", jobs.look)]
                steps += [("prune", jobs.prune)] if settings.watch.retention is not None else []
                served = [self._serve(f"{verb} {settings.task}", step) for verb, step in steps]
                self._services += [asyncio.create_task(each.run()) for each in served]

    def looks(self) -> dict[str, Callable[[], Awaitable[States]]]:
        """Return how to count the rows of each table, by its name."""
        return {settings.watch.name: self._tables.of(settings).states for settings in self._jobs}

    async def is_needed(self) -> bool:
        """Return whether rows are due; true also if a database does not answer."""
        try:
            async with asyncio.timeout(DUE_TIMEOUT):
                return any([await jobs.has_due() for jobs in self._jobs.values()])
        except Exception:
            return True

    async def end(self) -> None:
        """Stop all steps, and close the tables."""
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        await self._tables.close()


async def enqueue_runs(table: Table, settings: RowsSettings, client: Client, chance: Randomness) -> None:
    """Enqueue runs if rows are due."""
    if await table.has_due():
        await client.enqueue(runs_of(settings, chance))


async def enqueue_all_runs(rows: Sequence[RowsSettings], tables: Tables, client: Client, chance: Randomness) -> None:
    """Enqueue runs for each table of an App that has claimable rows."""
    for settings in rows:
        await enqueue_runs(await tables.verified(settings), settings, client, chance)


def runs_of(settings: RowsSettings, chance: Randomness) -> list[NewJob]:
    """Return one run for each slot of ``concurrency``; its unique key prevents a second run for the slot."""
    return [
        NewJob(
            id=chance.uuid7(),
            task=settings.task,
            payload=b"{}",
            policy=policy_of(settings),
            queue=settings.queue,
            unique_key=f"{settings.task}#{slot}",
        )
        for slot in range(settings.concurrency)
    ]


def policy_of(settings: RowsSettings) -> Policy:
    """Return the policy of runs.

    A run that fails keeps its key until it is tried again, an interval later. Else each supervisor would enqueue the next at once,
    and a handler that cannot work would be called as often as there are supervisors.
    """
    return Policy(max_attempts=TRIES, backoff=Backoff.fixed(settings.interval), retention=RETENTION)


@contextmanager
def telling_of_refused(table: Table, events: Events, job: UUID | None = None) -> Iterator[list[Refusal]]:
    """Report which rows the database did not let these verbs change, and why: one event per verb. Yields the list, filled at the end."""
    refused: list[Refusal] = []
    try:
        yield refused
    finally:
        refused += table.refused()
        for verb in dict.fromkeys(each.verb for each in refused):
            of_verb = [each for each in refused if each.verb == verb]
            fields: dict[str, Any] = {
                "count": len(of_verb),
                "keys": format_keys([each.key for each in of_verb]),
                "error": of_verb[0].error,
            }
            events.emit(EventName.ROWS_REFUSED, rows=table.watch.name, verb=verb, **fields, job=job)


def emit_reset(watch: TableSpec, found: Sequence[ResetRow], events: Events) -> None:
    """Emit ``rows.reset`` with the rows that were reset and their oldest owner, if there are any."""
    if found:
        oldest = max(found, key=lambda each: each.held)
        events.emit(
            EventName.ROWS_RESET,
            rows=watch.name,
            count=len(found),
            failed=sum(each.to is RowOutcome.FAIL for each in found),
            oldest=oldest.held,
            owner=oldest.owner or None,
            keys=format_keys([each.key for each in found]),
        )

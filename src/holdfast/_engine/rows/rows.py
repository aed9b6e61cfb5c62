"""``pastes = app.rows("pastes", …)``: a user's own table, its handler, and the verbs that people call."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from msgspec import Struct, structs

from holdfast._core.outcome import ANSWERS
from holdfast._core.payload import annotations_of
from holdfast._core.table_spec import Key, RowsSettings, TableSpec
from holdfast._engine.client.connections import Connections
from holdfast._engine.events import Events
from holdfast._engine.rows.batch import Batch, SyncBatch
from holdfast._engine.rows.batch_state import format_keys
from holdfast._engine.rows.run import RowsRun, shielded
from holdfast._engine.rows.scheduler import emit_reset, policy_of, telling_of_refused
from holdfast._engine.rows.tables import Tables
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.registry import Registry, define
from holdfast._ports.table import Findings, ResetRow, States
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.sync import blocking

Indexes = tuple[str, ...]
Handler = TypeVar("Handler", bound=Callable[..., Any])
AsyncHandler = TypeVar("AsyncHandler", bound=Callable[[Batch], Coroutine[Any, Any, Any]])
SyncHandler = TypeVar("SyncHandler", bound=Callable[[SyncBatch], Any])


class RowsContext(Struct, frozen=True):
    """What runs of an App's handlers need besides their table."""

    registry: Registry
    tables: Tables
    connections: Connections
    events: Events


class Rows:
    """A table with a status column, whose rows a handler finishes, and which supervisors watch over.

    >>> @pastes.handler  # doctest: +SKIP
    ... async def delete(batch: Batch) -> None:
    ...     await batch.done(batch.keys)
    """

    def __init__(self, settings: RowsSettings, surroundings: RowsContext) -> None:
        self.settings, self._surroundings = settings, surroundings
        self._has_handler = False

    def __repr__(self) -> str:
        return f"<rows {self.name}>"

    @property
    def name(self) -> str:
        """The name of the declaration; its runs are jobs of the task ``rows.<name>``."""
        return self._watch.name

    @property
    def has_handler(self) -> bool:
        """Whether a handler finishes its rows; without one, no supervisor watches over them either."""
        return self._has_handler

    @property
    def _watch(self) -> TableSpec:
        return self.settings.watch

    @overload
    def handler(self, function: AsyncHandler, /) -> AsyncHandler: ...
    @overload
    def handler(self, function: SyncHandler, /) -> SyncHandler: ...
    def handler(self, function: Handler, /) -> Handler:
        """Register the function that finishes batches: ``async def`` with a ``Batch``, or ``def``, in a thread, with a ``SyncBatch``.

        At its end the run releases the rows that it has neither finished nor released. When it raises, the run does so too, and its
        job is tried again with fewer rows. A batch of one row that raises the third error leaves that row in progress until
        ``stale_after`` has passed.
        """
        settings = self.settings
        if problems := _problems_of_handler(function):
            raise ConfigurationError([f"rows {self.name}: {problem}" for problem in problems])
        run = self._async_run(function) if inspect.iscoroutinefunction(function) else self._sync_run(function)
        definition = structs.replace(define(run, name=settings.task, queue=settings.queue), policy=policy_of(settings))
        self._surroundings.registry.add(structs.replace(definition, rows=settings))
        self._has_handler = True
        return function

    async def ainspect(self) -> Findings:
        """Return what prevents the declaration from working, warnings, and missing indexes; change nothing."""
        return await self._surroundings.tables.of(self.settings).inspect()

    async def astates(self) -> States:
        """Return the state of the table: rows by status, how many are due and stuck, and which owners have them."""
        return await self._surroundings.tables.of(self.settings).states()

    async def areset(self) -> list[ResetRow]:
        """Reset now all rows that owners have had for longer than ``stale_after``; supervisors do that by themselves."""
        table, events, found = (
            await self._surroundings.tables.verified(self.settings),
            self._surroundings.events,
            list[ResetRow](),
        )
        # Once more than there are rows would be needed only where a trigger takes the stamp back.
        passes = sum((await table.states()).rows.values()) // self._watch.batch + 1
        with telling_of_refused(table, events) as refused:
            for _ in range(passes):
                if not await table.stamp_unstamped(self._watch.batch):
                    break
            taken, past = set[Key](), 0
            while some := await table.reset(self._watch.batch, past):
                new = [each for each in some if each.key not in taken]
                past += len(some) - len(new)  # a trigger put these back, and they come first again
                found += new
                taken.update(each.key for each in new)
                emit_reset(self._watch, new, events)
        if refused and not found:
            raise HoldfastError(f"rows {self.name}: {refused[0].verb}: {format_keys([refused[0].key])}: {refused[0].error}")
        # The rows may be in another database than the jobs, so that no write can do both.
        await self._surroundings.connections.client().record("reset", {"rows": self.name}, len(found))
        return found

    async def acreate_indexes(self) -> Indexes:
        """Create the indexes that ``inspect`` suggests, without blocking writers where the database can do that; return the statements."""
        return await self._surroundings.tables.of(self.settings).create_indexes()

    inspect = blocking(ainspect)
    states = blocking(astates)
    reset = blocking(areset)
    create_indexes = blocking(acreate_indexes)

    def _run(self, job: Job | SyncJob) -> RowsRun:
        around = self._surroundings
        clock, chance = around.connections.clock, around.connections.chance
        return RowsRun(self.settings, around.tables, job, clock=clock, chance=chance, events=around.events)

    def _async_run(self, handler: Callable[[Batch], Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        async def run(job: Job) -> dict[str, int]:
            run = self._run(job)
            try:
                await run.begin()
                while (holding := await run.next()) is not None:
                    with run.snooze_if_unavailable(), run.sparing_others():
                        _raise_outcome(await handler(Batch(holding, job)))
            except Exception:
                run.has_failed = True
                raise
            finally:
                await shielded(run.close)
            return run.answer

        return run

    def _sync_run(self, handler: Callable[[SyncBatch], Any]) -> Callable[..., Any]:
        def run(job: SyncJob) -> dict[str, int]:
            run = self._run(job)
            try:
                job._in_loop(run.begin())
                while (holding := job._in_loop(run.next())) is not None:
                    with run.snooze_if_unavailable(), run.sparing_others():
                        _raise_outcome(handler(SyncBatch(holding, job)))
            except Exception:
                run.has_failed = True
                raise
            finally:
                job._in_loop(run.close())
            return run.answer

        return run


def _raise_outcome(answer: object) -> None:
    """Raise an outcome that a handler returned; ignore any other value, because a run has many batches."""
    if isinstance(answer, ANSWERS):
        raise answer


def _problems_of_handler(function: object) -> list[str]:
    if not inspect.isfunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return [f"{function!r} is not a function of a batch: decorate a `def` or an `async def`"]
    wanted, kind = (Batch, "async def") if inspect.iscoroutinefunction(function) else (SyncBatch, "def")
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 1:
        return [f"a handler takes one thing, its batch: write `{kind} {function.__name__}(batch: {wanted.__name__})`"]
    hint = annotations_of(function).get(parameters[0], wanted)
    return [] if hint is wanted or hint is Any else [f"in `{kind}` write `{parameters[0]}: {wanted.__name__}`"]

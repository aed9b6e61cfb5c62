"""The composition root: App wires store, transport, clock and host. The only file that knows all packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import structs

from holdfast._core.payload import encode_payload
from holdfast._engine.client.handle import Handle, handles_of
from holdfast._engine.environment import Environment
from holdfast._engine.events import Event, Events
from holdfast._engine.operators.access import OperatorAccess
from holdfast._engine.rows.declaration import RowsDeclarations
from holdfast._engine.rows.tables import Tables
from holdfast._engine.runners.options import RunnerOptions, Runners, has_process_tasks, homes, importable
from holdfast._engine.tasks.around import around
from holdfast._engine.tasks.around_enqueue import enqueued_within
from holdfast._engine.tasks.declarations import Declarations
from holdfast._engine.tasks.decorator import TaskRegistrar
from holdfast._engine.tasks.imports import import_all, problems_of_imports
from holdfast._engine.tasks.lifespan import Lifespan, problems_of_lifespan
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.registry import Registry, define, problems_of_names
from holdfast._engine.tasks.task import Task
from holdfast._engine.workflows.registrar import BlockRegistrar
from holdfast.errors import ConfigurationError, Unsupported
from holdfast.opening import connections_of, open_store, open_table, open_transport, scheme_of
from holdfast.settings import RecoverySwitches, Settings, problems_of_url
from holdfast.sync import blocking

if TYPE_CHECKING:  # a program that only enqueues does not load what runs jobs
    from holdfast._core.answers import Check, Pruned
    from holdfast._core.durations import Duration
    from holdfast._core.overview import Overview
    from holdfast._core.view import Rescued
    from holdfast._engine.client.connections import Connections
    from holdfast._engine.embedded.embedded import EmbeddedWorker
    from holdfast._engine.embedded.parts import Parts
    from holdfast._engine.worker.options import WorkerOptions
    from holdfast._engine.workflows.definition import WorkflowDefinition
    from holdfast._engine.workflows.groups import TaskGroup
    from holdfast._ports.backup import Backup
    from holdfast._ports.host import RunnerHost
    from holdfast._ports.store import Store
    from holdfast._ports.transport import Transport
    from holdfast.transports.inprocess import Listener

Wrapper = TypeVar("Wrapper", bound=Callable[..., object])
Subscriber = TypeVar("Subscriber", bound=Callable[[Event], object])


class App(TaskRegistrar, BlockRegistrar, RowsDeclarations, Declarations, OperatorAccess):
    """Tasks, and the store their jobs live in. Opens nothing until first used.

    >>> app = App("memory://")
    >>> @app.task
    ... def resize(path: str, width: int = 800) -> str: ...
    >>> handle = resize.enqueue("a.png")
    >>> handle.get().payload
    {'path': 'a.png'}
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        ttl: Duration = "30s",
        beat: Duration | None = None,
        margin: Duration | None = None,
        recovery_interval: Duration = "5s",
        poll_interval: Duration = "1s",
        max_block: Duration = "5m",
        grace: Duration = "20s",
        reconcile: Literal["process", "hostname", "off"] = "process",
        transport: str | None = None,
        schema: str = "holdfast",
        pooler: Literal["transaction"] | None = None,
        imports: Sequence[str] = (),
        lifespan: Callable[[App], AbstractAsyncContextManager[Any]] | None = None,
        runners: Runners | None = None,
        recovery: RecoverySwitches | None = None,
        beat_history: Duration = "24h",
        claimed_within: Duration | None = None,
        progress_every: Duration = "1s",
    ) -> None:
        # size: two lines for each setting, one to take it and one to hand it on
        url = url or os.environ.get("HOLDFAST_URL")
        problems = [] if url is None or url == "" else problems_of_url(url, pooler)
        problems += [*problems_of_imports(imports), *problems_of_lifespan(lifespan)]
        problems += [] if isinstance(runners, Runners | None) else [f"runners={runners!r}: pass Runners(max_jobs=1000, …)"]
        try:
            self.settings = Settings.of(
                url,
                ttl=ttl,
                beat=beat,
                margin=margin,
                recovery_interval=recovery_interval,
                poll_interval=poll_interval,
                max_block=max_block,
                grace=grace,
                reconcile=reconcile,
                transport=transport,
                schema=schema,
                pooler=pooler,
                recovery=recovery,
                beat_history=beat_history,
                claimed_within=claimed_within,
                progress_every=progress_every,
            )
        except ConfigurationError as error:
            problems += error.problems
        if problems:
            raise ConfigurationError(problems)
        self.registry = Registry()
        self.events = Events()
        self.runners = Runners() if runners is None else runners
        self._imports, self._lifespan = tuple(imports), lifespan
        self._listeners: list[Listener] = []
        self._connections = connections_of(self.settings, self.events, self._open_transport)
        self._tables = Tables(open_table)

    def _register(self, handler: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any, ...]:
        definition = define(handler, **options)
        self.registry.add(definition)
        return Task(definition, self._connections)

    def _workflow_connections(self) -> Connections:
        return self._connections

    def include(self, group: TaskGroup) -> None:
        """Take in the tasks of a group, those it gets later too. ``ConfigurationError`` if another App has it."""
        group.join(self.registry, self._connections)

    def load(self) -> None:
        """Import the modules that ``imports`` names, so that their tasks are registered; every process that runs jobs does it first."""
        import_all(self._imports)

    def lifespan(self) -> Lifespan:
        """Make a fresh lifespan, for one worker."""
        opening = self._lifespan
        return Lifespan(None if opening is None else lambda: opening(self))

    async def aenqueue(self, task: str, /, **payload: object) -> Handle:
        """Enqueue by name, for producers that do not have the code; checked as far as this App knows the task."""
        if (known := task_of(self, task)) is not None:
            return (await known.aenqueue(**payload)).plain()
        if problems := problems_of_names(task, "default", 0):
            raise ConfigurationError(problems)
        job = Options().new_job(self._connections.chance.uuid7(), task, encode_payload(task, payload))
        with enqueued_within(self._connections.around_enqueue, [job]) as jobs:
            answer = await self._connections.client().enqueue(jobs)
        return handles_of(jobs, answer, self._connections.client)[0]

    def around_enqueue(self, function: Wrapper) -> Wrapper:
        """Run a generator function around every enqueue of this App, in the caller; it may change headers, key, priority and tags.

        What it raises reaches the caller, and nothing is enqueued. An exception of the enqueue is thrown into it and leaves it again.
        The jobs of schedules are enqueued by supervisors, which load no code of yours: it does not run for them.

        >>> @app.around_enqueue  # doctest: +SKIP
        ... def tenant(job: NewJobView):
        ...     job.headers["tenant"] = current_tenant()
        ...     yield
        """
        self._connections.around_enqueue.append(around(function, name="around_enqueue", may_be_async=False))
        return function

    def around_run(self, function: Wrapper) -> Wrapper:
        """Run a generator function around every handler and the reading of its payload, in the order of registration.

        A ``def`` runs in the handler's own thread or process, an ``async def`` on the event loop; handlers see the context variables
        that they set. What it raises is the attempt's failure. The handler's exception is thrown into it and leaves it again.

        >>> @app.around_run  # doctest: +SKIP
        ... def scope(job: Job | SyncJob):
        ...     with use_tenant(job.headers["tenant"]):
        ...         yield
        """
        self.registry.around_run.append(around(function, name="around_run", may_be_async=True))
        return function

    def on(self, event: str) -> Callable[[Subscriber], Subscriber]:
        """Have a function called for each event of that name (``"*"``: all); it can never break the engine.

        >>> @app.on("job.rescued")  # doctest: +SKIP
        ... def tell(event): print(event.fields["job"])
        """

        def subscribe(callback: Subscriber) -> Subscriber:
            self.events.on(event, callback)
            return callback

        return subscribe

    def worker(
        self,
        *,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        prefetch: int | None = None,
        prefetch_time: Duration = "100ms",
    ) -> EmbeddedWorker:
        """Run a worker inside the running event loop, from entry to exit, for web applications and the like.

        At exit the worker drains: running jobs get the App's ``grace``. A separate thread renews the lease, so a blocked loop
        keeps its jobs. Holdfast never kills this process and handles no signal here: code that cannot be cancelled runs on,
        fenced. ``holdfast worker`` ends such code, and is the better choice for jobs that compute. A job whose next crash would
        be its last runs here too, beside the others, and not isolated in a separate process. ``prefetch`` and ``prefetch_time``:
        how many jobs to claim ahead of free slots, as in ``holdfast worker``.

        >>> async with app.worker(concurrency=10, queues=["mail"]):  # doctest: +SKIP
        ...     await serve()
        """
        from holdfast._engine.embedded.embedded import EmbeddedWorker
        from holdfast._engine.embedded.parts import options_of, require_work

        self.load()
        options = options_of(concurrency, queues, prefetch, prefetch_time)
        require_work(self.registry, self.settings.timing)
        parts = self._parts(options, self._another_store)
        return EmbeddedWorker(structs.replace(parts, runner_host=self._runner_host(), runners=self.runners))

    async def arun_due(self, *, limit: int = 10_000, concurrency: int = 1) -> int:
        """Run all jobs that are due, here and now, and return how many that were: for tests, which then need no worker.

        They run one after the other, in the order in which a worker would claim them, and those that they enqueue or
        retry for now run too; jobs due later do not. What handlers raise is recorded on their jobs, never raised here.
        ``limit`` ends it when a job enqueues itself endlessly. ``concurrency``: for jobs that wait for each other.
        Rows and ticks of schedules that are due when it begins are worked off, too, and workflows past their deadline end.

        >>> app.run_due()  # doctest: +SKIP
        3
        """
        from holdfast._engine.embedded.parts import options_of
        from holdfast._engine.embedded.run_due import RunDue
        from holdfast._engine.rows.scheduler import enqueue_all_runs
        from holdfast._engine.store_defaults import has_workflows
        from holdfast._engine.supervisor.declared_limits import store_declared
        from holdfast._engine.supervisor.scheduler import fire_due

        self.load()
        options = options_of(concurrency, None)
        if type(limit) is not int or limit < 1:
            raise ConfigurationError([f"limit={limit!r}: use an integer from 1"])
        await enqueue_all_runs(self.registry.rows_tasks(), self._tables, self._connections.client(), self._connections.chance)
        parts = self._parts(options, lambda _: self._connections.store)
        await store_declared(self._connections.store, self.registry.declared())
        await fire_due(parts.environment(self._connections.store, self.events), self.registry.schedules())
        if has_workflows(self._connections.store):
            await self._connections.client().revive()
        return await RunDue(parts).run(limit)

    async def amigrate(self) -> tuple[int, int]:
        """Bring the store's schema up to date; return the versions before and after."""
        return await self._connections.store.migrate()

    async def acreate_roles(self) -> tuple[str, ...]:
        """Make roles of the database for users who need less than everything: to enqueue, to work, to read, to own. Return their names.

        Grant them to users who log in. Repeatable, and to be repeated after ``migrate``.

        >>> app.create_roles()  # doctest: +SKIP
        ('holdfast_enqueue', 'holdfast_work', 'holdfast_read', 'holdfast_own')
        """
        from holdfast._ports.store import HasRoles

        store = self._connections.store
        if not isinstance(store, HasRoles):
            raise Unsupported(f"the {store.capabilities.name} store has no users, and so no roles")
        return await store.create_roles()

    async def acheck(self) -> tuple[Check, ...]:
        """Find what is right and wrong with settings, tasks, store, workers and queues, all at once."""
        from holdfast._engine.operators.check import check, check_rows, check_transport

        found = await check(self._connections.store, self.settings, self.registry)
        hints = await check_transport(self._open_transport, self.settings, self._connections.chance.uuid4())
        return (*found, *hints, *await check_rows(self.watches.values()))

    async def aoverview(self) -> Overview:
        """Return what the store shows now, and what you should do about it: ``needs``, the most urgent first.

        >>> for need in app.overview().needs: print(need.text, need.step)  # doctest: +SKIP
        The queue imports has been paused for 2 h, and 1204 jobs wait. holdfast queues resume imports
        """
        from holdfast._engine.operators.overview import overview

        return await overview(self._connections.client())

    async def aprune(self) -> Pruned:
        """Delete now what supervisors delete gradually: jobs past their retention, and old receipts; return how much that was."""
        return await self._connections.client().prune()

    async def abackup(self, path: str | os.PathLike[str]) -> Backup:
        """Copy the store, which may be in use, to a new file, and verify the copy. ``Unsupported`` if the store is not a file."""
        from holdfast._engine.operators.backup import backup

        return await backup(self._connections.store, path)

    async def aclose(self) -> None:
        """Close what this App has opened for the running event loop; the next use opens it again."""
        await self._tables.close()
        await self._connections.close()

    enqueue = blocking(aenqueue)
    migrate = blocking(amigrate)
    create_roles = blocking(acreate_roles)
    check = blocking(acheck)
    overview = blocking(aoverview)
    prune = blocking(aprune)
    backup = blocking(abackup)
    close = blocking(aclose)
    run_due = blocking(arun_due)

    def _move(self, settings: Settings) -> None:
        """Move to another store: a crash test must not use the one in the App's settings."""
        self._connections.move(settings)
        self.settings = settings

    def _parts(self, options: WorkerOptions, open_store: Callable[[Settings], Store]) -> Parts:
        from holdfast._engine.embedded.parts import Parts
        from holdfast._system.host import SystemHost

        return Parts(
            registry=self.registry,
            settings=self.settings,
            events=self.events,
            options=options,
            lifespan=self.lifespan,
            host=SystemHost(),
            clock=self._connections.clock,
            chance=self._connections.chance,
            open_store=open_store,
            open_transport=self._open_transport,
            open_table=open_table,
            tables=self._tables,
        )

    def _runner_host(self) -> RunnerHost | None:
        """Return the host for runners; ``ConfigurationError`` when another process could not import tasks with ``process=True``."""
        if not has_process_tasks(self.registry):
            return None
        from holdfast._system.runner_host import SystemRunnerHost

        target, modules = importable(self, self.registry), homes(self.registry)
        return SystemRunnerHost([RunnerOptions(target=target, modules=modules, path=tuple(sys.path)).encode()])

    def _open_transport(self, settings: Settings) -> Transport:
        is_inside = scheme_of(settings.url) == "memory" and settings.transport is None
        if not is_inside:
            return open_transport(settings)
        from holdfast.transports.inprocess import InProcessTransport

        return InProcessTransport(self._listeners)

    def _another_store(self, settings: Settings) -> Store:
        """Open the store once more, with separate connections, where a store has connections."""
        return self._connections.store if scheme_of(settings.url) == "memory" else open_store(settings)

    async def _recover(self, now: bool, only: Collection[str] | None) -> Sequence[Rescued]:
        from holdfast._engine.operators.recovery_run import recover
        from holdfast._system.host import SystemHost

        switches = self.settings.recovery if only is None else RecoverySwitches.only(only)
        return await recover(self._connections, self.settings, self.events, SystemHost(), switches, now=now)


def task_of(app: App, name: str) -> Task[..., Any, ...] | WorkflowDefinition[..., Any] | None:
    """Return the App's task or workflow of that name, or None."""
    known = app.registry.get(name)
    if known is None:
        return None
    task: Task[..., Any, ...] = Task(known, app._connections)
    if known.workflow is None:
        return task
    from holdfast._engine.workflows.definition import WorkflowDefinition

    return WorkflowDefinition(task)


def tables_of(app: App) -> Tables:
    """Return the users' tables that an App has opened; its worker process inspects and closes them."""
    return app._tables


def environment_of(app: App) -> Environment:
    """Return the open store of an App and what works with it, for a broker that serves it."""
    connections = app._connections
    return Environment(connections.store, connections.transport, connections.clock, connections.chance, app.events)

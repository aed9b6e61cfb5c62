"""The parts and options of a worker inside the user's process."""

import os
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from holdfast._core.durations import Duration, seconds
from holdfast._core.prefetch import problems_of_prefetch
from holdfast._core.requests import IsolatedJobs
from holdfast._core.text import shortened
from holdfast._core.timing import LeaseTiming
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._engine.rows.tables import OpenTable, Tables, no_tables
from holdfast._engine.runners.options import Runners
from holdfast._engine.tasks.lifespan import Lifespan
from holdfast._engine.tasks.registry import NAME, Registry
from holdfast._engine.worker.options import WorkerOptions
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.host import Host, RunnerHost
from holdfast._ports.store import Store
from holdfast._ports.transport import Transport
from holdfast.errors import ConfigurationError
from holdfast.settings import Settings

MOST_THREADS, THREADS_PER_CORE = 32, 4


class Parts(Struct, frozen=True, kw_only=True):
    """An App's parts. ``open_store`` returns a store with separate connections, if it is one that has connections."""

    registry: Registry
    settings: Settings
    events: Events
    options: WorkerOptions
    lifespan: Callable[[], Lifespan]
    host: Host
    clock: Clock
    chance: Randomness
    open_store: Callable[[Settings], Store]
    open_transport: Callable[[Settings], Transport]
    open_table: OpenTable = no_tables
    tables: Tables | None = None
    runner_host: RunnerHost | None = None
    runners: Runners | None = None

    def environment(self, store: Store, events: Events) -> Environment:
        """Return an environment for a worker: this store, and a newly opened transport."""
        return Environment(store, self.open_transport(self.settings), self.clock, self.chance, events)


def options_of(
    concurrency: int | None, queues: Sequence[str] | None, prefetch: int | None = None, prefetch_time: Duration = 0.1
) -> WorkerOptions:
    """Return checked options; raise ``ConfigurationError`` with every problem.

    A worker in the user's process also runs isolated attempts, because it has no separate worker to run them in.
    """
    problems = []
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        problems.append(f"concurrency={concurrency!r}: use a whole number from 1, or None for the default")
    if isinstance(queues, str) or not isinstance(queues, Sequence | None):
        problems.append(f"queues={queues!r}: use a list of names, for example queues=['mail'], or None for all")
    else:
        wrong = [name for name in queues or () if not isinstance(name, str) or not NAME.fullmatch(name)]
        problems += [f"queues: {shortened(repr(name))} is no queue: use 1 to 200 letters, digits and _ . : -" for name in wrong]
    try:
        ahead = seconds(prefetch_time)
        problems += problems_of_prefetch(prefetch, ahead)
    except ValueError as error:
        problems.append(f"prefetch_time: {error}")
    if problems:
        raise ConfigurationError(problems)
    threads = min(MOST_THREADS, THREADS_PER_CORE * (os.cpu_count() or 1))
    return WorkerOptions(
        concurrency=concurrency or 100,
        threads=concurrency or threads,
        runners=min(concurrency or 100, os.cpu_count() or 1),
        queues=None if queues is None else tuple(queues),
        isolated=IsolatedJobs.INCLUDE,
        prefetch=prefetch,
        prefetch_time=ahead,
    )


def require_work(registry: Registry, timing: LeaseTiming) -> None:
    """Raise ``ConfigurationError`` with every reason why no job could be run."""
    problems = registry.problems(timing)
    if not registry.names():
        problems.append("there are no tasks: decorate a function with @app.task, or name the modules that do in App(imports=…)")
    if problems:
        raise ConfigurationError(problems)


def without_processes(registry: Registry) -> Registry:
    """Return the same tasks without ``process=True``: their handlers run in threads here, which start faster and are never killed."""
    made = Registry()
    definitions = (registry.get(name) for name in registry.names())
    made.take_over(registry)
    made.around_run = registry.around_run
    made.add(*(structs.replace(task, process=False) for task in definitions if task is not None))
    return made

"""A worker process: ``python -m holdfast._processes.worker --channel FD --guard FD --stacks FD module:app OPTIONS``.

Only a supervisor starts it. It stays small: neither click nor rich is imported here.
"""

import asyncio
import atexit
import os
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import msgspec
from msgspec import Struct

from holdfast._core.prefetch import problems_of_prefetch
from holdfast._core.text import shortened
from holdfast._engine import messages
from holdfast._engine.environment import Environment
from holdfast._engine.runners.forked import FORKED
from holdfast._engine.runners.options import RunnerOptions, has_process_tasks
from holdfast._engine.service import run_until_done
from holdfast._engine.tasks.registry import NAME
from holdfast._engine.worker.options import LogErrors, LogJobs, WorkerOptions
from holdfast._engine.worker.worker import Worker
from holdfast._processes.loading import load_app
from holdfast._processes.logs import configure_logs
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast._system.host import SystemSupervisorLink
from holdfast._system.runner_host import SystemRunnerHost
from holdfast.app import App, tables_of
from holdfast.errors import ConfigurationError
from holdfast.opening import open_store, open_transport

FAILED, USAGE = 1, 2
MOST_THREADS, THREADS_PER_CORE = 32, 4


class ProcessOptions(Struct, frozen=True):
    """The options of ``holdfast worker`` that each of its workers needs."""

    worker: WorkerOptions
    log_level: str
    log_format: str

    @classmethod
    def of(
        cls,
        concurrency: int | None,
        queues: str | None,
        log_level: str,
        log_format: str,
        *,
        prefetch: int | None = None,
        prefetch_time: float = 0.1,
        log_jobs: str = "auto",
        log_errors: str = "full",
        tallies: bool = True,
    ) -> "ProcessOptions":
        """Parse the options as typed; raises ``ConfigurationError`` when one is not valid."""
        names = None if queues is None else tuple(name.strip() for name in queues.split(","))
        wrong = [name for name in names or () if not NAME.fullmatch(name)]
        problems = [
            f"--queues: {shortened(repr(name))} is not a queue name: use letters, digits and _ . : -, with commas between names"
            for name in wrong
        ]
        problems += problems_of_prefetch(prefetch, prefetch_time)
        if problems:
            raise ConfigurationError(problems)
        threads = min(MOST_THREADS, THREADS_PER_CORE * (os.cpu_count() or 1))
        runners = min(concurrency or 100, os.cpu_count() or 1)
        worker = WorkerOptions(
            concurrency=concurrency or 100,
            threads=concurrency or threads,
            runners=runners,
            queues=names,
            prefetch=prefetch,
            prefetch_time=prefetch_time,
            log_jobs=LogJobs(log_jobs),
            log_errors=LogErrors(log_errors),
            tallies=tallies,
        )
        return cls(worker, log_level, log_format)

    @property
    def queues(self) -> tuple[str, ...] | None:
        """The queues to serve; ``None`` means all."""
        return self.worker.queues


def main(arguments: Sequence[str]) -> int:
    """Serve as one worker until the supervisor ends it, and return the exit code."""
    passed = dict(zip(arguments[0:6:2], map(int, arguments[1:6:2]), strict=True))
    target, options = arguments[6], msgspec.json.decode(arguments[7], type=ProcessOptions)
    link = SystemSupervisorLink.adopt(passed["--channel"], passed["--guard"], passed["--stacks"])
    # A signal for the whole group or cgroup is the supervisor's to handle: it drains us. (A handler rather than
    # SIG_IGN, because programs that jobs start would inherit that.)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave_it_to_the_supervisor)
    configure_logs(options.log_level, options.log_format)
    try:
        app = load_app(target)
        _require_runnable(app, target)
        store, transport = open_store(app.settings), open_transport(app.settings)
    except ConfigurationError as error:
        link.channel.send(messages.encode(messages.StartRefused(tuple(error.problems))))
        return USAGE
    link.set_lease_clock(runs_through_suspend=store.capabilities.lease_clock != "kernel")
    if options.worker.tallies:
        app.events.tallied()
    loop = WorkerLoop()
    asyncio.set_event_loop(loop)
    worker = Worker(
        link,
        Environment(store, transport, SystemClock(), SystemRandomness(), app.events),
        registry=app.registry,
        settings=app.settings,
        options=options.worker,
        tables=tables_of(app),
        runner_host=_runner_host(app, target, options),
        runners=app.runners,
        lifespan=app.lifespan(),
    )
    run_until_done(loop, worker.run())
    run_until_done(loop, tables_of(app).close())
    run_until_done(loop, store.close())
    return 0


def _runner_host(app: App, target: str, options: ProcessOptions) -> SystemRunnerHost | None:
    if not has_process_tasks(app.registry):
        return None
    return SystemRunnerHost([RunnerOptions(target=target, log_level=options.log_level, log_format=options.log_format).encode()])


class WorkerLoop(asyncio.SelectorEventLoop):
    """An event loop that ends a forked child which comes back into it.

    A handler's child that awaits would otherwise run the handlers of its parent a second time, and read its parent's pipes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._owner = os.getpid()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # Callbacks that the parent was about to run in this turn are not the child's; the loop still expects that many calls.
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        for place in range(len(ready)):
            ready[place] = asyncio.Handle(_nothing, (), self)

    def _run_once(self) -> None:
        if os.getpid() != self._owner:
            os._exit(FORKED)
        super()._run_once()  # type: ignore[misc]


def _nothing() -> None:
    """Replace a callback of the parent: the child must not run it."""


def _require_runnable(app: App, target: str) -> None:
    problems = []
    if app.settings.url.startswith(("memory://", "memory-object://")):
        problems.append(
            f"{app.settings.url} lives inside one process, and a worker is another: use a store such as sqlite:///jobs.db"
        )
    if not app.registry.names():
        problems.append(f"{target} has no tasks: decorate a function with @app.task in this module or one that it imports")
    problems += app.registry.problems(app.settings.timing)
    if problems:
        raise ConfigurationError(problems)


def leave_it_to_the_supervisor(number: int, frame: FrameType | None) -> None:
    """Ignore a signal: the supervisor has received it too, or will."""


def leave(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> NoReturn:
    """Run ``main`` and then exit the process with its code; do not wait for threads of user code."""
    try:
        code = main(arguments)
    except BaseException:
        with suppress(OSError):  # the reading end may be closed
            traceback.print_exc()
        code = FAILED
    # The exit handlers of user code have run. Its threads are not waited for: one that does not stop, or was
    # never meant to, must not keep the process, for whose end the supervisor waits.
    atexit._run_exitfuncs()
    with suppress(OSError, AttributeError):  # full, or closed from the start
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main, sys.argv[1:])

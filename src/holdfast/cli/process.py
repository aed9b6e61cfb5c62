"""A worker process: ``python -m holdfast.cli.process --channel FD --guard FD --stacks FD module:app OPTIONS``.

Only a supervisor starts it. It stays small: neither click nor rich is imported here.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import msgspec
from msgspec import Struct

from holdfast._engine import messages
from holdfast._engine.registry import NAME
from holdfast._engine.worker import Worker, WorkerOptions, run_until_done
from holdfast._ports.clock import SystemChance, SystemClock
from holdfast._ports.system_host import SystemCell
from holdfast.app import App, open_store, open_transport
from holdfast.cli.loading import load_app
from holdfast.cli.logs import configure_logs
from holdfast.errors import ConfigurationError

USAGE = 2
MOST_THREADS, THREADS_PER_CORE = 32, 4


class ProcessOptions(Struct, frozen=True):
    """What ``holdfast worker`` was told and each of its workers must know."""

    worker: WorkerOptions
    log_level: str
    log_format: str

    @classmethod
    def of(cls, concurrency: int | None, queues: str | None, log_level: str, log_format: str) -> "ProcessOptions":
        """Options as typed; ``ConfigurationError`` when a queue cannot be one."""
        names = None if queues is None else tuple(name.strip() for name in queues.split(","))
        wrong = [name for name in names or () if not NAME.fullmatch(name)]
        if wrong:
            raise ConfigurationError(
                [f"--queues: {name!r} is no queue: letters, digits and _ . : -, commas between" for name in wrong]
            )
        threads = min(MOST_THREADS, THREADS_PER_CORE * (os.cpu_count() or 1))
        worker = WorkerOptions(concurrency=concurrency or 100, threads=concurrency or threads, queues=names)
        return cls(worker, log_level, log_format)

    @property
    def queues(self) -> tuple[str, ...] | None:
        """The queues to serve; ``None``: all."""
        return self.worker.queues


def main(arguments: Sequence[str]) -> int:
    """Live as one worker; the exit code."""
    passed = dict(zip(arguments[0:6:2], map(int, arguments[1:6:2]), strict=True))
    target, options = arguments[6], msgspec.json.decode(arguments[7], type=ProcessOptions)
    cell = SystemCell.adopt(passed["--channel"], passed["--guard"], passed["--stacks"], "monotonic")
    # A signal for the whole group or cgroup is the supervisor's to handle: it drains us. (A handler rather than
    # SIG_IGN, because programs that jobs start would inherit that.)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave_it_to_the_supervisor)
    configure_logs(options.log_level, options.log_format)
    try:
        app = load_app(target)
        _require_runnable(app, target)
    except ConfigurationError as error:
        cell.channel.send(messages.encode(messages.Refused(tuple(error.problems))))
        return USAGE
    _work(app, cell, options.worker)
    return 0


def _work(app: App, cell: SystemCell, options: WorkerOptions) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    store = open_store(app.settings)
    worker = Worker(
        cell=cell,
        store=store,
        transport=open_transport(app.settings),
        registry=app.registry,
        settings=app.settings,
        clock=SystemClock(),
        chance=SystemChance(),
        events=app.events,
        options=options,
        limits=cell.limits,
    )
    run_until_done(loop, worker.run())
    run_until_done(loop, store.close())


def _require_runnable(app: App, target: str) -> None:
    problems = []
    if app.settings.url == "memory://":
        problems.append("memory:// lives inside one process, and a worker is another: use a store such as sqlite:///jobs.db")
    if not app.registry.names():
        problems.append(f"{target} has no tasks: decorate a function with @app.task in this module or one that it imports")
    if problems:
        raise ConfigurationError(problems)


def _leave_it_to_the_supervisor(number: int, frame: FrameType | None) -> None:
    """It has got the signal too, or will."""


if __name__ == "__main__":
    code = main(sys.argv[1:])
    logging.shutdown()
    sys.stdout.flush()
    # Threads of handlers that do not stop must not keep the process: its supervisor waits for its end.
    os._exit(code)

"""A runner process: ``python -m holdfast._processes.runner --channel FD --stacks FD --worker PID OPTIONS``.

Only a worker starts it. It stays small, as ``holdfast._processes.worker`` does.
"""

import signal
import sys
from collections.abc import Sequence

from holdfast._engine.runners.options import RunnerOptions
from holdfast._engine.runners.process import RunnerProcess
from holdfast._engine.tasks.imports import import_module
from holdfast._processes.loading import load_app
from holdfast._processes.logs import configure_logs
from holdfast._processes.worker import USAGE, leave, leave_it_to_the_supervisor
from holdfast._system.runner_host import SystemWorkerLink
from holdfast.errors import ConfigurationError
from holdfast.opening import open_store


def main(arguments: Sequence[str]) -> int:
    """Serve as one runner until the worker ends it, and return the exit code."""
    passed = dict(zip(arguments[0:6:2], map(int, arguments[1:6:2]), strict=True))
    cell = SystemWorkerLink.adopt(passed["--channel"], passed["--stacks"], passed["--worker"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave_it_to_the_supervisor)
    options = RunnerOptions.decode(arguments[6])
    configure_logs(options.log_level, options.log_format)
    runner = RunnerProcess(cell)
    try:
        if options.path is not None:
            sys.path[:] = options.path
        app = load_app(options.target)
        for module in options.modules:
            import_module(module, "to import, though a handler with process=True is in it")
        app.load()
        runner.run(
            app.registry,
            app.lifespan(),
            open_store=lambda: open_store(app.settings),
            idle=app.settings.timing.margin,
            longest_nap=app.settings.timing.beat,
            on_start=app.runners.on_start,
        )
    except ConfigurationError as error:
        runner.refuse(error)
        return USAGE
    return 0


if __name__ == "__main__":
    leave(main, sys.argv[1:])

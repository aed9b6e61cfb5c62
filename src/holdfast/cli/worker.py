"""``holdfast worker``: the supervisor's process. It never imports the user's module; its workers do."""

import os
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast._core.text import printable
from holdfast._processes.logs import ERRORS, JOBS, LEVELS
from holdfast.cli.options import DURATION, Count, app_options
from holdfast.cli.stderr import discard_unwritable, open_missing, write_stderr
from holdfast.cli.systems import require_workers

if TYPE_CHECKING:
    from holdfast._engine.events import Events
    from holdfast._engine.supervisor.supervisor import Supervisor, SupervisorOptions
    from holdfast._ports.clock import Clock
    from holdfast._processes.worker import ProcessOptions
    from holdfast.cli.banner import Banner
    from holdfast.cli.reload import Changes
    from holdfast.metrics.supervised import SupervisedMetrics


@click.command()
@app_options
@click.option("--processes", type=Count(1), default=1, show_default=True, help="How many workers.")
@click.option(
    "--concurrency",
    type=Count(1),
    help="Jobs at once in each worker.  [default: 100 async handlers, 4 threads per core but at most 32]",
)
@click.option("--queues", metavar="A,B", help="Only these queues.  [default: all]")
@click.option(
    "--prefetch",
    type=Count(0),
    help="Claim at most that many short jobs ahead of free slots, on PostgreSQL and MongoDB; 0: none.  [default: the worker decides]",
)
@click.option(
    "--prefetch-time",
    type=DURATION,
    default="100ms",
    show_default=True,
    help="How much work to claim ahead, at most 0.5 s; on PostgreSQL and MongoDB.",
)
@click.option("--grace", type=DURATION, help="How long running jobs may take to end.  [default: the App's, 20s]")
@click.option("--until-empty", is_flag=True, help="End when no job it may run is left, jobs due later included.")
@click.option("--reload", is_flag=True, help="Restart the workers when a .py file below this folder has changed.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="How much to log.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people or machines."
)
@click.option(
    "--log-jobs",
    type=click.Choice(JOBS),
    default="auto",
    show_default=True,
    envvar="HOLDFAST_LOG_JOBS",
    help="Which attempts get a line; auto: each, up to 20 a second, then a summary every 10 s.",
)
@click.option(
    "--log-errors",
    type=click.Choice(ERRORS),
    default="full",
    show_default=True,
    envvar="HOLDFAST_LOG_ERRORS",
    help="Message and traceback of a failure, only where it was raised, or only its type.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve the metrics of all workers at http://HOST:PORT/metrics, for Prometheus."
)
@click.option("--metrics-store", is_flag=True, help="Add what the store holds, read every 5 s; on one worker of all.")
@click.option("--metrics-token-file", metavar="FILE", help="A token that scrapers have to send: needed beyond this machine.")
@click.pass_context
def worker(  # size: one parameter for each option
    context: click.Context,
    target: str,
    processes: int,
    concurrency: int | None,
    queues: str | None,
    grace: float | None,
    *,
    prefetch: int | None,
    prefetch_time: float,
    until_empty: bool,
    reload: bool,
    log_level: str,
    log_format: str,
    log_jobs: str,
    log_errors: str,
    metrics: str | None,
    metrics_store: bool,
    metrics_token_file: str | None,
) -> None:
    """Run the jobs of an App until Ctrl-C or SIGTERM.

    Either stops claiming and gives running jobs the grace; a second one stops their code. SIGQUIT shows stacks.
    Logs go to stderr: text for people, or one JSON object per line with event, job, task, attempt and worker.
    """
    import asyncio

    from holdfast._engine.events import Events
    from holdfast._engine.supervisor.supervisor import SupervisorOptions
    from holdfast._processes.logs import configure_logs
    from holdfast._processes.worker import ProcessOptions
    from holdfast._system.clock import SystemClock
    from holdfast._system.service_manager import this_service
    from holdfast.cli.banner import Banner
    from holdfast.cli.service_reports import ServiceReports

    require_workers()
    open_missing()
    options = ProcessOptions.of(
        *(concurrency, queues, log_level, log_format),
        prefetch=prefetch,
        prefetch_time=prefetch_time,
        log_jobs=log_jobs,
        log_errors=log_errors,
    )
    configure_logs(log_level, log_format)
    kept = SupervisorOptions(processes=processes, until_empty=until_empty, grace=grace, has_history=True)
    clock, events = SystemClock(), Events()
    banner = Banner(target, processes, options, clock.monotonic)
    make = _maker((target, options), kept, clock, events)
    metered = _metered(metrics, metrics_token_file, events, clock, reads_store=metrics_store)
    reports = ServiceReports(this_service(), processes, restarts=reload)
    reports.listen(events)
    serving = _serve(make, banner, events, _changes(clock) if reload else None, metered, partial(reports.keep_alive, clock))
    reason, code = asyncio.run(serving)
    banner.end(reason, code)
    discard_unwritable()
    context.exit(code)


def _metered(
    address: str | None, token_file: str | None, events: "Events", clock: "Clock", *, reads_store: bool
) -> "Callable[[Callable[[], Supervisor]], SupervisedMetrics] | None":
    """Return how to serve the metrics of a supervisor; count from now on, because workers learn it at their start."""
    from holdfast.errors import ConfigurationError

    if address is None:
        if reads_store or token_file is not None:
            raise ConfigurationError(["--metrics-store and --metrics-token-file: pass --metrics 127.0.0.1:9464, too"])
        return None
    from holdfast._system.host import SystemHost
    from holdfast.metrics.exposition import require_client
    from holdfast.metrics.server import MetricsAddress
    from holdfast.metrics.supervised import SupervisedMetrics

    require_client()
    where, host = MetricsAddress.of(address, token_file), SystemHost(clock)
    events.tallied()
    return lambda supervisor: SupervisedMetrics(where, events, supervisor, host, clock, reads_store=reads_store)


def _changes(clock: "Clock") -> "Changes":
    from holdfast.cli.reload import Changes

    # Byte code is distinguished by whole seconds, and a change may come sooner than that.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return Changes(Path.cwd(), clock, lambda text: write_stderr(f"error: {printable(text)}"))


def _maker(
    arguments: "tuple[str, ProcessOptions]", kept: "SupervisorOptions", clock: "Clock", events: "Events"
) -> "Callable[[], Supervisor]":
    from holdfast._engine.supervisor.supervisor import Supervisor
    from holdfast._system.clock import SystemRandomness
    from holdfast._system.host import SystemHost
    from holdfast.cli.output import to_json
    from holdfast.opening import connect, open_table

    target, options = arguments
    return lambda: Supervisor(
        host=SystemHost(clock),
        clock=clock,
        chance=SystemRandomness(),
        events=events,
        connect=connect,
        open_table=open_table,
        options=kept,
        arguments=(target, to_json(options)),
    )


async def _serve(
    make: "Callable[[], Supervisor]",
    banner: "Banner",
    events: "Events",
    changes: "Changes | None",
    metered: "Callable[[Callable[[], Supervisor]], SupervisedMetrics] | None",
    living: "Callable[[], Coroutine[None, None, None]]",
) -> tuple[str, int]:
    """Serve until the end; return the reason and the exit code."""
    import asyncio
    import signal

    from holdfast.cli.serve import WorkerCommand

    keeper = WorkerCommand(make, changes)
    banner.listen(events, lambda: keeper.supervisor)
    loop = asyncio.get_running_loop()
    ending = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    loop.add_signal_handler(signal.SIGQUIT, lambda: _show_stacks(keeper.supervisor))  # from now on any signal wakes the loop
    for number in ending:
        signal.signal(number, lambda number, _: loop.call_soon_threadsafe(keeper.end, signal.Signals(number)))
    metrics = None if metered is None else metered(lambda: keeper.supervisor).server
    if metrics is not None:
        await metrics.open()
    signs_of_life = asyncio.create_task(living())
    code = await keeper.run()
    signs_of_life.cancel()
    if metrics is not None:
        await metrics.close()
    for number in ending:  # one more signal would kill a process that has done all its work, and its exit code would show it
        signal.signal(number, signal.SIG_IGN)  # handlers of the loop would be removed first: such a signal could come in between
    return keeper.reason, code


def _show_stacks(supervisor: "Supervisor") -> None:
    import faulthandler

    write_stderr("stacks of the supervisor:")
    faulthandler.dump_traceback(sys.stderr)
    for name, stacks in supervisor.dump_stacks().items():
        write_stderr(f"stacks of worker {name}:\n{stacks}")

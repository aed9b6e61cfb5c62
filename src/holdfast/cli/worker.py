"""``holdfast worker``: the supervisor's process. It never imports the user's module; its workers do."""

from typing import TYPE_CHECKING

import click

from holdfast.cli.logs import LEVELS
from holdfast.cli.options import DURATION, TARGET

if TYPE_CHECKING:
    from holdfast._engine.supervisor import Supervisor, SupervisorOptions
    from holdfast._ports.clock import Clock
    from holdfast.cli.process import ProcessOptions

UNREACHABLE = 75


@click.command()
@TARGET
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="How many workers.")
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    help="Jobs at once in each worker.  [default: 100 async handlers, 4 threads per core but at most 32]",
)
@click.option("--queues", metavar="A,B", help="Only these queues.  [default: all]")
@click.option("--grace", type=DURATION, help="How long running jobs may take to end.  [default: the App's, 20s]")
@click.option("--until-empty", is_flag=True, help="End when no job it may run is left, jobs due later included.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def worker(
    context: click.Context,
    target: str,
    processes: int,
    concurrency: int | None,
    queues: str | None,
    grace: float | None,
    *,
    until_empty: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run the jobs of an App until Ctrl-C or SIGTERM.

    Either stops claiming and gives running jobs the grace; a second one stops their code. SIGQUIT shows stacks.
    """
    import asyncio

    from holdfast._engine.supervisor import SupervisorOptions
    from holdfast._ports.clock import SystemClock
    from holdfast.cli.logs import configure_logs
    from holdfast.cli.printing import clean
    from holdfast.cli.process import ProcessOptions

    options = ProcessOptions.of(concurrency, queues, log_level, log_format)
    configure_logs(log_level, log_format)
    kept = SupervisorOptions(processes=processes, until_empty=until_empty, grace=grace)
    clock = SystemClock()
    supervisor = _supervisor(target, options, kept, clock)
    many = f"{processes} workers" if processes > 1 else "1 worker"
    lines = "all queues" if options.queues is None else f"queues {', '.join(options.queues)}"
    click.echo(f"holdfast: {target}, {many}, {lines}; Ctrl-C ends", err=True)
    started = clock.monotonic()
    code = asyncio.run(_serve(supervisor))
    for problem in supervisor.problems:
        click.echo(f"error: {clean(problem)}", err=True)
    if code == UNREACHABLE:
        click.echo("error: the store could not be reached; see that it is up, then start the worker again", err=True)
    click.echo(f"holdfast: ended after {clock.monotonic() - started:.1f} s, exit code {code}", err=True)
    context.exit(code)


def _supervisor(target: str, options: "ProcessOptions", kept: "SupervisorOptions", clock: "Clock") -> "Supervisor":
    import sys

    from holdfast._engine.events import Events
    from holdfast._engine.supervisor import Supervisor
    from holdfast._ports.clock import SystemChance
    from holdfast._ports.system_host import SystemHost
    from holdfast.app import open_store, open_transport
    from holdfast.cli.printing import to_json
    from holdfast.errors import ConfigurationError

    if sys.platform == "win32":
        raise ConfigurationError(["workers run on Linux and macOS; Windows can enqueue"])
    return Supervisor(
        host=SystemHost(clock),
        clock=clock,
        chance=SystemChance(),
        events=Events(),
        open_store=open_store,
        open_transport=open_transport,
        options=kept,
        arguments=(target, to_json(options)),
    )


async def _serve(supervisor: "Supervisor") -> int:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, supervisor.drain)
    loop.add_signal_handler(signal.SIGQUIT, _show_stacks, supervisor)
    return await supervisor.run()


def _show_stacks(supervisor: "Supervisor") -> None:
    import faulthandler
    import sys

    click.echo("stacks of the supervisor:", err=True)
    faulthandler.dump_traceback(sys.stderr)
    for name, stacks in supervisor.dump_stacks().items():
        click.echo(f"stacks of worker {name}:\n{stacks}", err=True)

"""``holdfast workers``."""

from typing import TYPE_CHECKING

import click

from holdfast.cli.audit import audited_with_reason
from holdfast.cli.options import JSON, TEXT, Count, store_options
from holdfast.cli.remedies import here

if TYPE_CHECKING:
    from holdfast._core.answers import LeaseView


@click.group()
def workers() -> None:
    """See which workers run, and whether they answer; drain one."""


@workers.command("list")
@store_options
@JSON
def list_workers(target: str | None, url: str | None, as_json: bool) -> None:
    """List workers whose lease has not ended, oldest first, with what they hold and what they can run."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.workers.list()
    if as_json:
        print_json(found)
        return
    columns = ("worker", "state", "running", "claimed", "slots", "queues", "tasks", "age")
    rows = [
        (
            worker.worker,
            condition(worker),
            worker.holds - worker.claimed,
            worker.claimed or "",
            worker.slots or "",
            ", ".join(worker.queues) or "all",
            ", ".join(worker.tasks),
            f"{worker.age:.0f} s",
        )
        for worker in found
    ]
    print_table(columns, rows, empty="no workers")


@workers.command()
@click.argument("names", metavar="[WORKER]...", nargs=-1)
@store_options
@JSON
@click.pass_context
def ping(context: click.Context, names: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Wait for the next beat of every worker, at most its beat + margin.

    Only workers whose names begin so are asked if names are given: `holdfast workers ping "$(hostname)-"` asks those of this
    host. The exit code is 1 if one is silent, or if there is none.
    """
    from holdfast._processes.loading import opened
    from holdfast._system.clock import SystemClock, blocking_sleep
    from holdfast.cli.output import print_json, print_table
    from holdfast.cli.ping import ask

    with opened(target, url) as app:
        answers = ask(app.workers.list, names, now=SystemClock().monotonic, pause=blocking_sleep)
    if as_json:
        print_json(answers)
    else:
        rows = [(each.worker, "answered" if each.is_alive else "silent", f"{each.seconds:.2f} s") for each in answers]
        print_table(("worker", "answer", "after"), rows, empty="no workers")
    for name in names:
        if not any(each.worker.startswith(name) for each in answers):
            _note_unknown(name)
    context.exit(0 if answers and all(each.is_alive for each in answers) else 1)


@workers.command()
@click.argument("name", type=TEXT, metavar="WORKER")
@click.option("--limit", type=Count(1), default=60, show_default=True, help="How many at most.")
@store_options
@JSON
def history(name: str, limit: int, target: str | None, url: str | None, as_json: bool) -> None:
    """Show how a worker was, once a minute, newest first; also of one that is gone.

    The beginning of its name is enough while one live worker has such a name. Supervisors note it with a beat, and
    the store keeps it for the App's beat_history.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.workers.history(name, limit=limit)
        alike = [] if found else sorted({each.worker for each in app.workers.list() if each.worker.startswith(name)})
        if len(alike) == 1:
            found = app.workers.history(alike[0], limit=limit)
    if len(alike) > 1:
        click.echo(f"several live workers have names that begin so: {', '.join(alike)}: use one of them", err=True)
    elif not found and not alike:
        _note_unknown(name)
    if as_json:
        print_json(found)
        return
    columns = ("at", "running", "claimed", "slots", "memory", "loop lag", "answered")
    rows = [
        (
            beat.at,
            beat.running,
            beat.claimed,
            beat.slots,
            None if beat.memory is None else f"{beat.memory / 2**20:,.0f} MiB",
            None if beat.loop_lag is None else f"{beat.loop_lag:.3f} s",
            beat.answered_at,
        )
        for beat in found
    ]
    print_table(columns, rows, empty="no notes")


@workers.command()
@click.argument("name", type=TEXT, metavar="WORKER")
@audited_with_reason
@store_options
@JSON
def drain(name: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Let one worker end its jobs, take no more, and end.

    The beginning of its name is enough while one worker has such a name. It goes on as after SIGTERM: running jobs get the grace, and what
    is left goes back to its queue free of charge. Its supervisor learns it with its next beat and starts no other worker instead. A
    supervisor whose workers have all been drained ends with exit code 0.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        worker = app.workers.drain(name)
    if as_json:
        print_json({"worker": worker.worker, "holds": worker.holds})
    else:
        click.echo(f"{worker.worker} drains, with {worker.holds} jobs")


def _note_unknown(name: str) -> None:
    click.echo(here(f"no worker has the name {name!r}, or one that begins so: see `holdfast workers list`"), err=True)


def condition(worker: "LeaseView") -> str:
    """Describe its condition in a word or two."""
    if worker.overdue > 0:
        return f"silent, {worker.overdue:.1f} s overdue"
    return " and ".join((["draining"] if worker.is_draining else []) + (["alone"] if worker.is_isolated else [])) or "alive"

"""``holdfast recover``."""

import click

from holdfast.cli.options import JSON, app_options


@click.command()
@app_options
@click.option("--now", is_flag=True, help="Do not watch the store first; wrong if it has just been away.")
@click.option(
    "--only",
    multiple=True,
    metavar="KIND",
    help="claimed, running, overrun, expired or workflows, also when App(recovery=…) switches it off.",
)
@click.option("--dry-run", is_flag=True, help="Count by task the jobs that it would look at; change nothing.")
@JSON
def recover(target: str, now: bool, only: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Take jobs from workers that lost their right to them.

    Every running `holdfast worker` does that by itself. A lease that has run out is judged after watching the store
    for its beat + margin, because after an outage every lease looks like that.
    """
    from holdfast._engine.events import EventName
    from holdfast._processes.loading import opened
    from holdfast._processes.logs import unlogged
    from holdfast.cli.output import print_json, print_table

    if dry_run:
        with opened(target) as app:
            stale = app.recovery.stale(by="task")
        if as_json:
            print_json(stale)
        else:
            rows = [(task, *counts.values()) for task, counts in stale.items()]
            print_table(("task", "expired", "ended", "overdue"), rows, empty="nothing to recover")
        return
    with opened(target) as app, unlogged(EventName.JOB_RESCUED):
        silent = [lease.timing for lease in app.workers.list() if lease.overdue > 0]
        if silent and not now:
            wait = max(timing.beat + timing.margin for timing in silent)
            click.echo(f"watching silent workers for {wait:.1f} s before judging them; --now skips that", err=True)
        rescued = app.recovery.run_once(now, only=only or None)
    if as_json:
        print_json(rescued)
        return
    rows = [(job.id, job.task, job.attempt, job.worker, job.reason, job.to.value) for job in rescued]
    print_table(("id", "task", "attempt", "worker", "reason", "to"), rows, empty="nothing to recover")

"""``holdfast workers``."""

import click

from holdfast.cli.options import JSON, store_options


@click.group()
def workers() -> None:
    """See who works."""


@workers.command("list")
@store_options
@JSON
def list_workers(target: str | None, url: str | None, as_json: bool) -> None:
    """Workers whose lease has not ended, oldest first."""
    from holdfast.cli.loading import opened
    from holdfast.cli.printing import print_json, print_table

    with opened(target, url) as app:
        found = app.workers.list()
    if as_json:
        print_json(found)
        return
    rows = []
    for worker in found:
        state = "draining" if worker.is_draining else "alive"
        if worker.overdue > 0:
            state = f"silent, {worker.overdue:.1f} s overdue"
        rows.append((worker.worker, state, worker.holds, ", ".join(worker.queues) or "all", f"{worker.age:.0f} s"))
    print_table(("worker", "state", "jobs", "queues", "age"), rows, empty="no workers")

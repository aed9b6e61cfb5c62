"""``holdfast prune``."""

import sys

import click

from holdfast.cli.options import JSON, store_options


@click.command()
@store_options
@JSON
def prune(target: str | None, url: str | None, as_json: bool) -> None:
    """Delete what was kept long enough.

    That is: finished jobs whose retention has passed, and old receipts, leases, snoozes and beats, in bounded batches. Every
    running `holdfast worker` does that by itself, gradually.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    if sys.stderr.isatty():
        click.echo("pruning, Ctrl-C stops it …", err=True)
    with opened(target, url) as app:
        pruned = app.prune()
    if as_json:
        print_json(pruned)
        return
    parts = (
        f"{pruned.jobs:,} jobs forgotten",
        f"{pruned.stubs:,} reduced to their outcome",
        f"{pruned.receipts:,} receipts, {pruned.leases:,} leases and {pruned.attempts:,} snoozes and releases forgotten",
        f"{pruned.beats:,} beats of workers forgotten",
    )
    click.echo("; ".join(parts) if pruned.total else "nothing to prune")

"""``holdfast backup``."""

import click

from holdfast.cli.options import JSON, store_options


@click.command()
@click.argument("path", type=click.Path(dir_okay=False))
@store_options
@JSON
def backup(path: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Copy a SQLite store to PATH while workers run.

    The copy holds the store as it was at one moment. It is verified before it appears under PATH. No existing
    file is replaced. Only you may read it.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        copied = app.backup(path)
    if as_json:
        print_json(copied)
        return
    click.echo(f"{copied.jobs:,} jobs copied to {copied.path} ({copied.size:,} bytes), and the copy is intact")

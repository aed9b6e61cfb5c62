"""``holdfast migrate``."""

import click

from holdfast.cli.options import TARGET


@click.command()
@TARGET
def migrate(target: str) -> None:
    """Bring the store's schema up to date."""
    from holdfast.cli.loading import opened

    with opened(target) as app:
        before, after = app.migrate()
    click.echo(f"schema {after}, up to date already" if before == after else f"schema {before} became {after}")

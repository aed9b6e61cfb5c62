"""``holdfast migrate``."""

import click

from holdfast.cli.options import app_or_store_options, url_option


@click.command()
@app_or_store_options
@url_option
@click.option("--roles", "with_roles", is_flag=True, help="Also make SQL roles that may enqueue, work, read, own. [PostgreSQL]")
def migrate(target: str | None, url: str | None, with_roles: bool) -> None:
    """Bring the store's schema up to date."""
    from holdfast._processes.loading import opened

    with opened(target, url, makes=True) as app:
        before, after = app.migrate()
        click.echo(f"schema {after}, up to date already" if before == after else f"schema {before} became {after}")
        if with_roles:
            roles = app.create_roles()
            example = next((role for role in roles if role.endswith("_work")), roles[0])
            click.echo(f'roles to grant to your users: {", ".join(roles)}; in psql: GRANT {example} TO "USER"')

"""``holdfast dashboard``: show a store in a browser."""

import click

from holdfast.cli.options import app_or_store_options, url_option
from holdfast.cli.remedies import Named, with_names
from holdfast.cli.stderr import discard_unwritable


@click.command()
@app_or_store_options
@click.option("--port", type=click.IntRange(0, 65535), default=8400, show_default=True, help="Where to listen; 0: any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen: another one needs --token-file.")
@click.option("--actions", "has_actions", is_flag=True, help="Let people act: cancel, retry, pause and so on.")
@click.option(
    "--token-file", metavar="FILE", help="The tokens that may connect, as for `holdfast broker --tokens`; browsers ask for one."
)
@click.option("--open", "is_opened", is_flag=True, help="Open the page in a browser.")
@url_option
def dashboard(
    target: str | None, url: str | None, port: int, host: str, token_file: str | None, *, has_actions: bool, is_opened: bool
) -> None:
    """Show a store as web pages, until Ctrl-C or SIGTERM.

    Without --actions it changes nothing; with it, the link that it prints is good for one browser. Only this machine can open the
    pages: from another one, forward the port with ssh, or pass --token-file.
    """
    import asyncio
    import os
    import webbrowser
    from functools import partial

    from holdfast._processes.loading import opened
    from holdfast._system.service_manager import this_service
    from holdfast.errors import ConfigurationError

    _require_extra()
    from holdfast.dashboard.serving import require_loopback, serve

    if token_file is None:
        require_loopback(host)

    manager = this_service()

    def ready(link: str) -> None:
        click.echo(f"the dashboard is at {link}")
        manager.notify("READY=1")
        if is_opened:
            webbrowser.open(link)

    with opened(target, url) as app:
        if app.settings.url.startswith("memory:"):
            remedy = "mount holdfast.dashboard.Dashboard(app) in that process, or use a file: --url sqlite:///jobs.db"
            raise ConfigurationError([f"a store in memory is seen only from inside its own process: {remedy}"])
        complete = partial(with_names, named=Named(target, url).or_of(os.environ))
        asyncio.run(serve(app, host, port, ready, token_file=token_file, actions=has_actions, complete=complete))
        manager.notify("STOPPING=1")
    discard_unwritable()


def _require_extra() -> None:
    from importlib.util import find_spec

    from holdfast.errors import MissingExtra

    for module in ("jinja2", "starlette", "uvicorn"):
        if find_spec(module) is None:
            raise MissingExtra(module, "dashboard")

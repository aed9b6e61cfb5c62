"""``holdfast audit``, and the option by which an operator gives the reason of a command."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.options import JSON, TEXT, Count, store_options

Command = TypeVar("Command", bound=Callable[..., Any])

COLUMNS = ("at", "who", "from", "action", "count", "what", "up to", "reason", "id")


@click.command()
@click.option("--action", type=TEXT, help="Only this action, such as retry, purge or schedule.pause.")
@click.option("--who", type=TEXT, help="Only actions of this person.")
@click.option("--limit", type=Count(1), default=100, show_default=True, help="How many at most.")
@click.option("--before", metavar="ID", help="Go on after this action: the last one of the page before.")
@store_options
@JSON
def audit(target: str | None, url: str | None, as_json: bool, limit: int, **which: Any) -> None:
    """List what operators did in the last 90 days, newest first."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.audit.list(limit=limit, **which)
    if as_json:
        print_json(found)
        return
    rows = [
        (each.at, each.who, each.origin, each.action, each.count, each.selector, each.up_to, each.reason, each.id)
        for each in found
    ]
    print_table(COLUMNS, rows, empty="no action is recorded")
    if len(found) == limit:
        click.echo(f"there may be more: --before {found[-1].id}", err=True)


def audited(command: Command) -> Command:
    """Add ``--because``, which goes into the record of what the command does."""
    return _option("--because")(command)


def audited_with_reason(command: Command) -> Command:
    """Add ``--because``, also as ``--reason``, for commands where that word chooses no jobs."""
    return _option("--because", "--reason")(command)


def _option(*names: str) -> Callable[[Command], Command]:
    help = "Why; `holdfast audit` shows it."
    return click.option(*names, "because", type=TEXT, metavar="TEXT", expose_value=False, callback=_act, help=help)


def _act(context: click.Context, parameter: click.Parameter, because: str | None) -> None:
    """Let the command act in the name of the user of this machine."""
    from getpass import getuser
    from socket import gethostname

    from holdfast._engine.client.acting import Acting, acting

    del parameter
    try:
        user = getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = "unknown"
    context.with_resource(acting(Acting(who=user, origin=f"cli:{user}@{gethostname()}", reason=because)))

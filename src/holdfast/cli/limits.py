"""``holdfast limits``."""

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.audit import audited_with_reason
from holdfast.cli.completions import complete_limit, complete_scope_name
from holdfast.cli.options import JSON, store_options

if TYPE_CHECKING:
    from holdfast._engine.operators.limits import LimitStatus

WORDS = ("cluster", "task", "queue")
SCOPE = click.argument("scope", metavar="cluster|task|queue", type=click.Choice(WORDS))
COLUMNS = (
    "scope",
    "name",
    "active",
    "concurrency",
    "per key",
    "rate",
    "rate per key",
    "burst",
    "next start",
    "held by",
    "source",
)


@click.group()
def limits() -> None:
    """See limits, who holds them, set them, clear them."""


@limits.command("list")
@store_options
@JSON
def list_limits(target: str | None, url: str | None, as_json: bool) -> None:
    """List limits, each with the jobs that it counts now and the workers that hold it longest."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.limits.list()
    if as_json:
        print_json(found)
    else:
        print_table(COLUMNS, map(_row, found), empty="no limits")


@limits.command("set")
@SCOPE
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_scope_name)
@click.option("--concurrency", type=int, metavar="N", help="How many of its jobs may be active at once.")
@click.option("--per-key", type=int, metavar="N", help="How many jobs of each key may be active at once.")
@click.option("--rate", metavar="N/TIME", help="How many of its jobs may start in a time, such as 100/m or 20/10s.")
@click.option("--rate-per-key", metavar="N/TIME", help="How many jobs of each key may start in a time.")
@click.option("--burst", type=int, metavar="N", help="How many starts may come at once where none came before.  [default: 1]")
@audited_with_reason
@store_options
@JSON
def set_limit(scope: Any, name: str | None, target: str | None, url: str | None, as_json: bool, **given: Any) -> None:
    """Set the whole limit of a task, of a queue or of the cluster, which has no name; what is not given is not limited."""
    from holdfast._core.limits import Limit
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    _require_name(scope, name)
    if all(given[option] is None for option in ("concurrency", "per_key", "rate", "rate_per_key")):
        raise click.UsageError("nothing to limit: use --concurrency, --per-key, --rate or --rate-per-key")
    if given["burst"] is not None and given["rate"] is None and given["rate_per_key"] is None:
        raise click.UsageError("--burst belongs to a rate: add --rate or --rate-per-key, or leave it out")
    limit = Limit(**{option: value for option, value in given.items() if value is not None})
    with opened(target, url) as app:
        status = app.limits.set(scope, name, limit)
        known = app.registry.names() if scope == "task" else [name]
        is_known = name in known or any(name in worker.tasks for worker in app.workers.list())
    if as_json:
        print_json(status)
    else:
        click.echo(f"limit of {_called(scope, name)} set; active now: {status.active}")
    if not is_known:
        click.echo(f"no live worker knows the task {name!r}: check its name", err=True)


@limits.command()
@SCOPE
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_limit)
@audited_with_reason
@store_options
@JSON
def clear(scope: Any, name: str | None, target: str | None, url: str | None, as_json: bool) -> None:
    """Remove a limit. A worker whose code declares one stores it again within a minute: set a higher one instead."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    _require_name(scope, name)
    with opened(target, url) as app:
        app.limits.clear(scope, name)
    if as_json:
        print_json({"scope": scope, "name": name or ""})
    else:
        click.echo(f"limit of {_called(scope, name)} cleared")


def _require_name(scope: str, name: str | None) -> None:
    if scope != "cluster" and not name:
        raise click.UsageError(f"which {scope}? Write its name after the word {scope}")


def _called(scope: str, name: str | None) -> str:
    return f"{scope} {name}" if name else "the cluster"


def _row(status: "LimitStatus") -> tuple[object, ...]:
    from holdfast.cli.output import span

    limit, holders = status.limit, status.holders
    return (
        status.scope,
        status.name,
        status.active,
        limit.concurrency,
        limit.per_key,
        limit.rate,
        limit.rate_per_key,
        limit.burst if limit.rate or limit.rate_per_key else None,
        f"in {span(status.wait)}" if status.wait > 0 else "now" if limit.rate else None,
        ", ".join(f"{holder.worker} for {span(holder.held)}" for holder in holders),
        status.source.value,
    )

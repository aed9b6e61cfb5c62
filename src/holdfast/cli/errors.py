"""``holdfast errors``: why jobs fail, one line for each cause."""

from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from holdfast.cli.audit import audited_with_reason
from holdfast.cli.job_actions import retry as retry_jobs
from holdfast.cli.options import JSON, Count, store_options

if TYPE_CHECKING:
    from holdfast._core.error_groups import ErrorGroup, ErrorList

LOOK = 50_000
COLUMNS = ("error", "jobs", "last", "first", "task", "why", "where")


@click.group()
def errors() -> None:
    """See why jobs fail, one line for each cause, and run the jobs of one cause again."""


@errors.command("list")
@click.option("--limit", type=Count(1), default=20, show_default=True, help="How many errors at most.")
@click.option("--look", type=Count(1), default=LOOK, show_default=True, help="How many of the newest failed jobs to look at.")
@store_options
@JSON
def list_errors(target: str | None, url: str | None, as_json: bool, limit: int, look: int) -> None:
    """List the causes of failures, that of the newest one first.

    A list contains no error messages: see `holdfast errors show`.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.errors.list(limit=limit, look=look)
    if as_json:
        print_json(structs.asdict(found) | {"groups": [_listed(group) for group in found.groups]})
        return
    rows = [
        (group.key, group.count, group.last_at, group.first_at, group.task, _why(group), group.where) for group in found.groups
    ]
    print_table(COLUMNS, rows, empty="no job has failed")
    if found.groups:
        click.echo(_extent(found, look), err=True)


@errors.command()
@click.argument("key")
@store_options
@JSON
def show(key: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Show one error: its newest message and traceback, and how often it occurred. KEY: its fingerprint, or the beginning of it."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, shown
    from holdfast.errors import JobNotFound

    with opened(target, url) as app:
        found = app.errors.get(key)
        try:
            error = app.jobs.get(found.job).error
        except JobNotFound:  # pruned in the meantime
            error = None
    trace = "" if error is None else error.traceback
    if as_json:
        print_json(structs.asdict(found) | {"traceback": trace})
        return
    for name in found.__struct_fields__:
        if value := getattr(found, name):
            click.echo(f"{name:<16} {shown(value)}")
    if trace:
        click.echo("\n" + "\n".join(shown(line) for line in trace.splitlines()))


@errors.command()
@click.argument("key")
@click.option("--fresh", is_flag=True, help="Forget their steps and checkpoints: they do all of their work again.")
@click.option("--limit", type=Count(1), help="How many at most.  [default: no limit]")
@click.option("--dry-run", is_flag=True, help="Print how many it would be, show the first ones, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@audited_with_reason
@store_options
@JSON
@click.pass_context
def retry(context: click.Context, /, key: str, target: str | None, url: str | None, **typed: Any) -> None:
    """Run the failed jobs of one error now, with fresh budgets. KEY: its fingerprint, or the beginning of it.

    It is `holdfast jobs retry --state failed --error KEY`.
    """
    from holdfast._processes.loading import opened

    with opened(target, url) as app:
        full = app.errors.get(key).key
    context.invoke(retry_jobs, target=target, url=url, state=("failed",), error_key=full, **typed)


def _listed(group: "ErrorGroup") -> dict[str, object]:
    return {name: value for name, value in structs.asdict(group).items() if name != "message"}


def _why(group: "ErrorGroup") -> str:
    return " ".join(dict.fromkeys(filter(None, (group.reason, group.type))))


def _extent(found: "ErrorList", look: int) -> str:
    from holdfast.cli.output import shown

    errors = "1 error" if found.kinds == 1 else f"{found.kinds:,} errors"
    jobs = "1 failed job" if found.looked_at == 1 else f"{found.looked_at:,} failed jobs"
    listed = "" if len(found.groups) == found.kinds else f", {len(found.groups):,} of them listed"
    bound = " (there may be more: --look)" if found.looked_at >= look else ""
    return f"{errors}{listed} in {jobs}, back to {shown(found.back_to)}{bound}"

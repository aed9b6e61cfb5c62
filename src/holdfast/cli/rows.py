"""``holdfast rows``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.audit import audited_with_reason
from holdfast.cli.completions import complete_app
from holdfast.cli.options import JSON
from holdfast.cli.selection import confirm

if TYPE_CHECKING:
    from holdfast._engine.rows.rows import Rows
    from holdfast.app import App

NAMES = click.argument("names", metavar="[NAME]...", nargs=-1)
APP = click.option(
    "--app",
    "target",
    metavar="MODULE:APP",
    shell_complete=complete_app,
    help="The App that watches over them.  [env: HOLDFAST_APP]",
)
MOST_SHOWN = 20


@click.group()
def rows() -> None:
    """See the tables that the App watches, take rows back from dead workers, create the indexes that help."""


@rows.command("list")
@NAMES
@APP
@JSON
def list_rows(names: tuple[str, ...], target: str | None, as_json: bool) -> None:
    """Show rows by status, how many are due, how many are stuck, and which workers hold some."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table, span

    with opened(_target(target), makes=True) as app:
        found = [_standing(each) for each in _chosen(app, names)]
    if as_json:
        print_json(found)
        return
    columns = ("name", "table", "due", "stuck", "oldest", "rows", "holders")
    cells = [
        (*(each[column] for column in columns[:4]), span(each["oldest"]), _counted(each["rows"]), _held(each["holders"]))
        for each in found
    ]
    print_table(columns, cells, empty="this App watches over no tables: app.rows(…)")


@rows.command()
@NAMES
@click.option("--dry-run", is_flag=True, help="Print how many rows it would be, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@audited_with_reason
@APP
@JSON
def reset(names: tuple[str, ...], dry_run: bool, yes: bool, target: str | None, as_json: bool) -> None:
    """Take back, now, rows that a worker has had for longer than stale_after; supervisors do that by themselves."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(_target(target), makes=True) as app:
        chosen = _chosen(app, names)
        stuck = {each.name: each.states().stuck for each in chosen}
        if not dry_run and any(stuck.values()):
            confirm(f"take back {sum(stuck.values()):,} stuck rows?", yes=yes)
        taken = {
            each.name: [] if dry_run else each.reset() for each in chosen
        }  # also where none is stuck: some may have no stamp yet
    if as_json:
        print_json([{"name": name, "stuck": stuck[name], "reset": found} for name, found in taken.items()])
        return
    cells = [(name, stuck[name], len(found), sum(one.to == "fail" for one in found)) for name, found in taken.items()]
    print_table(("name", "stuck", "reset", "failed"), cells, empty="this App watches over no tables: app.rows(…)")


@rows.command()
@NAMES
@click.option("--create", is_flag=True, help="Create them, without locking others out where the database can do that.")
@APP
@JSON
def indexes(names: tuple[str, ...], create: bool, target: str | None, as_json: bool) -> None:
    """List the indexes that the tables lack: without them each look for due or stuck rows reads the whole table."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(_target(target), makes=True) as app:
        chosen = _chosen(app, names)
        found = {each.name: each.create_indexes() if create else _missing(each) for each in chosen}
    if as_json:
        print_json([{"name": name, "indexes": statements, "created": create} for name, statements in found.items()])
        return
    cells = [(name, statement) for name, statements in found.items() for statement in statements]
    print_table(("name", "created" if create else "missing"), cells, empty="no index is missing")


def _target(target: str | None) -> str:
    import os

    from holdfast.errors import ConfigurationError

    if target := target or os.environ.get("HOLDFAST_APP"):
        return target
    raise ConfigurationError(
        ["no App: pass --app module:app or set HOLDFAST_APP, because only its code declares what is watched"]
    )


def _chosen(app: "App", names: Sequence[str]) -> "list[Rows]":
    from holdfast.errors import ConfigurationError

    there_are = ", ".join(app.watches) or "none"
    if unknown := [name for name in names if name not in app.watches]:
        raise ConfigurationError([f"rows {name}: not watched by this App; there are: {there_are}" for name in unknown])
    return [each for name, each in app.watches.items() if not names or name in names]


def _standing(each: "Rows") -> dict[str, Any]:
    from msgspec import structs

    watch, states = each.settings.watch, each.states()
    return {"name": each.name, "table": ".".join(watch.table), "task": each.settings.task, **structs.asdict(states)}


def _missing(each: "Rows") -> tuple[str, ...]:
    """List the missing indexes; raises ``ConfigurationError`` where the table could not be inspected."""
    from holdfast.errors import ConfigurationError

    found = each.inspect()
    if found.problems and not found.indexes:
        raise ConfigurationError([f"rows {each.name}: {problem}" for problem in found.problems])
    return found.indexes


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{status} {count:,}" for status, count in counts.items())


def _held(holders: Sequence[Any]) -> str:
    shown = [f"{each.owner or 'no owner'} {each.rows:,}" for each in holders[:MOST_SHOWN]]
    return ", ".join([*shown, "…"] if len(holders) > MOST_SHOWN else shown)

"""``holdfast workflows``."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from holdfast._core.job import State
from holdfast.cli.audit import audited_with_reason
from holdfast.cli.completions import complete_node, complete_queue, complete_workflow
from holdfast.cli.ids import workflows_of
from holdfast.cli.job_list import listed, print_jobs, wide_or_columns
from holdfast.cli.options import JSON, TEXT, store_options

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.app import App
    from holdfast.cli.job_list import Cells

IDS = click.argument("ids", metavar="WORKFLOW...", nargs=-1, required=True, shell_complete=complete_workflow)
ID = click.argument("id", metavar="WORKFLOW", shell_complete=complete_workflow)

UNKNOWN = "unknown"
"""What is printed for an id of no workflow among others."""

_NOTHING_RUNS: Mapping[str, str] = {
    State.COMPLETED: ", nothing runs again, every node has completed; `--from NODE` runs one again",
}
"""What is printed behind the state in which a retry leaves a workflow."""

CELLS: "Cells" = {
    "id": lambda root: root.id,
    "workflow": lambda root: root.task,
    "state": lambda root: root.state,
    "queue": lambda root: root.queue,
    "key": lambda root: root.key,
    "created": lambda root: root.created_at,
    "finished": lambda root: root.finished_at,
    "why": lambda root: root.reason,
    "error": lambda root: "" if root.error is None else root.error.message,
}

_STYLES = {"✓ ": "green", "▶ ": "cyan", "▷ ": "cyan", "‖ ": "yellow", "✗ ": "red"}


@click.group()
def workflows() -> None:
    """See workflows, draw them, pause them, cancel them, run what failed again, repair them."""


@workflows.command("list")
@click.option("--name", type=TEXT, help="Only workflows of this name.")
@click.option(
    "--state", type=click.Choice([state.value for state in State]), help="Only those in this state; unfinished ones are blocked."
)
@click.option("--queue", type=TEXT, shell_complete=complete_queue, help="Only those of this queue.")
@click.option("--key", type=TEXT, help="Only those of this key.")
@click.option("--tag", type=TEXT, help="Only those with this tag.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")
@click.option("--cursor", metavar="ID", help="Go on after this workflow: the last one of the page before.")
@wide_or_columns(CELLS)
@store_options
@JSON
def list_workflows(
    target: str | None,
    url: str | None,
    as_json: bool,
    limit: int,
    cursor: str | None,
    *,
    wide: bool,
    columns: tuple[str, ...] | None,
    **which: str | None,
) -> None:
    """List workflows, newest first, as wide as the terminal. On a terminal an id is its last digits: every command takes them."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        after = None if cursor is None else workflows_of(app, [cursor])[0]
        found = app.workflows.list(limit=limit, cursor=after, **which)
    if as_json:
        print_json([listed(each) for each in found])
        return
    print_jobs(found, columns, is_wide=wide, cells=CELLS, usual=[*CELLS], empty="no workflows")
    if len(found) == limit:
        click.echo(f"there may be more: --cursor {found[-1].id}", err=True)


@workflows.command()
@ID
@click.option("--svg", "form", flag_value="svg", help="Write an SVG document to stdout.")
@click.option("--mermaid", "form", flag_value="mermaid", help="Write Mermaid's text to stdout.")
@store_options
@JSON
def show(id: str, form: "Literal['svg', 'mermaid'] | None", target: str | None, url: str | None, as_json: bool) -> None:
    """Draw a workflow: its nodes in layers, what each does, and what a waiting one waits for."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    if form is not None and as_json:
        raise click.UsageError(f"two forms given: use --{form} or --json, one of them")
    with opened(target, url) as app:
        flow = workflows_of(app, [id])[0]
        if as_json:
            print_json(app.workflows.get(flow))
        elif form is not None:
            click.echo(app.workflows.picture(flow, form), nl=False)
        else:
            _print_picture(app.workflows.picture(flow))


@workflows.command()
@IDS
@audited_with_reason
@store_options
@JSON
def cancel(ids: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """End all nodes of these workflows that wait, and ask those that run to end."""
    _each(ids, target, url, as_json, lambda app, id: app.workflows.cancel(id))


@workflows.command()
@IDS
@audited_with_reason
@store_options
@JSON
def pause(ids: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Start no more nodes of these workflows; those that run go on."""
    _each(ids, target, url, as_json, lambda app, id: app.workflows.pause(id))


@workflows.command()
@IDS
@click.option(
    "--failed",
    type=click.Choice(["fail", "retry", "continue"]),
    default="fail",
    show_default=True,
    help="What becomes of failures that the pause held back: what depends on them fails, they run again, or their dependents run.",
)
@audited_with_reason
@store_options
@JSON
def resume(
    ids: tuple[str, ...], failed: Literal["fail", "retry", "continue"], target: str | None, url: str | None, as_json: bool
) -> None:
    """Let paused workflows go on."""
    _each(ids, target, url, as_json, lambda app, id: app.workflows.resume(id, failed))


@workflows.command()
@IDS
@click.option(
    "--from", "node", metavar="NODE", shell_complete=complete_node, help="Also run this node again, and all that depends on it."
)
@click.option("--fresh", is_flag=True, help="Forget the checkpoints and steps of what runs again.")
@audited_with_reason
@store_options
@JSON
def retry(ids: tuple[str, ...], node: str | None, fresh: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Run again what did not complete in these workflows; completed nodes keep their results."""
    _each(ids, target, url, as_json, lambda app, id: app.workflows.retry(id, node, fresh=fresh), _NOTHING_RUNS)


@workflows.command()
@click.argument("id", metavar="[WORKFLOW]", required=False, shell_complete=complete_workflow)
@click.option("--dry-run", is_flag=True, help="Change nothing, and print what would be done.")
@store_options
@JSON
def recover(id: str | None, dry_run: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Repair now what supervisors repair gradually, in all unfinished workflows or in one.

    Intact workflows do not change. Damage comes from hand-made SQL or from a restored backup.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.workflows.recover_stuck(None if id is None else workflows_of(app, [id])[0], dry_run=dry_run)
    if as_json:
        print_json(found)
        return
    rows: list[tuple[object, ...]] = [
        (each.flow, each.node, *(f"needs {needs}, waits for {waits}" for needs, waits in (each.was, each.now)))
        for each in found.repairs
    ]
    rows += [(each, "", "", "past its deadline: ended") for each in found.overdue]
    print_table(("workflow", "node", "was", "is"), rows, empty="nothing to repair")


def _each(
    ids: tuple[str, ...],
    target: str | None,
    url: str | None,
    as_json: bool,
    act: "Callable[[App, str], State]",
    notes: Mapping[str, str] = {},
) -> None:
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    states = dict[str, str]()
    with opened(target, url) as app:
        whole = map(str, workflows_of(app, ids))  # what cannot be an id ends the command before it has changed anything
        try:
            for id in whole:
                states[id] = _acted(partial(act, app, id), is_single=len(ids) == 1)
                if not as_json:
                    click.echo(f"workflow {id}: {states[id]}{notes.get(states[id], '')}")
        finally:
            if as_json and states:
                print_json(states)
    if UNKNOWN in states.values():
        click.get_current_context().exit(1)


def _acted(act: Callable[[], State], *, is_single: bool) -> str:
    """Return the state of a workflow after the act; ``UNKNOWN`` for an id of no workflow, so that the act reaches the other ids."""
    from holdfast.errors import JobNotFound

    try:
        return act()
    except JobNotFound:
        if is_single:
            raise
        return UNKNOWN


def _print_picture(text: str) -> None:
    """Print a picture, in colours on a terminal."""
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console

    Console().print(coloured(text))


def coloured(picture: str) -> "Text":
    """Return a picture with the colours of its nodes' states."""
    from rich.text import Text

    lines = [Text(line, style=_STYLES.get(line[:2], "")) for line in picture.splitlines()]
    return Text("\n").join(lines)

"""`holdfast demo`."""

import sys
from pathlib import Path

import click

from holdfast.cli.options import DURATION
from holdfast.cli.systems import require_workers


@click.command()
@click.option("--repo", metavar="PATH_OR_URL", help="Whose history to tell; the repository you stand in if left out.")
@click.option("--url", metavar="STORE", help="Where the jobs live; a temporary SQLite file if left out.")
@click.option("--transport", metavar="URL", help="How workers wake each other; what fits the store if left out.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("holdfast-demo"), show_default=True, help="Where results go."
)
@click.option("--seconds", type=DURATION, default="12", show_default=True, help="About how long the show takes.")
@click.option("--no-kill", is_flag=True, help="Let the worker live.")
@click.option("--workflow", is_flag=True, help="A graph of jobs: three repositories and a report, of which one node is lost.")
def demo(
    repo: str | None, url: str | None, transport: str | None, out: Path, *, seconds: float, no_kill: bool, workflow: bool
) -> None:
    """Watch a worker die and its job survive.

    Two workers analyze how the code of a git repository evolved. Half-way the one that owns the job is killed with
    SIGKILL; the other one takes over from the last checkpoint. Ends with a timeline and the path of the chart.
    With --workflow three repositories are analyzed at once and joined in a report; the lost node alone runs again.
    With the --url of a server each worker has its own supervisor, which is killed with it, as if its machine was lost.
    """
    require_workers()
    from holdfast.demo.show import Show, ShowFailed, Wishes
    from holdfast.demo.workflow_show import WorkflowShow

    if workflow and repo is not None:
        raise click.UsageError("--workflow makes its own repositories: leave --repo out")
    wishes = Wishes(repo=repo, url=url, transport=transport, out=out, seconds=seconds, kill=not no_kill)
    try:
        is_terminal = sys.stderr.isatty() and sys.stdout.isatty()
        if workflow and is_terminal:
            chart = _graph_on_a_terminal(wishes)
        elif workflow:
            chart = WorkflowShow(wishes, say=lambda line: click.echo(line), draw=lambda picture: None).run()
        elif is_terminal:
            chart = _on_a_terminal(wishes)
        else:
            chart = Show(wishes, say=lambda line: click.echo(line), draw=lambda view: None).run()
    except ShowFailed as failure:
        click.echo(f"error: {failure}", err=True)
        sys.exit(1)
    click.echo(str(chart))


def _on_a_terminal(wishes: "Wishes") -> Path:  # type: ignore[name-defined]  # noqa: F821
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from holdfast.demo.show import Show

    console = Console()
    columns = (TextColumn("[bold]{task.fields[stage]:<7}"), BarColumn(30), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TextColumn("{task.fields[message]}"), TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=1.0, stage="waits", message="")

        def draw(view: "JobView") -> None:  # type: ignore[name-defined]  # noqa: F821
            progress.update(task, completed=view.fraction or 0.0, stage=view.stage or view.state, message=view.message or "")

        return Show(wishes, say=lambda line: console.print(line, highlight=False, soft_wrap=True), draw=draw).run()


def _graph_on_a_terminal(wishes: "Wishes") -> Path:  # type: ignore[name-defined]  # noqa: F821
    """Draw the graph below the lines, again and again."""
    from rich.console import Console
    from rich.live import Live

    from holdfast.cli.workflows import coloured
    from holdfast.demo.workflow_show import WorkflowShow

    console = Console()
    with Live(console=console, auto_refresh=False) as live:

        def draw(picture: str) -> None:
            live.update(coloured(picture), refresh=True)

        return WorkflowShow(wishes, say=lambda line: console.print(line, highlight=False, soft_wrap=True), draw=draw).run()

"""``holdfast jobs``."""

from typing import TYPE_CHECKING, Literal

import click

from holdfast._core.job import State
from holdfast.cli.options import JSON, store_options

if TYPE_CHECKING:
    from uuid import UUID

    from holdfast._core.view import JobView


@click.group()
def jobs() -> None:
    """See jobs, cancel them, run them again."""


@jobs.command("list")
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only those in this state.")
@click.option("--task", help="Only those of this task.")
@click.option("--queue", help="Only those in this queue.")
@click.option("--tag", help="Only those with this tag.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="ID", help="Go on after this job: the last one of the page before.")
@store_options
@JSON
def list_jobs(target: str | None, url: str | None, as_json: bool, **which: object) -> None:
    """Jobs, newest first."""
    from holdfast.cli.loading import opened
    from holdfast.cli.printing import print_json, print_table

    with opened(target, url) as app:
        found = app.jobs.list(**which)  # type: ignore[arg-type]
    if as_json:
        print_json(found)
        return
    columns = ("id", "task", "queue", "state", "attempt", "progress", "created", "worker", "why")
    print_table(columns, [_row(job) for job in found], empty="no jobs")


@jobs.command()
@click.argument("id")
@store_options
@JSON
def show(id: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Everything about a job, its attempts included."""
    from holdfast.cli.loading import opened
    from holdfast.cli.printing import print_json, print_table, shown

    with opened(target, url) as app:
        job = app.jobs.get(id)
    if as_json:
        print_json(job)
        return
    for name in job.__struct_fields__:
        value = getattr(job, name)
        if value not in (None, ()) and name not in ("attempts", "error"):
            click.echo(f"{name:<16} {shown(value)}")
    if job.error is not None:
        click.echo(f"{'error':<16} {shown(str(job.error))}")
    columns = ("attempt", "outcome", "worker", "started", "ended", "why")
    if job.attempts:
        click.echo()
        rows = [
            (each.attempt, each.outcome, each.worker, each.started_at, each.ended_at, each.signal or _text(each.error))
            for each in job.attempts
        ]
        print_table(columns, rows, empty="")
    if job.error is not None and job.error.traceback:
        click.echo("\n" + "\n".join(shown(line) for line in job.error.traceback.splitlines()))


@jobs.command()
@click.option("--by", type=click.Choice(["queue", "task"]), help="Per queue or per task.")
@store_options
@JSON
def counts(by: Literal["queue", "task"] | None, target: str | None, url: str | None, as_json: bool) -> None:
    """How many jobs there are in each state."""
    from holdfast.cli.loading import opened
    from holdfast.cli.printing import print_json, print_table

    with opened(target, url) as app:
        found = app.jobs.counts(by)
    if as_json:
        print_json(found)
    elif by is None:
        print_table(("state", "jobs"), list(found.items()), empty="no jobs")
    else:
        print_table((by, *State), [(group, *states.values()) for group, states in found.items()], empty="no jobs")


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_options
@JSON
@click.pass_context
def cancel(context: click.Context, ids: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """End jobs that wait, and ask jobs that run to end."""
    from holdfast.cli.loading import opened

    with opened(target, url) as app:
        context.exit(_print_states(ids, app.jobs.cancel(ids), as_json, notes=_ASKED))


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@store_options
@JSON
@click.pass_context
def retry(context: click.Context, ids: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Run finished, held or scheduled jobs now, with fresh budgets."""
    from holdfast.cli.loading import opened

    with opened(target, url) as app:
        context.exit(_print_states(ids, app.jobs.retry(ids), as_json, notes={}))


_ASKED = {State.CLAIMED: "claimed, asked to end", State.RUNNING: "running, asked to end"}


def _row(job: "JobView") -> tuple[object, ...]:
    said = (job.stage, None if job.fraction is None else f"{job.fraction:.0%}", job.message)
    progress = "" if job.state is State.COMPLETED else " ".join(filter(None, said))
    why = " ".join(filter(None, (job.reason, _text(job.error))))
    return job.id, job.task, job.queue, job.state, f"{job.attempt}", progress, job.created_at, job.worker, why


def _text(error: object) -> str:
    return "" if error is None else str(error)


def _print_states(ids: tuple[str, ...], states: "dict[UUID, State]", as_json: bool, *, notes: dict[State, str]) -> int:
    """What became of each; 1 when one of them does not exist."""
    from uuid import UUID

    from holdfast.cli.printing import print_json, print_table

    if as_json:
        print_json({str(job): state for job, state in states.items()})
    else:
        found = {job: states.get(UUID(job)) for job in ids}
        rows = [(job, "unknown" if state is None else notes.get(state, state)) for job, state in found.items()]
        print_table(("id", "state"), rows, empty="")
    return 0 if all(UUID(job) in states for job in ids) else 1

"""``holdfast jobs list``."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import structs

from holdfast._core.durations import in_words
from holdfast._core.job import State
from holdfast._core.short_ids import short_ids
from holdfast.cli.ids import error_of, job_of, workflows_of
from holdfast.cli.options import JSON, Count, Several, store_options
from holdfast.cli.selection import matching

if TYPE_CHECKING:
    from holdfast._core.view import JobView

    Cells = Mapping[str, Callable[[JobView], object]]

Command = Callable[..., Any]

_KEPT_FROM_LISTS: Final = {"payload", "result", "checkpoint", "attempts", "points"}

CELLS: "Final[Cells]" = {
    "id": lambda job: job.id,
    "task": lambda job: job.task,
    "queue": lambda job: job.queue,
    "state": lambda job: job.state,
    "attempt": lambda job: f"{job.attempt}",
    "progress": lambda job: _progress(job),
    "created": lambda job: job.created_at,
    "worker": lambda job: job.worker,
    "why": lambda job: " ".join(dict.fromkeys(filter(None, (job.reason, job.error.type if job.error else None)))),
    "due": lambda job: job.available_at,
    "started": lambda job: job.started_at,
    "finished": lambda job: job.finished_at,
    "priority": lambda job: f"{job.priority}",
    "key": lambda job: job.key,
    "unique-key": lambda job: job.unique_key,
    "tags": lambda job: ",".join(job.tags),
    "error": lambda job: job.error_key,
    "workflow": lambda job: job.workflow,
}
USUAL: Final = ("id", "task", "queue", "state", "attempt", "progress", "created", "worker", "why")


def wide_or_columns(cells: "Cells") -> Callable[[Command], Command]:
    """Add the options that choose how much of a list is shown."""

    def add(command: Command) -> Command:
        columns = click.option(
            "--columns", type=Several([*cells]), metavar="A,B", help=f"Only these columns, of {', '.join(cells)}."
        )
        wide = click.option("--wide", is_flag=True, help="Whole ids and values, and exact times, as wide as it takes.")
        return wide(columns(command))

    return add


@click.command("list")
@matching
@click.option("--limit", type=Count(1), default=100, show_default=True, help="How many at most.")
@click.option("--cursor", metavar="ID", help="Go on after this job: the last one of the page before.")
@wide_or_columns(CELLS)
@store_options
@JSON
def list_jobs(
    target: str | None,
    url: str | None,
    as_json: bool,
    limit: int,
    cursor: str | None,
    *,
    wide: bool,
    columns: tuple[str, ...] | None,
    workflow: str | None,
    **which: Any,
) -> None:
    """List jobs, newest first, as wide as the terminal.

    On a terminal an id is its last digits: every command takes them. A list contains no payloads, results or error messages:
    see `holdfast jobs show`.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        after = None if cursor is None else job_of(app, cursor)
        flow = None if workflow is None else workflows_of(app, [workflow])[0]
        which["error_key"] = error_of(app, which["error_key"])
        found = app.jobs.list(limit=limit, cursor=after, workflow=flow, **which)
    if as_json:
        print_json([listed(job) for job in found])
        return
    print_jobs(found, columns, is_wide=wide)
    if len(found) == limit:
        click.echo(f"there may be more: --cursor {found[-1].id}", err=True)


def print_jobs(
    jobs: "Sequence[JobView]",
    columns: tuple[str, ...] | None,
    *,
    is_wide: bool,
    cells: "Cells" = CELLS,
    usual: Sequence[str] = USUAL,
    empty: str = "no jobs",
) -> None:
    """Print the jobs: fitted to a terminal, or whole for a pipe or ``--wide``."""
    import shutil
    import sys

    from holdfast._system.clock import SystemClock
    from holdfast.cli.fitted import fitted, print_lines
    from holdfast.cli.output import print_table, shown

    names = columns or usual
    if not sys.stdout.isatty() or not jobs:
        print_table(names, [[cells[name](job) for name in names] for job in jobs], empty=empty)
        return
    if is_wide:
        print_lines(fitted(names, [[shown(cells[name](job)) for name in names] for job in jobs], None, keep=names))
        return
    rows = rows_of(jobs, names, datetime.fromtimestamp(SystemClock().wall(), UTC), cells)
    print_lines(fitted(names, rows, shutil.get_terminal_size().columns, keep=columns or ()))


def rows_of(jobs: "Sequence[JobView]", names: Sequence[str], now: datetime, cells: "Cells" = CELLS) -> list[list[str]]:
    """Return the cells of jobs for people: ids by their last digits, and times by how long ago they were."""
    short = short_ids([job.id for job in jobs])
    return [[_brief(cells[name](job), short[job.id] if name == "id" else None, now) for name in names] for job in jobs]


def _brief(value: object, id: str | None, now: datetime) -> str:
    from holdfast.cli.output import shown

    if id is not None:
        return id
    if not isinstance(value, datetime):
        return shown(value)
    seconds = (now - value).total_seconds()
    return f"{in_words(seconds)} ago" if seconds >= 0 else f"in {in_words(-seconds)}"


def listed(job: "JobView") -> dict[str, object]:
    """Return a job as a list shows it: secrets in a payload, result or exception are shown only for a single job."""
    kept = {name: value for name, value in structs.asdict(job).items() if name not in _KEPT_FROM_LISTS}
    return kept | {"error": None if job.error is None else {"type": job.error.type}}


def _progress(job: "JobView") -> str:
    parts = (job.stage, None if job.fraction is None else f"{job.fraction:.0%}", job.message)
    return "" if job.state is State.COMPLETED else " ".join(filter(None, parts))

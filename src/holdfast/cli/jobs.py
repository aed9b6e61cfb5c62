"""``holdfast jobs``: look at jobs; ``job_actions`` changes them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click
import msgspec
from msgspec import structs

from holdfast._core.job import State
from holdfast.cli.completions import complete_job
from holdfast.cli.job_actions import cancel, delete, reschedule, retry
from holdfast.cli.options import JSON, Count, store_options
from holdfast.cli.selection import matching
from holdfast.cli.signals import signal

if TYPE_CHECKING:
    from holdfast._core.job import Failure
    from holdfast._core.view import AttemptView, JobView


@click.group()
def jobs() -> None:
    """See jobs, learn why they wait, cancel them, run them again."""


for _command in (cancel, delete, reschedule, retry, signal):
    jobs.add_command(_command)


@jobs.command("list")
@matching
@click.option("--limit", type=Count(1), default=100, show_default=True, help="How many at most.")
@click.option("--cursor", metavar="ID", help="Go on after this job: the last one of the page before.")
@store_options
@JSON
def list_jobs(target: str | None, url: str | None, as_json: bool, limit: int, **which: object) -> None:
    """List jobs, newest first.

    A list contains no payloads, results or error messages: see `holdfast jobs show`.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.jobs.list(limit=limit, **which)  # type: ignore[arg-type]
    if as_json:
        print_json([listed(job) for job in found])
        return
    columns = ("id", "task", "queue", "state", "attempt", "progress", "created", "worker", "why")
    print_table(columns, [_row(job) for job in found], empty="no jobs")
    if len(found) == limit:
        click.echo(f"there may be more: --cursor {found[-1].id}", err=True)


@jobs.command()
@click.argument("id", shell_complete=complete_job)
@click.option("--full", is_flag=True, help="Also tracebacks, stacks and late results of all attempts, and whole values.")
@click.option("--payload", is_flag=True, help="Also the payload, the result and the checkpoint at full length, indented.")
@store_options
@JSON
def show(id: str, full: bool, payload: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Show what happened to a job, when each attempt ran, and its facts. JSON has all of it."""
    from holdfast._core.story import story_of
    from holdfast._engine.operators.story import story_facts
    from holdfast._processes.loading import opened
    from holdfast._system.clock import SystemClock
    from holdfast.cli.output import print_json, to_json
    from holdfast.cli.story import lines_of
    from holdfast.cli.timeline import timeline_of
    from holdfast.sync import blocking

    with opened(target, url) as app:
        job, now = app.jobs.get(id), datetime.fromtimestamp(SystemClock().wall(), UTC)
        facts = blocking(story_facts)(app.workers, job, now)
    story = story_of(job, job.attempts, now, facts)
    if as_json:
        print_json(structs.asdict(job) | {"story": story})
        return
    timeline = list(timeline_of(story, (now - job.created_at).total_seconds()))
    for lines in filter(None, ([*lines_of(story)], timeline)):
        click.echo("\n".join(lines) + "\n")
    _print_facts(job, is_full=full)
    _print_forensics(job.attempts, job.error, is_full=full)
    if payload:
        for name in _VALUES:
            _print_part(f"{name}:", msgspec.json.format(to_json(getattr(job, name)), indent=2))


def _print_facts(job: "JobView", *, is_full: bool) -> None:
    from holdfast.cli.output import print_table, shown

    for name in job.__struct_fields__:
        value = getattr(job, name)
        if value not in (None, (), "", {}) and name not in ("attempts", "error", "points"):
            text = shown(value)
            if name in _VALUES and not is_full and len(text) > LONGEST:
                text = f"{text[:LONGEST]}… ({len(text):,} characters: --payload shows them)"
            click.echo(f"{name:<16} {text}")
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


@jobs.command()
@click.argument("id", shell_complete=complete_job)
@store_options
@JSON
def explain(id: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Explain why a job is where it is, and what can be done about it."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, shown

    with opened(target, url) as app:
        found = app.jobs.explain(id)
    if as_json:
        print_json(found)
        return
    click.echo(f"{'state':<16} {shown(found.state)}" + ("" if found.causes else f": {shown(found.summary)}"))
    for cause in found.causes:
        click.echo(f"{shown(cause.code):<16} {shown(cause.message)}")
        if cause.remedy:
            click.echo(f"{'':<16} {shown(cause.remedy)}")


@jobs.command()
@click.option("--by", type=click.Choice(["queue", "task"]), help="Per queue or per task.")
@store_options
@JSON
def counts(by: Literal["queue", "task"] | None, target: str | None, url: str | None, as_json: bool) -> None:
    """Count the jobs in each state."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.jobs.counts(by)
    if as_json:
        print_json(found)
    elif by is None:
        print_table(("state", "jobs"), list(found.items()), empty="no jobs")
    else:
        print_table((by, *State), [(group, *states.values()) for group, states in found.items()], empty="no jobs")


LONGEST = 200
"""The most characters of a payload, result or checkpoint that ``show`` prints on one line."""
_VALUES = ("payload", "result", "checkpoint")
_KEPT_FROM_LISTS = {"payload", "result", "checkpoint", "attempts", "points"}


def listed(job: "JobView") -> dict[str, object]:
    """Return a job as a list shows it: secrets in a payload, result or exception are shown only for a single job."""
    kept = {name: value for name, value in structs.asdict(job).items() if name not in _KEPT_FROM_LISTS}
    return kept | {"error": None if job.error is None else {"type": job.error.type}}


def _row(job: "JobView") -> tuple[object, ...]:
    parts = (job.stage, None if job.fraction is None else f"{job.fraction:.0%}", job.message)
    progress = "" if job.state is State.COMPLETED else " ".join(filter(None, parts))
    why = " ".join(dict.fromkeys(filter(None, (job.reason, job.error.type if job.error else None))))
    return job.id, job.task, job.queue, job.state, f"{job.attempt}", progress, job.created_at, job.worker, why


def _print_forensics(attempts: "tuple[AttemptView, ...]", error: "Failure | None", *, is_full: bool) -> None:
    """Print tracebacks, stacks and late results, each under a line that names its attempt. If not ``is_full``: of the last attempt."""
    parts = [(each.attempt, _forensics(each)) for each in attempts]
    for attempt, found in parts if is_full else parts[-1:]:
        for title, text in found.items():
            _print_part(f"attempt {attempt}, {title}:", text)
    if error is not None and error.traceback and all(each.error != error for each in attempts):
        _print_part("traceback:", error.traceback)
    left_out = [str(attempt) for attempt, found in parts[:-1] if found]
    if left_out and not is_full:
        click.echo(f"\n--full shows the tracebacks, stacks and late results of attempt {', '.join(left_out)}, too.")


def _forensics(attempt: "AttemptView") -> dict[str, str]:
    from holdfast.cli.output import shown

    parts = {
        "traceback": attempt.error.traceback if attempt.error else None,
        "stacks when it was killed": attempt.stacks,
        "late result": None if attempt.late_result is None else shown(attempt.late_result),
    }
    return {title: text for title, text in parts.items() if text}


def _print_part(title: str, text: str) -> None:
    from holdfast.cli.output import shown

    click.echo(f"\n{title}\n" + "\n".join(shown(line) for line in text.splitlines()))


def _text(error: object) -> str:
    return "" if error is None else str(error)

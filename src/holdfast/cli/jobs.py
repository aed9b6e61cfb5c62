"""``holdfast jobs``: look at jobs; ``job_actions`` changes them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click
import msgspec
from msgspec import structs

from holdfast._core.job import State
from holdfast.cli.completions import complete_job
from holdfast.cli.follow import follow
from holdfast.cli.ids import job_of
from holdfast.cli.job_actions import cancel, delete, reschedule, retry
from holdfast.cli.job_list import list_jobs
from holdfast.cli.options import JSON, store_options
from holdfast.cli.remedies import here
from holdfast.cli.signals import signal

if TYPE_CHECKING:
    from holdfast._core.job import Failure
    from holdfast._core.view import AttemptView, JobView


@click.group()
def jobs() -> None:
    """See jobs, learn why they wait, cancel them, run them again."""


for _command in (cancel, delete, follow, list_jobs, reschedule, retry, signal):
    jobs.add_command(_command)


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
        job, now = app.jobs.get(job_of(app, id)), datetime.fromtimestamp(SystemClock().wall(), UTC)
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
        found = app.jobs.explain(job_of(app, id))
    found = structs.replace(found, causes=tuple(structs.replace(each, remedy=here(each.remedy)) for each in found.causes))
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
        *first, last = left_out
        which = f"attempts {', '.join(first)} and {last}" if first else f"attempt {last}"
        click.echo(f"\n--full shows the tracebacks, stacks and late results of {which} as well.")


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

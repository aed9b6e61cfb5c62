"""``holdfast jobs follow``: each change of a job, until its end."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from holdfast._core.job import PLACE_OF, Failure, Place, Reason, State
from holdfast.cli.completions import complete_job
from holdfast.cli.ids import job_of
from holdfast.cli.options import JSON, store_options

if TYPE_CHECKING:
    from holdfast._core.view import JobView

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at the job."""


class Moment(Struct, frozen=True, kw_only=True):
    """What is followed of a job."""

    state: State
    attempt: int
    worker: str | None
    stage: str | None
    fraction: float | None
    message: str | None
    reason: Reason | None
    error: Failure | None

    @property
    def is_last(self) -> bool:
        """Whether the job has finished."""
        return PLACE_OF[self.state] is Place.FINISHED

    @property
    def text(self) -> str:
        """What is printed for people."""
        from holdfast.cli.output import shown

        attempt = f"attempt {self.attempt}" if self.attempt and not self.is_last else ""
        worker = f"on {self.worker}" if self.worker and not self.is_last else ""
        progress = (self.stage, None if self.fraction is None else f"{self.fraction:.0%}", self.message)
        why = (self.reason, None if self.error is None else str(self.error))
        parts = (attempt, worker, *(() if self.state is State.COMPLETED else progress), *why)
        return f"{self.state.value:<9}  {'  '.join(shown(part) for part in parts if part)}".rstrip()


def moment_of(job: "JobView") -> Moment:
    """Return what is followed of a job, as it is now."""
    return Moment(**{name: getattr(job, name) for name in Moment.__struct_fields__})


def moments(views: "Iterable[JobView]") -> Iterator[Moment]:
    """Yield what is followed of a job, without changes of anything else."""
    last = None
    for view in views:
        if (now := moment_of(view)) != last:
            last = now
            yield now


@click.command()
@click.argument("id", shell_complete=complete_job)
@store_options
@JSON
@click.pass_context
def follow(context: click.Context, /, *, id: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Print each change of a job until it has finished: its state, and the stage, fraction and message of its progress.

    It looks twice a second. --json prints one document on each line. The exit code is 1 if the job failed or was cancelled.
    """
    from holdfast._processes.loading import opened
    from holdfast._system.clock import SystemClock
    from holdfast.cli.output import to_json

    clock, is_completed = SystemClock(), False
    with opened(target, url) as app:
        job = job_of(app, id)
        for moment in moments(app.jobs.follow(job, every=LOOK_EVERY)):
            at = datetime.fromtimestamp(clock.wall(), UTC)
            if as_json:
                click.echo(to_json({"at": at, "id": job} | {name: getattr(moment, name) for name in moment.__struct_fields__}))
            else:
                click.echo(f"{at:%H:%M:%S}Z  {moment.text}")
            is_completed = moment.state is State.COMPLETED
    context.exit(0 if is_completed else 1)

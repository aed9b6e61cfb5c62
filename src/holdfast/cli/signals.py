"""``holdfast jobs signal``: send a value to a job that waits for it, or will."""

import click

from holdfast.cli.completions import complete_job
from holdfast.cli.ids import job_of
from holdfast.cli.options import JSON, store_options, utf8


@click.command()
@click.argument("id", shell_complete=complete_job)
@click.argument("name")
@click.argument("value", default="null")
@store_options
@JSON
@click.pass_context
def signal(
    context: click.Context, /, *, id: str, name: str, value: str, target: str | None, url: str | None, as_json: bool
) -> None:
    """Send a signal to the job ID, which consumes it with job.wait_for(NAME).

    VALUE is JSON: an unquoted word is not, '"yes"' is. Without one, the value is null. A job that has not asked for the signal yet gets it
    when it does. A finished job refuses it, and the exit code is 1.
    """
    from holdfast._core.payload import decode_json
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json
    from holdfast.errors import PayloadInvalid

    try:
        decoded = decode_json(utf8(value, "VALUE"))
    except PayloadInvalid as error:
        raise click.UsageError(f"VALUE is not JSON: {error}; put a string in double quotes: '\"{value}\"'") from None
    with opened(target, url) as app:
        job = job_of(app, id)
        is_accepted = app.jobs.signal(job, name, decoded)
    if as_json:
        print_json({"id": job, "signal": name, "accepted": is_accepted})
    else:
        click.echo("accepted" if is_accepted else "refused: the job has finished")
    context.exit(0 if is_accepted else 1)

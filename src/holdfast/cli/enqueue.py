"""``holdfast enqueue``."""

from datetime import datetime
from typing import Any

import click

from holdfast.cli.completions import complete_queue
from holdfast.cli.options import DURATION, INSTANT, TARGET, utf8


class HeaderType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """``NAME=VALUE`` as a name and a value."""

    name = "header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Convert to the name and the value, which may hold more equals signs."""
        utf8(value, "--header")
        name, sign, text = value.partition("=")
        if not name or not sign:
            self.fail(f"{value!r} is no header: write NAME=VALUE", param, ctx)
        return name, text


@click.command()
@TARGET
@click.argument("task")
@click.argument("payload", default="{}")
@click.option("--queue", shell_complete=complete_queue, help="Its queue.  [default: the task's]")
@click.option("--priority", type=int, help="Smaller runs first.  [default: the task's]")
@click.option("--key", help="Whose job it is, usually a tenant.")
@click.option("--unique-key", help="One unfinished job of the task may have it; another enqueue prints that job's id.")
@click.option("--tag", "tags", multiple=True, help="A tag; give it once for each.")
@click.option(
    "--header", "headers", type=HeaderType(), multiple=True, metavar="NAME=VALUE", help="A header; give it once for each."
)
@click.option("--delay", type=DURATION, help="Due after this time.")
@click.option("--at", "run_at", type=INSTANT, metavar="TIME", help="Due then: ISO 8601 with its zone, such as 2030-01-31T08:00Z.")
@click.option("--expires-in", type=DURATION, help="Not started by then, it fails instead.")
def enqueue(
    target: str,
    task: str,
    payload: str,
    *,
    headers: tuple[tuple[str, str], ...],
    delay: float | None,
    run_at: datetime | None,
    **options: Any,
) -> None:
    """Enqueue a job and print its id.

    PAYLOAD is a JSON object, checked against the task's signature: '{"repo_url": "…"}'.
    """
    from holdfast._core.payload import decode_json
    from holdfast._processes.loading import opened
    from holdfast.app import task_of
    from holdfast.errors import PayloadInvalid, UnknownTask

    if delay is not None and run_at is not None:
        raise click.UsageError("two times given: use --delay or --at, one of them")
    encoded = utf8(payload, "PAYLOAD")
    with opened(target) as app:
        if (known := task_of(app, task)) is None:
            raise UnknownTask(f"{target} has no task {task!r}; there are: {', '.join(app.registry.names()) or 'none'}")
        try:
            fields = decode_json(encoded)
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"PAYLOAD is not JSON ({error}): write '{{\"field\": value}}'") from None
        if not isinstance(fields, dict):
            raise PayloadInvalid("PAYLOAD is not a JSON object: write '{\"field\": value}'")
        job = known.options(**options, headers=dict(headers) or None, delay=delay, run_at=run_at)
        click.echo(job.enqueue(**fields).id)

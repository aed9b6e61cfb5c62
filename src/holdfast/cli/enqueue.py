"""``holdfast enqueue``."""

import click

from holdfast.cli.options import TARGET


@click.command()
@TARGET
@click.argument("task")
@click.argument("payload", default="{}")
def enqueue(target: str, task: str, payload: str) -> None:
    """Enqueue a job and print its id.

    PAYLOAD is a JSON object, checked against the task's signature: '{"repo_url": "…"}'.
    """
    from holdfast._core.payload import decode_json
    from holdfast._processes.loading import opened
    from holdfast.errors import PayloadInvalid, UnknownTask

    with opened(target) as app:
        if app.registry.get(task) is None:
            raise UnknownTask(f"{target} has no task {task!r}; there are: {', '.join(app.registry.names()) or 'none'}")
        try:
            fields = decode_json(payload.encode(errors="surrogateescape"))
        except (ValueError, RecursionError) as error:
            raise PayloadInvalid(f"PAYLOAD is not JSON ({error}): write '{{\"field\": value}}'") from None
        if not isinstance(fields, dict):
            raise PayloadInvalid("PAYLOAD is not a JSON object: write '{\"field\": value}'")
        click.echo(app.enqueue(task, **fields).id)

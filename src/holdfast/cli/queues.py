"""``holdfast queues``."""

from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from holdfast.cli.audit import audited_with_reason
from holdfast.cli.completions import complete_queue
from holdfast.cli.options import JSON, KEY_WEIGHT, store_options
from holdfast.cli.selection import confirm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast._core.answers import QueueView
    from holdfast._core.audit import AuditEntry
    from holdfast.app import App

NAMES = click.argument("names", metavar="QUEUE...", nargs=-1, required=True, shell_complete=complete_queue)


@click.group()
def queues() -> None:
    """See queues, pause them, let them run again, empty them, set how they are served."""


@queues.command("list")
@store_options
@JSON
def list_queues(target: str | None, url: str | None, as_json: bool) -> None:
    """List queues that have jobs, are paused or have settings."""
    from holdfast._core.job import State
    from holdfast._processes.loading import opened
    from holdfast.cli.frame import count_text
    from holdfast.cli.output import print_json, print_table

    with opened(target, url) as app:
        found = app.queues.list()
        pauses = _pauses(app) if any(queue.paused_at for queue in found) else ()
    if as_json:
        print_json([structs.asdict(queue) | _pause_of(queue, pauses) for queue in found])
        return
    rows = [
        (
            *(queue.name, _condition(queue, pauses), *(count_text(queue, state) for state in State)),
            *(queue.settings.priority, queue.settings.weight),
            ", ".join(f"{key}={weight}" for key, weight in sorted(queue.settings.key_weights.items())),
        )
        for queue in found
    ]
    print_table(("queue", "condition", *State, "priority", "weight", "key weights"), rows, empty="no queues")


@queues.command()
@NAMES
@audited_with_reason
@store_options
def pause(names: tuple[str, ...], target: str | None, url: str | None) -> None:
    """Start no more jobs of these queues; running ones go on, and jobs may still be enqueued."""
    _pause(names, target, url, is_paused=True)


@queues.command()
@NAMES
@audited_with_reason
@store_options
def resume(names: tuple[str, ...], target: str | None, url: str | None) -> None:
    """Let paused queues run again."""
    _pause(names, target, url, is_paused=False)


@queues.command()
@click.argument("name", metavar="QUEUE", shell_complete=complete_queue)
@click.option("--dry-run", is_flag=True, help="Print how many jobs it would be, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@audited_with_reason
@store_options
@JSON
def purge(name: str, dry_run: bool, yes: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Delete all waiting jobs of a queue, those that are due later included; running and held jobs stay."""
    from holdfast._core.job import State
    from holdfast._engine.operators.queues import queue_names
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    queue_names(name)
    with opened(target, url) as app:
        counts = next((queue.counts for queue in app.queues.list() if queue.name == name), {})
        waiting = sum(counts.get(state, 0) for state in (State.SCHEDULED, State.AVAILABLE, State.BLOCKED))
        if not dry_run and waiting:
            confirm(f"delete {_waiting(waiting)} of queue {name}?", yes=yes)
        deleted = 0 if dry_run or not waiting else app.queues.purge(name)
    if as_json:
        print_json({"queue": name, "waiting": waiting, "deleted": deleted})
    elif dry_run:
        click.echo(f"would delete {_waiting(waiting)} of queue {name}")
    else:
        click.echo(f"{_waiting(deleted)} of queue {name} deleted")


@queues.command("set")
@click.argument("name", metavar="QUEUE", shell_complete=complete_queue)
@click.option("--priority", type=int, metavar="N", help="Added to the priority of each of its jobs; smaller runs sooner.")
@click.option("--weight", type=int, metavar="N", help="How many jobs one turn of each of its lanes has.")
@click.option(
    "--key-weight",
    "key_weights",
    multiple=True,
    type=KEY_WEIGHT,
    help="What the weight is multiplied by for a key; give it once for each. 1 is the default.",
)
@audited_with_reason
@store_options
@JSON
def set_queue(
    name: str, key_weights: tuple[tuple[str, int], ...], target: str | None, url: str | None, as_json: bool, **given: Any
) -> None:
    """Set how a queue is served; what is not given stays as it is. Code does not change it back."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    if not key_weights and all(value is None for value in given.values()):
        raise click.UsageError("nothing to set: use --priority, --weight or --key-weight")
    with opened(target, url) as app:
        is_known = any(queue.name == name for queue in app.queues.list())
        settings = app.queues.set(name, **given, key_weights=dict(key_weights) or None)
    if as_json:
        print_json({"queue": name, "settings": settings})
    else:
        weights = "".join(f", {key} {weight}" for key, weight in sorted(settings.key_weights.items()))
        click.echo(f"queue {name}: priority {settings.priority}, weight {settings.weight}" + (weights and f"; keys{weights[1:]}"))
    if not is_known:
        click.echo(f"the queue {name!r} had no jobs and no settings until now: check its name", err=True)


@queues.command()
@NAMES
@audited_with_reason
@store_options
@JSON
def unset(names: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Remove the settings of these queues. A worker whose code declares some stores those within a minute."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        for name in names:
            app.queues.unset(name)
            if not as_json:
                click.echo(f"queue {name}: settings removed")
    if as_json:
        print_json([{"queue": name} for name in names])


def _waiting(count: int) -> str:
    return f"{count:,} waiting job{'' if count == 1 else 's'}"


def _pause(names: tuple[str, ...], target: str | None, url: str | None, *, is_paused: bool) -> None:
    from holdfast._processes.loading import opened

    with opened(target, url) as app:
        known = _known(app) if is_paused else set(names)
        for name in names:
            if is_paused:
                app.queues.pause(name)
            else:
                app.queues.resume(name)
            click.echo(f"queue {name} {'paused' if is_paused else 'resumed'}")
            if name not in known:
                click.echo(f"the queue {name!r} had no jobs until now, and no task names it: check its name", err=True)


def _known(app: "App") -> set[str]:
    served = {queue for worker in app.workers.list() for queue in worker.queues}
    return served | {queue.name for queue in app.queues.list()} | set(app.registry.declared().named)


def _pauses(app: "App") -> "Sequence[AuditEntry]":
    from holdfast.errors import Unsupported

    try:
        return app.audit.list(action="pause")
    except Unsupported:
        return ()


def _pause_of(queue: "QueueView", pauses: "Sequence[AuditEntry]") -> dict[str, str | None]:
    from holdfast._core.pauses import pause_of

    found = None if queue.paused_at is None else pause_of(queue.name, pauses)
    return {"paused_by": None if found is None else found.who, "paused_because": None if found is None else found.reason}


def _condition(queue: "QueueView", pauses: "Sequence[AuditEntry]") -> str:
    from holdfast._core.pauses import paused_by

    if queue.paused_at is None:
        return "open"
    return f"paused since {queue.paused_at:%Y-%m-%d %H:%M:%S}Z{paused_by(queue.name, pauses)}"

"""``holdfast store``: stores in a bucket."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.options import JSON, store_options

if TYPE_CHECKING:
    from holdfast._ports.upkeep import HasObjects

Result = TypeVar("Result")


@click.group()
def store() -> None:
    """See what a store in a bucket consists of, verify it, compact it, copy it, restore it."""


@store.command()
@store_options
@JSON
def inspect(target: str | None, url: str | None, as_json: bool) -> None:
    """Show the head, its objects and its rows. Nothing is written."""
    from holdfast.cli.output import print_json, print_table

    found = _of_store(target, url, lambda objects: objects.inspect())
    if as_json:
        print_json(found)
        return
    rows = [
        ("store", str(found.store)),
        ("format", f"{found.format}, readable from {found.needs} on"),
        (
            "version",
            f"{found.version:,}" + ("" if found.written_at is None else f", written {found.written_at:%Y-%m-%d %H:%M:%S}Z"),
        ),
        ("broker", "none leads" if found.broker is None else f"{found.broker} leads, epoch {found.epoch:,}"),
        ("jobs", f"{found.unfinished:,} unfinished, {found.finished:,} finished, {found.archived:,} archived"),
        ("head", f"{found.head_bytes:,} bytes; its tail: {found.tail_commits} writes, {found.tail_bytes:,} bytes of changes"),
        ("runs", f"{found.runs}, {found.run_bytes:,} bytes before compression"),
        (
            "garbage",
            f"{found.garbage} objects to be deleted a day after they were dropped; {found.unnamed} below runs/ not in use",
        ),
        ("stored", f"{found.stored_bytes:,} bytes in all objects below {found.url}"),
        *((f"rows of {table}", f"{count:,}") for table, count in found.rows.items()),
    ]
    print_table(("what", "is"), rows, empty="nothing")


@store.command()
@store_options
@JSON
@click.pass_context
def verify(context: click.Context, target: str | None, url: str | None, as_json: bool) -> None:
    """Read every object and every row, and name all that is damaged.

    It compares the counts and indexes with those that the rows alone lead to. Nothing is written. The exit code is 1 if anything
    is damaged.
    """
    from holdfast.cli.output import print_json, print_table
    from holdfast.cli.remedies import here

    found = _of_store(target, url, lambda objects: objects.verify())
    if as_json:
        print_json(found)
    elif found.damage:
        print_table(
            ("object", "problem", "remedy"), [(each.key, each.problem, here(each.remedy)) for each in found.damage], empty=""
        )
    else:
        click.echo(f"{found.objects} objects are whole: version {found.version:,}, {found.rows:,} rows, {found.jobs:,} jobs")
    context.exit(1 if found.damage else 0)


@store.command()
@store_options
@JSON
def compact(target: str | None, url: str | None, as_json: bool) -> None:
    """Merge all runs into one, and delete objects that no process needs any more.

    Workers may run. Deleted are objects that the head dropped a day ago, and runs of that age that it never named. Processes that
    use a store merge and delete by themselves, gradually.
    """
    from holdfast.cli.output import print_json

    done = _of_store(target, url, lambda objects: objects.compact())
    if as_json:
        print_json(done)
        return
    click.echo(f"{done.runs_before} runs became {done.runs}, of {done.run_bytes:,} bytes before compression")
    click.echo(f"{done.deleted} dropped objects deleted, and {done.orphans} that no head named")


@store.command()
@click.argument("place")
@store_options
@JSON
def backup(place: str, target: str | None, url: str | None, as_json: bool) -> None:
    """Copy the store to PLACE while workers run.

    PLACE is the URL of another prefix or bucket, or a folder. The copy holds the store as it was at one moment; each object is
    decoded on the way. Nothing is replaced.
    """
    from holdfast.cli.output import print_json

    copied = _of_store(target, url, lambda objects: objects.back_up(place))
    if as_json:
        print_json(copied)
    else:
        click.echo(f"{copied.jobs:,} jobs copied to {copied.path} ({copied.size:,} bytes), and every object can be read")


@store.command()
@click.argument("place")
@click.option("--force", is_flag=True, help="Replace the store that is there: all its jobs are forgotten.")
@store_options
@JSON
def restore(place: str, force: bool, target: str | None, url: str | None, as_json: bool) -> None:
    """Make the store of the backup at PLACE.

    It gets a new id, so processes that use a store of the same prefix stop with an error until they are started again. What
    happened after the backup is forgotten: jobs that finished since then run again.
    """
    from holdfast.cli.output import print_json

    made = _of_store(target, url, lambda objects: objects.restore(place, is_forced=force))
    if as_json:
        print_json(made)
    else:
        click.echo(f"{made.jobs:,} jobs restored to {made.path}; start the processes that use it again")


def _of_store(target: str | None, url: str | None, act: "Callable[[HasObjects], Coroutine[Any, Any, Result]]") -> Result:
    from holdfast._engine.operators.upkeep import objects_of
    from holdfast._processes.loading import opened
    from holdfast.app import environment_of
    from holdfast.sync import PORTAL

    with opened(target, url, makes=True) as app:
        return PORTAL.run(act(objects_of(environment_of(app).store)))

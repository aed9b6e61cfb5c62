"""``holdfast copy``."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import DURATION, JSON

if TYPE_CHECKING:
    from holdfast._engine.operators.copying import Copied
    from holdfast.app import App

WHERE = "a store's URL, or MODULE:APP for one with other settings."


@click.command()
@click.option("--from", "source", required=True, metavar="URL", help=f"Where the jobs are: {WHERE}")
@click.option("--to", "destination", required=True, metavar="URL", help=f"Where they go: {WHERE} Migrate it before.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; give it once for each.  [default: all]")
@click.option("--wait", type=DURATION, help="The longest wait for running jobs to end.  [default: no limit]")
@click.option("--dry-run", is_flag=True, help="Print what would be moved and what would stay, change nothing.")
@JSON
def copy(source: str, destination: str, queues: tuple[str, ...], wait: float | None, dry_run: bool, as_json: bool) -> None:
    """Move the waiting jobs of a store to another one.

    It pauses the queues at both, waits until no job of them runs at the source, and moves the waiting ones with their ids. At the
    end the queues are open at the destination and stay paused at the source. Killed at any point, it can be run again.

    Not copied: finished jobs, workflows, jobs with recorded steps or a checkpoint, held jobs, schedules, limits, settings of queues,
    actions of operators, the history of minutes. They stay at the source.
    """
    from holdfast._engine.operators.copying import Copying
    from holdfast.app import environment_of
    from holdfast.cli.output import print_json
    from holdfast.sync import PORTAL

    with _opened(source, "--from") as ours, _opened(destination, "--to", makes=True) as theirs:
        here, there = environment_of(ours), environment_of(theirs)
        copying = Copying(
            here.store,
            there.store,
            only=queues or None,
            clock=here.clock,
            chance=here.chance,
            report=lambda line: None if as_json else click.echo(line, err=True),
        )
        if dry_run:
            done = PORTAL.run(copying.plan())
        else:
            with _saying_what_is_left():
                done = PORTAL.run(copying.run(wait=wait))
    if as_json:
        print_json(done)
    else:
        _print(done, source, destination, dry_run=dry_run)


@contextmanager
def _opened(place: str, option: str, *, makes: bool = False) -> "Iterator[App]":
    from holdfast._processes.loading import opened

    if place.startswith("memory://"):
        raise click.UsageError(f"{option} {place}: jobs in memory end with this command; name a store such as sqlite:///jobs.db")
    is_url = "://" in place
    with opened(None if is_url else place, place if is_url else None, makes=makes) as app:
        yield app


@contextmanager
def _saying_what_is_left() -> Iterator[None]:
    from holdfast.errors import StoreUnavailable

    try:
        yield
    except (StoreUnavailable, KeyboardInterrupt):
        click.echo("what was moved stays moved, and queues may be paused at both stores: run the same command again", err=True)
        raise


def _print(done: "Copied", source: str, destination: str, *, dry_run: bool) -> None:
    from holdfast.cli.remedies import Named, with_names

    known = f", {done.already_there:,} of them written by an earlier copy" if done.already_there else ""
    click.echo(f"{done.moved:,} jobs {'would be moved' if dry_run else 'moved'}{known}")
    if done.running:
        click.echo(f"{done.running:,} jobs run, and would be waited for")
    for why, number in done.stay.items():
        click.echo(f"{number:,} {'would stay' if dry_run else 'stay'} at the source: {why}")
    if done.not_copied:
        click.echo(f"not copied: {', '.join(f'{number:,} {what}' for what, number in done.not_copied.items())}")
    for where, place, paused in (
        ("source", source, done.paused_source),
        ("destination", destination, done.paused_destination),
    ):
        if paused:
            named = Named(url=place) if "://" in place else Named(app=place)
            opens = with_names(f"`holdfast queues resume {shlex.join(paused)}`", named)
            click.echo(f"paused at the {where}: {', '.join(paused)}; {opens} opens them")

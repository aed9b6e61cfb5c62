"""``holdfast schedules``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.audit import audited_with_reason
from holdfast.cli.options import JSON, Count, store_options

if TYPE_CHECKING:
    from holdfast._core.schedule import ScheduleView
    from holdfast.app import App

NAMES = click.argument("names", metavar="SCHEDULE...", nargs=-1, required=True)
NAME = click.argument("name", metavar="SCHEDULE")


@click.group()
def schedules() -> None:
    """See schedules, pause them, let them go on, run their job now."""


@schedules.command("list")
@click.option("--next", "number", type=Count(1, 1000), default=1, show_default=True, help="How many coming ticks of each.")
@store_options
@JSON
def list_schedules(number: int, target: str | None, url: str | None, as_json: bool) -> None:
    """List schedules by name, each with its coming ticks, and the tick and job of the last one."""
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table, shown

    with opened(target, url) as app:
        found = app.schedules.list(next=number)
    if as_json:
        print_json(found)
        return
    columns = ("schedule", "condition", "when", "task", "next", "last tick", "last job", "source")
    rows = [
        (
            each.name,
            _condition(each),
            each.when,
            each.task,
            ", ".join(shown(tick) for tick in each.next),
            each.last_tick,
            each.last_job,
            each.source.value,
        )
        for each in found
    ]
    print_table(columns, rows, empty="no schedules")


@schedules.command()
@NAMES
@audited_with_reason
@store_options
@JSON
def run(names: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Enqueue the job of these schedules now, beside their ticks, which stay as they are."""
    _each(
        names, target, url, as_json, lambda app, name: {"schedule": name, "job": str(app.schedules.run_now(name).id)}, "job {job}"
    )


@schedules.command()
@NAMES
@audited_with_reason
@store_options
@JSON
def pause(names: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Fire no more ticks of these schedules, until they are resumed. Ticks until then are not missed."""
    _each(names, target, url, as_json, lambda app, name: app.schedules.pause(name), "paused")


@schedules.command()
@NAMES
@audited_with_reason
@store_options
@JSON
def resume(names: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Let paused schedules go on with their first tick after now."""
    _each(names, target, url, as_json, lambda app, name: app.schedules.resume(name), "resumed")


@schedules.command()
@NAME
@click.argument("number", metavar="[NUMBER]", type=Count(1, 1000), default=1)
@audited_with_reason
@store_options
@JSON
def skip(name: str, number: int, target: str | None, url: str | None, as_json: bool) -> None:
    """Leave out the next tick of a schedule, or the next NUMBER ticks."""
    _each((name,), target, url, as_json, lambda app, name: app.schedules.skip(name, number), "skips")


@schedules.command()
@NAMES
@audited_with_reason
@store_options
@JSON
def remove(names: tuple[str, ...], target: str | None, url: str | None, as_json: bool) -> None:
    """Forget these schedules; their jobs stay. A worker whose code has one stores it again: pause such a one instead."""

    def forget(app: "App", name: str) -> dict[str, str]:
        app.schedules.remove(name)
        return {"schedule": name}

    _each(names, target, url, as_json, forget, "removed")


def _each(
    names: tuple[str, ...], target: str | None, url: str | None, as_json: bool, act: Callable[["App", str], Any], done: str
) -> None:
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json

    with opened(target, url) as app:
        answers = []
        for name in names:
            answers.append(act(app, name))
            if not as_json:
                values = answers[-1] if isinstance(answers[-1], dict) else {}
                click.echo(f"schedule {name}: {done.format(**values)}")
    if as_json:
        print_json(answers)


def _condition(schedule: "ScheduleView") -> str:
    return "on" if schedule.paused_at is None else f"paused since {schedule.paused_at:%Y-%m-%d %H:%M:%S}Z"

"""``holdfast check``."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from msgspec import structs

from holdfast.cli.options import JSON, app_or_store_options, url_option

if TYPE_CHECKING:
    from holdfast._core.answers import Check
    from holdfast.app import App


@click.command()
@app_or_store_options
@url_option
@JSON
@click.pass_context
def check(context: click.Context, target: str | None, url: str | None, as_json: bool) -> None:
    """Report what is right and wrong, all at once.

    It looks at settings, tasks and the store, with --url at the store only; each finding names its remedy. The exit code is 1 if
    anything is an error, 2 if the settings do not even make an App.
    """
    from holdfast._processes.loading import opened
    from holdfast.cli.output import print_json, print_table
    from holdfast.cli.remedies import here

    name = target or (None if url else os.environ.get("HOLDFAST_APP"))
    with opened(target, url, makes=name is not None) as app:
        found = (*_of_workers(app, name), *app.check())
    findings = [structs.replace(each, message=here(each.message), remedy=here(each.remedy)) for each in found]
    if as_json:
        print_json(findings)
    else:
        order = ("error", "warning", "ok")
        ranked = sorted(findings, key=lambda finding: order.index(finding.level))
        rows = [(finding.level, finding.name, finding.message, finding.remedy) for finding in ranked]
        print_table(("level", "name", "finding", "remedy"), rows, empty="nothing to say")
    context.exit(1 if any(finding.level == "error" for finding in findings) else 0)


def _of_workers(app: "App", name: str | None) -> "Iterator[Check]":
    """Find what `holdfast worker` would refuse, although the App itself is valid."""
    from holdfast._core.answers import Check
    from holdfast._core.platforms import limits_of
    from holdfast._system.guard import sees_processes

    if (limits := limits_of(sys.platform, sees_processes=sees_processes())) is not None:
        yield Check("warning", "system", *limits)
    if name and not app.registry.names() and not app.watches:  # a watch without a handler has a separate finding
        remedy = "decorate a function with @app.task in this module or one that it imports"
        yield Check("warning", "tasks", f"{name} has no tasks, so no worker can run it", remedy)
    if app.settings.url.startswith(("memory://", "memory-object://")):
        remedy = "use a store such as sqlite:///jobs.db"
        yield Check("warning", "store", f"{app.settings.url} lives inside one process: no worker can share it", remedy)

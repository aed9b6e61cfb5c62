"""What tab completion offers. It must be quick and silent: on any error it offers nothing."""

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from holdfast._core.job import State
from holdfast._core.short_ids import fitting, part_of_id, short_ids

if TYPE_CHECKING:
    from holdfast._core.view import JobView
    from holdfast._core.workflow_view import WorkflowView
    from holdfast.app import App

TIMEOUT = 1.0
MOST_FILES = 500
MOST_OFFERED = 50
OWNED = (State.CLAIMED, State.RUNNING)
_APP = re.compile(r"^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)?App\(", re.MULTILINE)
_LEFT_OUT = {"node_modules", "__pycache__", "site-packages", "build", "dist"}

Answered = TypeVar("Answered")


def complete_app(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List modules below the current folder that make an App, read rather than imported."""
    return _offers(_apps(Path.cwd()), typed)


def complete_queue(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List the queues that have jobs."""
    return _offers(_ask(context, lambda app: app.jobs.acounts("queue")) or (), typed)


def complete_task(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List the tasks that have jobs."""
    return _offers(_ask(context, lambda app: app.jobs.acounts("task")) or (), typed)


def complete_scope_name(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List the queues or the tasks that have jobs, as the scope before asks for."""
    match context.params.get("scope"):
        case "queue":
            return complete_queue(context, parameter, typed)
        case "task":
            return complete_task(context, parameter, typed)
    return []


def complete_limit(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List the names that have a limit of the scope before."""
    scope = context.params.get("scope")
    found = _ask(context, lambda app: app.limits.alist()) or ()
    return _offers((each.name for each in found if each.scope == scope and each.name), typed)


def complete_job(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List running and the newest jobs by the ends of their ids, with task and state beside them; whole ids once one has been begun."""

    async def read(app: "App") -> "list[JobView]":
        return [*await app.jobs.alist(limit=MOST_OFFERED), *await app.jobs.alist(state=OWNED, limit=MOST_OFFERED)]

    return _ids(_ask(context, read) or (), typed)


def complete_workflow(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List the newest workflows by the ends of their ids, with name and state beside them; whole ids once one has been begun."""
    return _ids(_ask(context, lambda app: app.workflows.alist(limit=MOST_OFFERED)) or (), typed)


def _ids(jobs: "Iterable[JobView]", typed: str) -> list[CompletionItem]:
    by_id = {job.id: job for job in jobs}
    short = short_ids(by_id)
    offers = [(short[id], job) for id, job in by_id.items()]
    offers += [(str(id), job) for id, job in by_id.items() if typed and short[id] != str(id)]
    return [CompletionItem(text, help=f"{job.task} {job.state}") for text, job in offers if text.startswith(typed.lower())]


def complete_node(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """List the nodes of the workflow before."""
    ids = context.params.get("ids") or context.args or ("",)  # while an option is typed, arguments are not parsed yet

    async def read(app: "App") -> "WorkflowView":
        part = part_of_id(ids[0])
        known = [] if part is None else [each.id for each in await app.workflows.alist(limit=MOST_OFFERED)]
        return await app.workflows.aget(ids[0] if part is None else fitting(known, part)[0])

    found = _ask(context, read)
    return _offers((node.name for node in found.nodes) if found is not None else (), typed)


def _ask(context: click.Context, question: "Callable[[App], Coroutine[Any, Any, Answered]]") -> Answered | None:
    """Ask the store that options or environment name, with a short time limit; a missing store is not created."""
    from holdfast._processes.loading import opened
    from holdfast.sync import PORTAL

    try:
        with (
            open(os.devnull, "w") as nothing,
            redirect_stdout(nothing),
            redirect_stderr(nothing),
            opened(_target(context), context.params.get("url")) as app,
        ):
            path = app.settings.url.removeprefix("sqlite:///")
            if path == app.settings.url or not os.path.exists(path):
                return None
            return PORTAL.run(asyncio.wait_for(question(app), TIMEOUT))
    except (Exception, SystemExit):
        return None


def _target(context: click.Context) -> str | None:
    """Return the App that an option or the first word names."""
    target = context.params.get("target") or context.meta.get("holdfast.cli.app")
    words: Sequence[str] = context.params.get("words") or ()
    return target or (words[0] if len(words) > 1 else None)


def _offers(names: Iterable[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(typed)][:MOST_OFFERED]


def _apps(folder: Path) -> Iterator[str]:
    for seen, path in enumerate(_modules(folder)):
        if seen >= MOST_FILES:
            return
        try:
            names = _APP.findall(path.read_text(errors="replace"))
        except OSError:
            continue
        module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        yield from (module if name == "app" else f"{module}:{name}" for name in names)


def _modules(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name.isidentifier() and name not in _LEFT_OUT)
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".py") and name[:-3].isidentifier())

"""Whether a handler takes its job: the first parameter, by its annotation."""

import inspect
from collections.abc import Callable
from typing import Any, get_args

from holdfast._core.payload import annotations_of


def takes_job_of(function: Callable[..., Any], problems: list[str], runs_in: str) -> bool:
    """Return whether the first parameter is the job. Where the handler runs decides which class it must be."""
    hints = annotations_of(function)
    parameters = list(inspect.signature(function).parameters)
    is_async = inspect.iscoroutinefunction(function)
    wanted, kind = ("Job", "async def") if is_async else ("SyncJob", "def")
    where = "the event loop" if is_async else runs_in
    for position, parameter in enumerate(parameters):
        hint = hints.get(parameter)
        mentioned = any(_job_class(part) for part in (hint, *get_args(hint)))
        if mentioned and position > 0:
            problems.append(f"the job parameter comes first: move {parameter!r} to the front")
        elif mentioned and _job_class(hint) != wanted:
            problems.append(f"in `{kind}` write `{parameter}: {wanted}`, because it runs in {where}")
        elif position == 0 and parameter == "job" and hint is None:
            problems.append(f"write `job: {wanted}` to receive the job, or rename this parameter")
    return bool(parameters) and _job_class(hints.get(parameters[0])) == wanted


def _job_class(hint: object) -> str | None:
    """Return ``"Job"`` or ``"SyncJob"`` for that class, known by its name: an App whose handlers take no job does not load it."""
    if isinstance(hint, type) and hint.__module__ == "holdfast._engine.tasks.context" and hint.__name__ in ("Job", "SyncJob"):
        return hint.__name__
    return None

"""The form by which a person enqueues a job, with what is wrong beside the field that it is about."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from holdfast.dashboard.actions import EFFECTS
from holdfast.dashboard.views.page import Page
from holdfast.errors import HoldfastError, PayloadInvalid, UniqueConflict, UnknownTask
from holdfast.http.changes import MOST_REASON
from holdfast.http.managed import Managed
from holdfast.http.permissions import Action
from holdfast.http.problems import Fault, problem_of
from holdfast.http.submitting import Submission, SubmitOptions, Submitting

OPTIONS: Final = ("queue", "delay", "key", "unique_key")
LABELS: Final = {
    "task": ("Task", ""),
    "payload": ("Payload: the arguments by name, as JSON", '{"to": "ada"}'),
    "queue": ("Queue (optional)", "default"),
    "delay": ("Due after (optional)", "10m"),
    "key": ("Key (optional)", ""),
    "unique_key": ("Unique key (optional)", ""),
}


def tasks_of(managed: Managed) -> list[str]:
    """Return the tasks of which a person may enqueue a job: workflows are built by code, and runs over rows by supervisors."""
    known = ((name, managed.registry.get(name)) for name in managed.registry.names())
    return sorted(name for name, task in known if task is not None and task.workflow is None and task.rows is None)


def enqueue_form(managed: Managed, given: Mapping[str, str], faults: Sequence[Fault] = ()) -> Page:
    """Return the form. ``faults``: what is wrong with what was sent."""
    effect, beside = EFFECTS["task", Action.ENQUEUE], dict[str, str]()
    for fault in faults:
        name = fault.pointer.strip("/").rpartition("/")[2]
        beside.setdefault(name if name in LABELS else "payload" if name else "", fault.detail)
    values: dict[str, Any] = {
        "tasks": tasks_of(managed),
        "task": given.get("task", given.get("name", "")),
        "fields": [
            {"name": name, "label": label, "hint": hint, "value": given.get(name, ""), "problem": beside.get(name, "")}
            for name, (label, hint) in LABELS.items()
        ],
        "problem": beside.get("", ""),
        "effect": effect.text,
        "undo": effect.undo,
        "most_reason": MOST_REASON,
        "reason": given.get("reason", ""),
    }
    return Page(
        template="enqueue.html",
        title="Enqueue a job",
        section="/jobs",
        values=values,
        status=422 if faults else 200,
        has_form=True,
    )


async def enqueue(managed: Managed, given: Mapping[str, str]) -> UUID | list[Fault]:
    """Enqueue the job that a form describes. Return its id, that of the job with its unique key, or what is wrong."""
    task, text = given.get("task", "").strip(), given.get("payload", "").strip() or "{}"
    if task not in tasks_of(managed):
        return [Fault("/task", "choose one of the tasks")]
    try:
        payload = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [Fault("/payload", f"this is not a JSON object: {error}")]
    options = {name: value for name in OPTIONS if (value := given.get(name, "").strip())}
    submitting = Submitting(managed.environment, lambda: managed.client, managed.registry)
    try:
        return await submitting.submit(Submission(task, payload, SubmitOptions(**options)))  # type: ignore[arg-type]
    except (PayloadInvalid, UnknownTask) as error:
        return [Fault("/payload", str(error))]
    except UniqueConflict as error:
        return [Fault("/unique_key", str(error))]
    except HoldfastError as error:
        found = problem_of(error)
        return found.problems or [Fault("", f"{found.detail}: {found.remedy}")]

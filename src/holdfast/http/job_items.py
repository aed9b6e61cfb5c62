"""Jobs as the API shows them: the names of ``JobView``, without what a sender may not read or has not asked for."""

import asyncio
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET, UnsetType, defstruct, structs

from holdfast._core.explanation import Explanation
from holdfast._core.job import Failure
from holdfast._core.member_causes import BECAUSE_OF_OTHERS
from holdfast._core.points import Point
from holdfast._core.record import JobRecord
from holdfast._core.sensitive import HIDDEN, Mask, is_sensitive
from holdfast._core.view import AttemptView, JobView
from holdfast._core.workflow_view import WorkflowView
from holdfast.http.managed import Managed
from holdfast.http.operation import Call
from holdfast.http.permissions import Action
from holdfast.http.problems import ApiError
from holdfast.http.redact import Redact, mask_of, shown

DOCUMENTS: Final = ("payload", "result", "checkpoint")
"""The data that is left out unless a sender asks for it and may read it."""
MOST_READ: Final = 500
"""The most jobs of a workflow that are read for the messages of their errors."""
_WHOLE: Final[dict[str, Any]] = {"attempts": tuple[AttemptView, ...] | UnsetType, "points": tuple[Point, ...] | UnsetType}
"""What only a single job shows."""
_OPTIONAL: Final[dict[str, Any]] = {**dict.fromkeys(DOCUMENTS, Any), **_WHOLE}

JobItem: Final[Any] = defstruct(
    "JobItem",
    [
        (field.name, _OPTIONAL[field.name], UNSET) if field.name in _OPTIONAL else (field.name, field.type)
        for field in structs.fields(JobView)
    ],
    frozen=True,
    kw_only=True,
    module=__name__,
    namespace={
        "__doc__": "A job as read in one snapshot. ``payload``, ``result`` and ``checkpoint`` are there if ``include`` names them, and "
        "``attempts`` if one job was asked for. Messages and tracebacks are empty without the right ``payload.read``."
    },
)


def included(call: Call, text: str | UnsetType) -> frozenset[str]:
    """Return the documents that a call asks for. Raises ``ApiError`` for a name that is none, and if it may not read them."""
    names = frozenset(text.split(",")) if isinstance(text, str) and text else frozenset[str]()
    if unknown := sorted(names - set(DOCUMENTS)):
        raise ApiError(422, "invalid", f"include: {unknown[0]!r} is not one of them", f"use {', '.join(DOCUMENTS)}")
    if names and not may_read(call):
        detail = f"{call.identity.name} may not read payloads, results and checkpoints"
        raise ApiError(403, "forbidden", detail, "leave include out, or use a token of the role operator")
    return names


def may_read(call: Call) -> bool:
    """Return whether the sender may read payloads and the messages of errors."""
    return Action.READ_PAYLOAD in call.may


def item_of(job: JobView, managed: Managed, include: frozenset[str], *, is_readable: bool, is_whole: bool = False) -> Any:
    """Return what a sender sees of a job. ``is_whole``: with its attempts, and with the messages of its errors."""
    names = managed.sensitive(job.task)
    visible = masked(job, names, managed.redact) if is_readable and is_whole else without_messages(job)
    values = {name: getattr(visible, name) for name in JobView.__struct_fields__ if name not in _OPTIONAL}
    if is_whole:
        values |= {name: getattr(visible, name) for name in _WHOLE}
    values |= {name: shown(job.task, name, getattr(job, name), names, managed.redact) for name in include}
    return JobItem(**values)


def without_messages(job: JobView) -> JobView:
    """Return the job with the types of its errors, and nothing that its code wrote."""
    attempts = tuple(
        structs.replace(each, error=_bare(each.error), late_result=None, stacks=None, message=None) for each in job.attempts
    )
    return structs.replace(job, error=_bare(job.error), message=None, headers=_headers(job), attempts=attempts)


def masked(job: JobView, names: frozenset[str], redact: Redact) -> JobView:
    """Return the job with the messages, stacks and late results of its code, without the values under sensitive names."""
    mask = mask_of((job.payload, job.checkpoint), names)

    def attempt(of: AttemptView) -> AttemptView:
        late = None if of.late_result is None else shown(job.task, "late_result", of.late_result, names, redact)
        stacks = None if of.stacks is None else mask(of.stacks)
        message = None if of.message is None else mask(of.message)
        return structs.replace(of, error=_hidden_in(of.error, mask), stacks=stacks, late_result=late, message=message)

    message = None if job.message is None else mask(job.message)
    attempts = tuple(attempt(each) for each in job.attempts)
    error = _hidden_in(job.error, mask)
    return structs.replace(job, error=error, message=message, headers=_headers(job), attempts=attempts)


def explained(found: Explanation, job: JobView, mask: Mask, *, is_readable: bool) -> Explanation:
    """Return an explanation without sensitive values, and without the message of the job's error if its reader may not read that."""
    error = None if is_readable or job.reason in BECAUSE_OF_OTHERS else job.error

    def visible(text: str) -> str:
        return mask(text.replace(error.message, HIDDEN) if error is not None and error.message else text)

    causes = tuple(structs.replace(each, message=visible(each.message)) for each in found.causes)
    return structs.replace(found, summary=visible(found.summary), causes=causes)


def mask_for(record: JobRecord | None, managed: Managed) -> Mask:
    """Return the function that hides the sensitive values of a job in a string."""
    if record is None:
        return mask_of(())
    job = JobView.of(record)
    return mask_of((job.payload, job.checkpoint), managed.sensitive(job.task))


def without_texts(found: WorkflowView) -> WorkflowView:
    """Return a workflow with the types of its errors only."""
    nodes = tuple(structs.replace(each, error=_bare(each.error)) for each in found.nodes)
    return structs.replace(found, error=_bare(found.error), nodes=nodes)


async def with_masked_texts(found: WorkflowView, managed: Managed) -> WorkflowView:
    """Return a workflow whose errors have no sensitive values of its jobs; those after the first ``MOST_READ`` have no message."""
    failed = [found.id, *(each.job for each in found.nodes if each.error is not None)][:MOST_READ]
    store = managed.environment().store
    records = await asyncio.gather(*(store.get(job) for job in failed))
    masks = {job: mask_for(record, managed) for job, record in zip(failed, records, strict=True)}

    def error(of: Failure | None, job: UUID) -> Failure | None:
        return _hidden_in(of, masks[job]) if job in masks else _bare(of)

    nodes = tuple(structs.replace(each, error=error(each.error, each.job)) for each in found.nodes)
    return structs.replace(found, error=error(found.error, found.id), nodes=nodes)


def tag_of(record: JobRecord) -> str:
    """Return the tag of a job's state: it changes with the state and with each claim."""
    return f'"{record.state}-{record.token.number}"'


def _hidden_in(error: Failure | None, mask: Mask) -> Failure | None:
    return None if error is None else structs.replace(error, message=mask(error.message), traceback=mask(error.traceback))


def _bare(error: Failure | None) -> Failure | None:
    return None if error is None else structs.replace(error, message="", traceback="")


def _headers(job: JobView) -> dict[str, str]:
    return {name: HIDDEN if is_sensitive(name) else value for name, value in job.headers.items()}

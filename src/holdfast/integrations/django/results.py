"""Jobs as results of Django's tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.utils import timezone

from holdfast._core.job import Failure, State
from holdfast._core.view import AttemptView, JobView
from holdfast.integrations.django.wiring import task_named

CRASHED: Final = "holdfast.errors.JobFailed"
"""The exception of an attempt that ended without one: its worker died, or it passed a limit."""
STATUS: Final[Mapping[State, Any]] = {
    **dict.fromkeys((State.SCHEDULED, State.AVAILABLE, State.BLOCKED, State.HELD, State.CLAIMED), TaskResultStatus.READY),
    State.RUNNING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    **dict.fromkeys((State.FAILED, State.CANCELLED), TaskResultStatus.FAILED),
}
_PAYLOAD: Final = {"args", "kwargs"}


def result_of(job: JobView, alias: str) -> Any:
    """Return the result of a job as it is now; ``TaskResultDoesNotExist`` if it is not a job of a task that this process knows."""
    task = task_named(job.task)
    if task is None or not isinstance(job.payload, dict) or set(job.payload) != _PAYLOAD:
        raise TaskResultDoesNotExist(
            f"job {job.id} is of {job.task}, which is not a task here: import the module that has it, or name it in IMPORTS"
        )
    is_deferred = job.attempt == 0 and job.available_at > job.created_at
    run_after = local(job.available_at) if is_deferred else None
    result = TaskResult(
        task=variant(task, priority=-job.priority, queue_name=job.queue, backend=alias, run_after=run_after),
        id=str(job.id),
        status=STATUS[job.state],
        enqueued_at=local(enqueued_at(job.id)),
        started_at=local(next((each.started_at for each in job.attempts if each.started_at), job.started_at)),
        last_attempted_at=local(job.started_at or _last(job.attempts)),
        finished_at=local(job.finished_at),
        args=job.payload["args"],
        kwargs=job.payload["kwargs"],
        backend=alias,
        errors=errors_of(job),
        worker_ids=workers_of(job),
    )
    object.__setattr__(result, "_return_value", job.result if job.state is State.COMPLETED else None)
    return result


def new_result(task: Any, id: UUID, alias: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a job that has just been enqueued."""
    return TaskResult(
        task=task,
        id=str(id),
        status=TaskResultStatus.READY,
        enqueued_at=local(enqueued_at(id)),
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def errors_of(job: JobView) -> list[Any]:
    """Return one error for each attempt that failed or crashed; a job that ended before any attempt has the reason for that."""
    found = [error_of(each.error, each.outcome) for each in job.attempts if each.error or each.outcome in _WITHOUT_ERROR]
    if STATUS[job.state] == TaskResultStatus.FAILED and not found:
        found = [error_of(job.error, job.reason or job.state)]
    return found


_WITHOUT_ERROR: Final = ("crashed", "stalled", "timed_out", "cancelled")


def error_of(failure: Failure | None, why: str) -> Any:
    """Return a failure as Django describes one."""
    if failure is None:
        return TaskError(exception_class_path=CRASHED, traceback=f"{CRASHED}: {why}\n")
    path = failure.path or CRASHED
    return TaskError(exception_class_path=path, traceback=failure.traceback or f"{path}: {failure.message or why}\n")


def workers_of(job: JobView) -> list[str]:
    """Return the worker of each attempt, the one that runs now included: a job that completed at once has no other record."""
    found = [each.worker for each in job.attempts]
    has_last = bool(job.attempts) and job.attempts[-1].attempt == job.attempt
    is_started = job.state is State.RUNNING or job.finished_at is not None
    return [*found, job.worker] if is_started and job.worker and not has_last else found


def variant(task: Any, **changes: Any) -> Any:
    """Return a task with other values, unchecked: a queue that is no longer in ``QUEUES`` still has jobs."""
    made = object.__new__(type(task))
    for field in fields(Task if type(task) is Task else type(task)):
        object.__setattr__(made, field.name, changes.get(field.name, getattr(task, field.name)))
    return made


def local(instant: datetime | None) -> datetime | None:
    """Return an instant as Django has it: in UTC, or without a zone if the project uses none."""
    if instant is None or settings.USE_TZ:
        return instant
    made: datetime = timezone.make_naive(instant, timezone.get_default_timezone())
    return made


def aware(instant: datetime | None) -> datetime | None:
    """Return an instant with its zone: that of the project if it has none."""
    if instant is None or timezone.is_aware(instant):
        return instant
    made: datetime = timezone.make_aware(instant, timezone.get_default_timezone())
    return made


def enqueued_at(id: UUID) -> datetime:
    """Return when a job was enqueued, on the clock of its producer: the first 48 bits of its id are that time, in milliseconds."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)


def _last(attempts: Sequence[AttemptView]) -> datetime | None:
    return attempts[-1].started_at if attempts else None

"""One attempt of a task as its code and the receivers of Django's signals see it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from traceback import format_exception
from typing import Any

from django.tasks.base import TaskContext, TaskError, TaskResult, TaskResultStatus
from django.tasks.signals import task_finished, task_started
from django.utils import timezone

from holdfast._core import lifecycle
from holdfast._core.job import State
from holdfast._core.outcome import Done, Outcome
from holdfast._core.view import JobView
from holdfast._engine.error_text import qualified_name
from holdfast._engine.runners.current import WORKER, current_job
from holdfast._engine.runners.outcomes import outcome_of_error, outcome_of_value
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast.app import App
from holdfast.errors import HoldfastError
from holdfast.integrations.django.backend import HoldfastBackend
from holdfast.integrations.django.results import enqueued_at, errors_of, local


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldfastContext(TaskContext):  # type: ignore[misc]
    """The context of a task with its job, for progress, checkpoints, steps and the like: ``context.job.checkpoint(…)``."""

    job: Job | SyncJob

    @property
    def attempt(self) -> int:
        """Which start of the task this is, from 1."""
        return self.job.attempt


class Attempt:
    """One start of a task: its result so far, and the signals that are sent with it."""

    def __init__(
        self, task: Any, job: Job | SyncJob, args: Sequence[Any], kwargs: Mapping[str, Any], before: JobView | None
    ) -> None:
        now = timezone.now()
        self.result = TaskResult(
            task=task,
            id=str(job.id),
            status=TaskResultStatus.RUNNING,
            enqueued_at=local(enqueued_at(job.id)),
            started_at=local(before.attempts[0].started_at) if before is not None and before.attempts else now,
            last_attempted_at=now,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=task.backend,
            errors=[] if before is None else errors_of(before),
            worker_ids=[] if before is None else [each.worker for each in before.attempts],
        )
        self.result.worker_ids.append(WORKER.get() or "here")
        self.leading = (HoldfastContext(task_result=self.result, job=job),) if task.takes_context else ()
        self._job = job

    def fails_by(self, error: BaseException, definition: TaskDefinition) -> bool:
        """Note the exception, and return whether it ends the job: a job that is tried again, is lost or stopped has not finished."""
        if self._job.suspension is not None or isinstance(error, asyncio.CancelledError):
            return False
        seen = self._job.saw_cancellation
        outcome = outcome_of_error(error, definition, is_stopped=seen, saw_cancellation=seen)
        trace = "".join(format_exception(error))
        self.result.errors.append(TaskError(exception_class_path=qualified_name(error), traceback=trace))
        return outcome is not None and self._ends_by(outcome)

    def ends_with(self, value: object) -> bool:
        """Note what the task returned, and return whether it ends the job."""
        outcome = outcome_of_value(value, self._job.task)
        if isinstance(outcome, Done):
            object.__setattr__(self.result, "_return_value", value)
        return self._ends_by(outcome)

    def _ends_by(self, outcome: Outcome) -> bool:
        job = current_job()
        state = State.RUNNING if job is None else lifecycle.finish(job, outcome, jitter=0.0).to
        status = {
            State.COMPLETED: TaskResultStatus.SUCCESSFUL,
            State.FAILED: TaskResultStatus.FAILED,
            State.CANCELLED: TaskResultStatus.FAILED,
        }.get(state)
        if status is None:
            return False
        object.__setattr__(self.result, "status", status)
        object.__setattr__(self.result, "finished_at", timezone.now())
        return True

    def send_started(self) -> None:
        """Send ``task_started``; an exception of a receiver is logged by Django, and fails no job."""
        task_started.send_robust(HoldfastBackend, task_result=self.result)

    def send_finished(self) -> None:
        """Send ``task_finished``, before the outcome is in the store."""
        task_finished.send_robust(HoldfastBackend, task_result=self.result)

    async def asend_started(self) -> None:
        """Send ``task_started`` from a task that is awaited."""
        await task_started.asend_robust(HoldfastBackend, task_result=self.result)

    async def asend_finished(self) -> None:
        """Send ``task_finished`` from a task that is awaited, before the outcome is in the store."""
        await task_finished.asend_robust(HoldfastBackend, task_result=self.result)


def earlier(app: App | None, job: SyncJob) -> JobView | None:
    """Return what the store has of earlier attempts, if there were any, for the context and the signals."""
    try:
        return None if app is None or job.attempt == 1 else app.jobs.get(job.id)
    except HoldfastError:  # an attempt does not fail because its story cannot be read
        return None


async def aearlier(app: App | None, job: Job) -> JobView | None:
    """Return the same for a task that is awaited."""
    try:
        return None if app is None or job.attempt == 1 else await app.jobs.aget(job.id)
    except HoldfastError:
        return None

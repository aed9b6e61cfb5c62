"""``HoldfastBackend``: the tasks of Django 6.0 and newer as jobs of a store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Any, get_type_hints
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core import checks
from django.db import transaction
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task
from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils.json import normalize_json

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.durations import Duration
from holdfast._core.job import NewJob
from holdfast._core.limits import Limit
from holdfast._core.payload import encode_payload
from holdfast._core.policy import Backoff
from holdfast._core.unique_keys import unique_key_in
from holdfast._core.uniqueness import UniqueUntil
from holdfast._engine.client.handle import Handle, id_of
from holdfast._engine.client.within import enqueue_within
from holdfast._engine.tasks.registry import Errors, problems_of_names
from holdfast._engine.tasks.task import PreparedJob
from holdfast._engine.tasks.task import Task as HoldfastsTask
from holdfast.app import App
from holdfast.errors import ConfigurationError, JobNotFound
from holdfast.integrations.django import wiring
from holdfast.integrations.django.options import BackendOptions, arguments_of, options_of
from holdfast.integrations.django.results import aware, new_result, result_of
from holdfast.sync import PORTAL, refuse_inside_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldfastTask(Task):  # type: ignore[misc]
    """A task with the options that Django has no word for: ``@task(max_attempts=5)``, from Django 6.1 on."""

    max_attempts: int | None = None
    max_crashes: int | None = None
    backoff: Backoff | None = None
    retry_for: Errors | None = None
    fail_for: Errors | None = None
    timeout: Duration | None = None
    progress_within: Duration | None = None
    on_crash: str | None = None
    on_changed_steps: str | None = None
    retention: Duration | None = None
    retention_failed: Duration | None = None
    process: bool | None = None
    on_rescue: Callable[..., Any] | None = None
    limit: Limit | None = None
    sensitive: Sequence[str] | None = None
    unique_by: Sequence[str] | None = None
    unique_for: Duration | None = None
    unique_until: UniqueUntil | None = None


class HoldfastBackend(BaseTaskBackend):  # type: ignore[misc]
    """``TASKS = {"default": {"BACKEND": "holdfast.integrations.django.HoldfastBackend", "OPTIONS": {"DATABASE": "default"}}}``."""

    task_class = HoldfastTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        try:
            self.holdfast = BackendOptions.of(self.options)
        except ConfigurationError as error:
            raise InvalidTaskBackend("\n".join(f"TASKS[{alias!r}]: {problem}" for problem in error.problems)) from None

    @property
    def app(self) -> App:
        """The App of this backend, whose store may have moved to a test's database."""
        return wiring.app_of(self.alias, self.holdfast)

    def validate_task(self, task: Any) -> None:
        """Refuse a task that no worker could run, and keep all others for workers and results."""
        super().validate_task(task)
        problems = [*problems_of_names(task.module_path, task.queue_name, 0), *_problems_of_parameters(task)]
        if not problems and wiring.task_named(task.module_path) is None:
            problems = _problems_of_options(task)
        if problems:
            raise InvalidTask("\n".join(problems))
        wiring.remember(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a task: in the transaction of the caller, after its commit, or now, as ``TRANSACTION`` has it."""
        refuse_inside_loop("aenqueue")
        self.validate_task(task)
        app = self.app
        prepared = _prepared(app, task, args, kwargs, {**self.holdfast.task_options, **options_of(task)}.get("unique_by"))
        job = prepared.new_job()

        def result(id: UUID, *, announces: Callable[[Callable[[], Any]], Any] | None) -> Any:
            made = new_result(task, id, self.alias, args, kwargs)
            if announces is not None:
                announces(partial(task_enqueued.send_robust, type(self), task_result=made))
            return made

        if not self._is_in_transaction():
            handle = _write(app, prepared, job)
            return result(handle.id, announces=_at_once if handle.created else None)
        after_commit = partial(transaction.on_commit, using=self.holdfast.database)
        if not self.holdfast.joins:
            after_commit(lambda: _write(app, prepared, job).created and result(job.id, announces=_at_once))
            return result(job.id, announces=None)
        connection = wiring.connection_of(self.holdfast)
        with prepared.around(job) as jobs:
            (handle,) = enqueue_within(app._connections, connection, jobs, prepared.read)
        # Django does not know when a transaction commits that it has not begun.
        announces = after_commit if connection.in_atomic_block else _at_once
        return result(handle.id, announces=announces if handle.created else None)

    async def aenqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Do the same for code in an event loop, in the thread that Django's transactions of that code are in."""
        return await sync_to_async(self.enqueue, thread_sensitive=True)(task, args, kwargs)

    def get_result(self, result_id: str) -> Any:
        """Return the result as it is now; ``TaskResultDoesNotExist`` for one that is unknown, also before its transaction commits."""
        try:
            id = id_of(result_id)
            refuse_inside_loop("aget_result")
            return result_of(self.app.jobs.get(id), self.alias)
        except JobNotFound as error:
            raise TaskResultDoesNotExist(str(error)) from None

    async def aget_result(self, result_id: str) -> Any:
        """Do the same for code in an event loop."""
        return await sync_to_async(self.get_result, thread_sensitive=False)(result_id)

    def check(self, **kwargs: Any) -> list[Any]:
        """Return what is wrong with the settings; no database is opened."""
        del kwargs
        from holdfast.integrations.django.checks import problems_of

        return [checks.Error(f"TASKS[{self.alias!r}]: {problem}", hint=hint, id=id) for problem, hint, id in problems_of(self)]

    def _is_in_transaction(self) -> bool:
        """Return whether the caller has an open transaction that this backend is to heed."""
        if self.holdfast.mode == "now":
            return False
        connection = wiring.connection_of(self.holdfast)
        return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)


def _prepared(
    app: App, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], unique_by: Sequence[str] | None
) -> PreparedJob[Any]:
    """Return the job to be written. ``TypeError`` for arguments that the task does not take, or that are not JSON."""
    known: HoldfastsTask[..., Any, ...] = HoldfastsTask(wiring.registered(app, task), app._connections)
    given, unique_key = arguments_of(task, args, kwargs), None
    if unique_by is not None:  # the same call by position and by name is one payload
        args, kwargs = given.args, given.kwargs
        given.apply_defaults()
        values = {name: normalize_json(given.arguments[name]) for name in unique_by}
        unique_key = unique_key_in(encode_payload(task.module_path, values), unique_by, {})
    options = known.options(queue=task.queue_name, priority=-task.priority, run_at=aware(task.run_after), unique_key=unique_key)
    return options.bind(args=normalize_json(list(args)), kwargs=normalize_json(dict(kwargs)))


def _write(app: App, prepared: PreparedJob[Any], job: NewJob) -> Handle[Any]:
    async def write(jobs: Sequence[NewJob]) -> EnqueueAnswer:
        return await app._connections.client().enqueue(jobs)

    with prepared.around(job) as jobs:
        return prepared.handle(job, PORTAL.run(write(jobs)))


def _at_once(act: Callable[[], Any]) -> None:
    act()


def _problems_of_options(task: Any) -> list[str]:
    from holdfast.integrations.django.handlers import definition_of

    try:
        definition_of(task)  # its own options only: those of all tasks are the concern of the system check
    except ConfigurationError as error:
        return error.problems
    return []


PLAIN = (str, int, float, bytes, type(None), list, tuple, dict, Mapping, Sequence)


def _problems_of_parameters(task: Any) -> list[str]:
    """Return which parameters can never be filled, because their values do not pass through Django's JSON."""
    try:
        hints, every = get_type_hints(task.func), list(signature(task.func).parameters.values())
    except Exception:  # names that exist only for type checkers
        return []
    needed = [each for each in every[bool(task.takes_context) :] if each.default is Parameter.empty]
    return [
        f"{task.module_path}: {each.name} is a {kind.__name__}, which is not JSON: pass a string or a number, and make it from that"
        for each in needed
        if isinstance(kind := hints.get(each.name), type) and not _is_plain(kind)
    ]


def _is_plain(kind: type) -> bool:
    return kind is object or getattr(kind, "_is_protocol", False) or issubclass(kind, PLAIN)

"""Tasks of Django as handlers: around each, its signals are sent and old connections of its thread are closed."""

import asyncio
from collections.abc import Mapping
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.utils.json import normalize_json

from holdfast._core.outcome import ANSWERS
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.option_problems import problems_of_uniqueness
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast.app import App
from holdfast.errors import ConfigurationError
from holdfast.integrations.django.connections import prepare
from holdfast.integrations.django.options import options_of, parameters_of
from holdfast.integrations.django.running import Attempt, aearlier, earlier


def definition_of(task: Any, app: App | None = None, defaults: Mapping[str, Any] = MappingProxyType({})) -> TaskDefinition:
    """Return a task as an App runs it; ``ConfigurationError`` with all that cannot work."""
    names = {"name": task.module_path, "queue": task.queue_name, "priority": -task.priority}
    options = {**defaults, **options_of(task)}
    if problems := problems_of_uniqueness(options.pop("unique_by", None), None, known=parameters_of(task)):
        raise ConfigurationError([f"task {task.module_path}: {problem}" for problem in problems])
    handler = _Handler(task, app)
    function = handler.awaited() if iscoroutinefunction(task.func) else handler.called()
    return define(function, **names, **options)


class _Handler:
    """A task and its App. Its functions have the signature of the payload: arguments by position and by name."""

    def __init__(self, task: Any, app: App | None) -> None:
        self._task, self._app = task, app

    def called(self) -> Any:
        """Return the handler of a ``def``, which runs in a thread or a process."""

        def run(job: SyncJob, args: list[Any], kwargs: dict[str, Any]) -> Any:
            prepare()
            try:
                attempt = Attempt(self._task, job, args, kwargs, earlier(self._app, job))
                attempt.send_started()
                try:
                    value = plain(self._task.func(*attempt.leading, *args, **kwargs))
                except BaseException as error:
                    if attempt.fails_by(error, self._definition):
                        attempt.send_finished()
                    raise
                if attempt.ends_with(value):
                    attempt.send_finished()
                return value
            finally:
                close_old_connections()

        return run

    def awaited(self) -> Any:
        """Return the handler of an ``async def``, which runs in the worker's event loop."""

        async def run(job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
            await sync_to_async(prepare)()
            try:
                attempt = Attempt(self._task, job, args, kwargs, await aearlier(self._app, job))
                await attempt.asend_started()
                try:
                    value = plain(await self._task.func(*attempt.leading, *args, **kwargs))
                except BaseException as error:
                    if attempt.fails_by(error, self._definition):
                        await attempt.asend_finished()
                    raise
                if attempt.ends_with(value):
                    await attempt.asend_finished()
                return value
            finally:
                await asyncio.shield(sync_to_async(close_old_connections)())

        return run

    @property
    def _definition(self) -> TaskDefinition:
        known = None if self._app is None else self._app.registry.get(self._task.module_path)
        return known or definition_of(self._task)


def plain(value: Any) -> Any:
    """Return a result as Django stores it, which raises ``TypeError`` for all but plain JSON; answers of Holdfast stay as they are."""
    return value if isinstance(value, ANSWERS) else normalize_json(value)

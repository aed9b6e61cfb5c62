"""The App that workers and commands load as ``holdfast.integrations.django.worker:BACKEND``, with Django ready before it.

``HOLDFAST_APP=holdfast.integrations.django.worker:default holdfast worker``, or ``manage.py holdfast worker``, which sets it.
"""

import logging
from collections.abc import AsyncIterator, Container, Iterator
from functools import cache
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections

from holdfast._engine.tasks.context import Job
from holdfast._processes.loading import load_app
from holdfast.app import App
from holdfast.errors import ConfigurationError
from holdfast.integrations.django.connections import prepare

NAMED = "settings are not named: use manage.py holdfast …, or set DJANGO_SETTINGS_MODULE=shop.settings"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what Python itself looks for in a module
        raise AttributeError(name)
    return _app_of(name)


@cache
def _app_of(name: str) -> App:
    """Return the App of a backend of ``TASKS``, or that of the setting ``HOLDFAST`` if Django has no tasks or none are Holdfast's."""
    if not apps.ready:
        _set_up()
    from holdfast.integrations.django import wiring

    _log_less()
    named = getattr(settings, "HOLDFAST", {}).get("APP")
    app = wiring.serving_app(name) if named is None or name in wiring.backends() else load_app(named)
    return around_handlers(app, {task.module_path for task in wiring.tasks()})


def _set_up() -> None:
    try:
        django.setup()
    except ImproperlyConfigured as error:
        if settings.configured:
            raise
        raise ConfigurationError([NAMED]) from error


def _log_less() -> None:
    """Leave out what Django logs of each task, unless the project has chosen a level: Holdfast logs attempts and their tracebacks."""
    logger = logging.getLogger("django.tasks")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)


def around_handlers(app: App, but: Container[str]) -> App:
    """Close old connections of Django's around each handler of an App, but for tasks of Django's, which do it themselves."""
    others = [task for name in app.registry.names() if name not in but and (task := app.registry.get(name)) is not None]
    if any(not task.is_async for task in others):

        @app.around_run
        def connections_of_thread(job: Any) -> Iterator[None]:
            if isinstance(job, Job) or job.task in but:
                yield
                return
            prepare()
            try:
                yield
            finally:
                close_old_connections()

    if any(task.is_async for task in others):

        @app.around_run
        async def connections_of_loop(job: Any) -> AsyncIterator[None]:
            if not isinstance(job, Job) or job.task in but:
                yield
                return
            await sync_to_async(prepare)()
            try:
                yield
            finally:
                await sync_to_async(close_old_connections)()

    return app

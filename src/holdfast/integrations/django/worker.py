"""The App that workers and commands load as ``holdfast.integrations.django.worker:BACKEND``, with Django ready before it.

``HOLDFAST_APP=holdfast.integrations.django.worker:default holdfast worker``, or ``manage.py holdfast worker``, which sets it.
"""

from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from holdfast._processes.loading import load_app
from holdfast.app import App
from holdfast.errors import ConfigurationError

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

    named = getattr(settings, "HOLDFAST", {}).get("APP")
    if named is None or name in wiring.backends():
        return wiring.serving_app(name)
    return around_handlers(load_app(named))


def _set_up() -> None:
    try:
        django.setup()
    except ImproperlyConfigured as error:
        if settings.configured:
            raise
        raise ConfigurationError([NAMED]) from error


def around_handlers(app: App) -> App:
    """Close old connections of Django's around each handler of an App that is not made from ``TASKS``."""
    from django.db import close_old_connections, reset_queries

    from holdfast._engine.tasks.context import Job

    def clean() -> None:
        reset_queries()
        close_old_connections()

    if any(not task.is_async for task in map(app.registry.get, app.registry.names()) if task is not None):

        @app.around_run
        def connections(job: Any) -> Iterator[None]:
            is_awaited = isinstance(job, Job)  # its connections are in another thread
            if not is_awaited:
                clean()
            try:
                yield
            finally:
                if not is_awaited:
                    close_old_connections()

    if any(task.is_async for task in map(app.registry.get, app.registry.names()) if task is not None):

        @app.around_run
        async def connections_of_loop(job: Any) -> AsyncIterator[None]:
            if isinstance(job, Job):
                await sync_to_async(clean)()
            try:
                yield
            finally:
                if isinstance(job, Job):
                    await sync_to_async(close_old_connections)()

    return app

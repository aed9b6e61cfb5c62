"""Holdfast in a Django project: a backend of ``django.tasks``, and the dashboard below a path of its URLs.

``settings.py`` names the application in ``INSTALLED_APPS``, and the backend in ``TASKS``::

    TASKS = {"default": {"BACKEND": "holdfast.integrations.django.HoldfastBackend"}}

Until Django 5.2, which has no tasks, ``HOLDFAST = {"APP": "shop.tasks:app"}`` names an App. ``urls.py`` has
``path("jobs/", include("holdfast.integrations.django.urls"))``. Change freely: what a project sees. Do not change: nothing of Django is
imported here, because ``INSTALLED_APPS`` and ``TASKS`` are read before Django is ready. A mistake fails `tests/django`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from holdfast.integrations.django.options import task_options

if TYPE_CHECKING:
    from holdfast.integrations.django.backend import HoldfastBackend, HoldfastTask
    from holdfast.integrations.django.running import HoldfastContext
    from holdfast.integrations.django.wiring import get_app

__all__ = ["HoldfastBackend", "HoldfastContext", "HoldfastTask", "get_app", "task_options"]

_HOMES: Final = {"HoldfastBackend": "backend", "HoldfastContext": "running", "HoldfastTask": "backend", "get_app": "wiring"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

"""One App for each backend of ``TASKS``, made from Django's settings, and the tasks of this process.

Backends of Django belong to a thread; what is here belongs to the process.
"""

import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

import django
from django.apps import apps
from django.conf import settings
from django.utils.module_loading import module_has_submodule
from msgspec import structs

from holdfast._engine.tasks.imports import import_module
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._processes.loading import load_app
from holdfast.app import App
from holdfast.errors import ConfigurationError
from holdfast.integrations.django.options import KNOWN, BackendOptions
from holdfast.integrations.django.store_url import url_of
from holdfast.sync import PORTAL

BACKEND: Final = "holdfast.integrations.django.HoldfastBackend"
HAS_TASKS: Final = django.VERSION >= (6,)
NEEDS_6: Final = f"TASKS needs Django 6.0, which needs Python 3.12, and this is Django {django.get_version()}: install that, or "
WITHOUT_TASKS: Final = 'add HOLDFAST = {"DATABASE": "default"} to the settings, and make tasks with @app.task'
_LOCK = threading.RLock()
_APPS: dict[str, App] = {}
_OPTIONS: dict[str, BackendOptions] = {}
_TASKS: dict[str, Any] = {}


def backends() -> dict[str, BackendOptions]:
    """Return the options of each backend of ``TASKS`` that is Holdfast's.

    Without one, and before Django 6.0, ``HOLDFAST = {"DATABASE": "default"}`` describes an App whose tasks are made by ``@app.task``.
    """
    found = _of_tasks()
    given = {name: value for name, value in getattr(settings, "HOLDFAST", {}).items() if name in KNOWN}
    return found if found or not given else {"default": BackendOptions.of(given)}


def is_too_old() -> bool:
    """Return whether ``TASKS`` names Holdfast in a Django that has no tasks."""
    named = [str(each.get("BACKEND")) for each in getattr(settings, "TASKS", {}).values()]
    return not HAS_TASKS and any(each.startswith("holdfast.") for each in named)


def is_of_tasks() -> bool:
    """Return whether ``TASKS`` describes the Apps, and not the setting ``HOLDFAST``."""
    return bool(_of_tasks())


def _of_tasks() -> dict[str, BackendOptions]:
    if not HAS_TASKS:
        return {}
    from django.tasks import task_backends

    from holdfast.integrations.django.backend import HoldfastBackend

    found = {alias: task_backends[alias] for alias in task_backends}
    return {alias: each.holdfast for alias, each in found.items() if isinstance(each, HoldfastBackend)}


def get_app(backend: str | None = None) -> App:
    """Return the App of a backend of ``TASKS``; without a name, of the only one, or else of ``default``.

    >>> get_app().run_due()  # doctest: +SKIP
    3
    """
    return app_of(*described(backend))


def described(backend: str | None = None) -> tuple[str, BackendOptions]:
    """Return the name and the options of a backend, as ``get_app`` chooses it; ``ConfigurationError`` if no setting describes it."""
    there_are = backends()
    alias = backend or (next(iter(there_are)) if len(there_are) == 1 else "default")
    if alias not in there_are:
        remedy = f'add {{"BACKEND": "{BACKEND}"}}' if HAS_TASKS else f"{NEEDS_6 if is_too_old() else ''}{WITHOUT_TASKS}"
        known = f", or use {', '.join(sorted(there_are))}" if there_are else ""
        raise ConfigurationError([f"there is no backend {alias!r} of Holdfast's: {remedy}{known}"])
    return alias, there_are[alias]


def project_app() -> App:
    """Return the App whose jobs the pages show: that of ``HOLDFAST = {"APP": "shop.tasks:app"}``, else the one of ``get_app()``."""
    named = getattr(settings, "HOLDFAST", {}).get("APP")
    return get_app() if named is None else load_app(named)


def app_of(alias: str, options: BackendOptions) -> App:
    """Return the App of a backend. It moves when the database has another name, as in tests."""
    url = store_of(options)
    app = _APPS.get(alias)
    if app is not None and app.settings.url == url:
        return app
    with _LOCK:
        app = _APPS.get(alias)
        _OPTIONS[alias] = options
        if app is None:
            app = _APPS[alias] = App(url, imports=options.imports, **options.settings)
        elif app.settings.url != url:
            PORTAL.run(app._connections.abandon())
            app._move(structs.replace(app.settings, url=url))
        return app


def store_of(options: BackendOptions) -> str:
    """Return the URL of the store of a backend; ``ConfigurationError`` if the database cannot have one."""
    if options.url is not None:
        return options.url
    connection = connection_of(options)
    return url_of(options.database, connection.vendor, connection.settings_dict)


def connection_of(options: BackendOptions) -> Any:
    """Return this thread's connection to the database of a backend."""
    from django.db import connections

    if options.database not in settings.DATABASES:
        known = ", ".join(sorted(settings.DATABASES))
        raise ConfigurationError([f"OPTIONS: DATABASE={options.database!r} is not in DATABASES: use {known}"])
    return connections[options.database]


def remember(task: Any) -> None:
    """Keep a task by its name, for workers and for results."""
    _TASKS.setdefault(task.module_path, task)


def task_named(name: str) -> Any | None:
    """Return the task of that name, if a module that has it is imported. No module is imported by a name that is stored."""
    return _TASKS.get(name)


def registered(app: App, task: Any) -> TaskDefinition:
    """Return the definition of a task in an App, which gets it if it does not have it yet."""
    known = app.registry.get(task.module_path)
    if known is not None:
        return known
    from holdfast.integrations.django.handlers import definition_of
    from holdfast.integrations.django.results import variant

    with _LOCK:
        if app.registry.get(task.module_path) is None:
            alias = next((alias for alias, each in _APPS.items() if each is app), task.backend)
            app.registry.add(definition_of(variant(task, backend=alias), app, _OPTIONS[alias].task_options))
    return registered(app, task)


def tasks() -> tuple[Any, ...]:
    """Return all tasks of Django that this process knows."""
    return tuple(_TASKS.values())


def discover(imports: Sequence[str] = ()) -> None:
    """Import the module ``tasks`` of each app, and these, and keep their tasks."""
    ours = [f"{each.name}.tasks" for each in apps.get_app_configs() if module_has_submodule(each.module, "tasks")]
    modules = [_imported(name) for name in (*ours, *imports)]
    if HAS_TASKS:
        from django.tasks import Task

        for found in [value for module in modules for value in vars(module).values()]:
            if isinstance(found, Task):
                remember(found)


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name, "to import: correct INSTALLED_APPS or IMPORTS, or install it")
    except ConfigurationError as error:
        if HAS_TASKS or "'django.tasks'" not in str(error):
            raise
        raise ConfigurationError([f"{problem}; {NEEDS_6}{WITHOUT_TASKS}" for problem in error.problems]) from error


def serving_app(backend: str) -> App:
    """Return the App of a backend with every task that its workers need."""
    app, options = get_app(backend), backends()[backend]
    discover(options.imports)
    for task in tasks():
        registered(app, task)
    return app


def close_all(database: str) -> None:
    """Close the App of each backend whose jobs are in this database; the next use opens it again."""
    for alias, options in tuple(_OPTIONS.items()):
        if options.database == database:
            _APPS[alias].close()

"""The tests of tasks need Django 6, which needs Python 3.12: ``make django`` runs them, with each release."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import pytest

HAS_TASKS = django.VERSION >= (6,)
collect_ignore_glob = [] if HAS_TASKS else ["test_*.py"]

if HAS_TASKS:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django.shop.settings"
    django.setup()

    from asgiref.local import Local
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections
    from django.test import override_settings

    from holdfast import App
    from holdfast.integrations.django import get_app
    from holdfast.testing.servers import postgres_dsn, postgres_server

    __all__ = ["postgres_dsn", "postgres_server"]  # fixtures

Database = dict[str, Any]


def described(dsn: str) -> Database:
    """Return a database of PostgreSQL as Django describes it."""
    parts = urlsplit(dsn)
    names = {
        "NAME": parts.path[1:],
        "USER": parts.username,
        "PASSWORD": parts.password,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }
    return {"ENGINE": "django.db.backends.postgresql", **{name: value or "" for name, value in names.items()}}


def use(database: Database) -> None:
    """Have all threads connect to this database from now on."""
    connections.close_all()
    settings.DATABASES = {"default": {**database}}
    connections.settings = connections.configure_settings(settings.DATABASES)
    connections._connections = Local(connections.thread_critical)  # of other threads, too


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    """Name a file, which does not exist yet."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "shop.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Make a database of each kind with all tables, also the store's."""
    name = "sqlite" if request.param == "sqlite" else "postgres_dsn"
    value = request.getfixturevalue(name)
    found = described(value) if isinstance(value, str) else value
    use(found)
    call_command("migrate", run_syncdb=True, verbosity=0)
    yield found
    get_app().close()
    connections.close_all()


@pytest.fixture
def app(database: Database) -> "App":
    """Return the App of the shop."""
    return get_app()


@pytest.fixture
def options() -> Iterator[Callable[..., None]]:
    """Give the backend other options within the test."""
    changed = []

    def change(queues: list[str] | None = None, **given: Any) -> None:
        backend = {**settings.TASKS["default"], "OPTIONS": given}
        each = override_settings(TASKS={"default": {**backend, "QUEUES": queues or backend["QUEUES"]}})
        each.enable()
        changed.append(each)

    yield change
    for each in reversed(changed):
        each.disable()

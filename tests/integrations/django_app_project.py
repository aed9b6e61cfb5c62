"""A Django project without ``TASKS``, as before Django 6: an App made from ``DATABASES``, and what becomes of it; written as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings

from holdfast import SyncJob


def configure(folder: str) -> None:
    """Make the settings of the project and its tables, the store's included."""
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/shop.db"}},
        HOLDFAST={"DATABASE": "default", "SETTINGS": {"grace": "5s"}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "holdfast.integrations.django"],
        SECRET_KEY="test",
    )
    django.setup()
    from django.core.management import call_command  # noqa: PLC0415 - after the setup

    call_command("migrate", verbosity=0)


def main(folder: str) -> dict[str, Any]:
    """Enqueue in transactions, run the jobs as a worker would, and return what is there."""
    configure(folder)
    from django.contrib.auth.models import User  # noqa: PLC0415 - after the setup
    from django.core import checks  # noqa: PLC0415 - after the setup
    from django.db import connection, connections, transaction  # noqa: PLC0415 - after the setup

    from holdfast.integrations.django import get_app, worker  # noqa: PLC0415 - after the setup

    app = get_app()
    were_open: list[bool] = []

    @app.task
    def welcome(job: SyncJob, name: str) -> str:
        were_open.append(connections["default"].connection is not None)
        return str(User.objects.get(username=name).get_username())

    handles = []
    for name in ("ada", "bob", "carl"):
        try:
            with transaction.atomic():
                User.objects.create_user(name)
                handles.append(welcome.options(within=connection).enqueue(name))
                if name == "bob":
                    raise OSError("no mail")
        except OSError:
            continue
    served = worker.default
    served.run_due(concurrency=1)
    found = app.jobs.list()
    return {
        "is the App": served is app,
        "store": app.settings.url.removeprefix(f"sqlite:///{Path(folder).absolute()}"),
        "grace": app.settings.grace,
        "results": sorted(str(job.result) for job in found),
        "were open": were_open,
        "ids": [job.id for job in found] == [handle.id for handle in reversed(handles) if handle.id in {job.id for job in found}],
        "checks": [each.id for each in checks.run_checks() if "holdfast" in str(each.id)],
        "database checks": sorted({each.id for each in checks.run_checks(databases=["default"]) if "holdfast" in str(each.id)}),
    }


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(main(sys.argv[1]))}\n")

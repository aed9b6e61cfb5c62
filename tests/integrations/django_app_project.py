"""A Django project without ``TASKS``, as before Django 6: an App made from ``DATABASES``, and what becomes of it; written as JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.urls import include, path

from holdfast import App, SyncJob
from holdfast._core.answers import Check

LIST = "/admin/holdfast/jobs/"
urlpatterns: list[Any] = []


def configure(folder: str) -> None:
    """Make the settings of the project and its tables, the store's included."""
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/shop.db"}},
        HOLDFAST={"DATABASE": "default", "SETTINGS": {"grace": "5s"}},
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "django.contrib.sessions",
            "holdfast.integrations.django",
        ],
        ALLOWED_HOSTS=["testserver"],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        ROOT_URLCONF="__main__",
        SECRET_KEY="test",
        STATIC_URL="static/",
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                        "django.template.context_processors.request",
                    ]
                },
            }
        ],
    )
    django.setup()
    from django.contrib import admin  # noqa: PLC0415 - after the setup

    urlpatterns.append(path("admin/", admin.site.urls))
    urlpatterns.append(path("work/", include("holdfast.integrations.django.urls")))
    from django.core.management import call_command  # noqa: PLC0415 - after the setup

    call_command("migrate", verbosity=0)


def administered(app: App) -> dict[str, Any]:
    """Return what users with different permissions see and do in the admin."""
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415 - after the setup
    from django.db import connection  # noqa: PLC0415 - after the setup
    from django.test import Client  # noqa: PLC0415 - after the setup
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 - after the setup

    waiting = app.enqueue("mail", to="<b>ada</b>")
    found: dict[str, Any] = {}
    permitted: dict[str, tuple[str, ...]] = {
        "carla": (),
        "vera": ("view",),
        "otto": ("view", "operate"),
        "anna": ("view", "delete"),
    }
    for name, codenames in permitted.items():
        user = User.objects.create_user(name, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames, content_type__app_label="holdfast"))
        client = Client()
        client.force_login(user)
        page = client.get(LIST, {"state": "available"})
        text = page.content.decode() if page.status_code == 200 else ""
        found[name] = {
            "list": page.status_code,
            "offered": [each for each in ("cancel", "retry", "delete") if f"<option>{each}</option>" in text],
            "has link": f"/work/jobs/{waiting.id}" in text,
            "has payload": "ada" in text,
            "other state": str(waiting.id) in client.get(LIST, {"state": "failed"}).content.decode(),
            "wrong": client.get(LIST, {"cursor": "x"}).status_code,
            "story": client.get(f"{LIST}{waiting.id}/change/").headers.get("location", "").replace(str(waiting.id), "ID"),
            "cancel": client.post(LIST, {"action": "cancel", "job": [str(waiting.id)]}).status_code,
            "unknown": client.post(LIST, {"action": "explode", "job": [str(waiting.id)]}).status_code,
        }
    found["unsafe"] = Client(enforce_csrf_checks=True)
    found["unsafe"].force_login(User.objects.get(username="otto"))
    found["unsafe"] = found["unsafe"].post(LIST, {"action": "cancel", "job": [str(waiting.id)]}).status_code
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    with CaptureQueriesContext(connection) as asked:
        found["pages of rows"] = [root.get(f"{LIST}{each}/").status_code for each in ("add", "1/history", "1/delete")]
    found["asks Django's database for jobs"] = any("holdfast_jobs" in each["sql"] for each in asked.captured_queries)
    found["audit"] = [[each.who, each.action, each.origin] for each in app.audit.list()]
    found["state"] = app.jobs.get(waiting.id).state
    return found


def corrected() -> dict[str, Any]:
    """Return what the checks find in the settings, and again after the line was added that the hint of a warning is."""
    from django.core import checks  # noqa: PLC0415 - after the setup

    from holdfast.integrations.django.checks import _warning  # noqa: PLC0415 - after the setup

    def ours() -> list[Any]:
        return [each for each in checks.run_checks() if "holdfast" in str(each.id)]

    (found,) = ours()
    exec(found.hint, {"DATABASES": settings.DATABASES})  # it is a line for the settings
    of_old_sqlite = _warning("default", Check("warning", "sqlite", "a race")).hint
    return {"found": found.id, "left": [each.id for each in ours()], "other file": 'HOLDFAST = {"URL": "sqlite' in of_old_sqlite}


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
        "admin": administered(app),
        "checks": corrected(),
        "advises apsw": any("apsw" in str(each.hint) for each in checks.run_checks(databases=["default"])),
        "database checks": sorted({each.id for each in checks.run_checks(databases=["default"]) if "holdfast" in str(each.id)}),
    }


if __name__ == "__main__":
    sys.modules["__main__"] = sys.modules[__name__]
    sys.stdout.write(f"{json.dumps(main(sys.argv[1]))}\n")

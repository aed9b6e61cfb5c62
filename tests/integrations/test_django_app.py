"""An App made from the settings of a Django project, of any release, and the options that a project writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ConfigurationError
from holdfast.integrations import django
from holdfast.integrations.django.options import OF_PROJECT, BackendOptions, task_options
from holdfast.integrations.django.store_url import url_of
from holdfast.stores.postgres.schema import VERSION as POSTGRES
from holdfast.stores.sqlite.schema import VERSION as SQLITE

PROJECT = Path(__file__).with_name("django_app_project.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run the project once: Django has one setting for a process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(PROJECT), str(tmp_path_factory.mktemp("django"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_app_of_the_settings_joins_transactions_and_closes_connections(found: Any) -> None:
    assert {name: value for name, value in found.items() if name != "admin"} == {
        "is the App": True,
        "store": "/shop.db",
        "grace": 5.0,
        "results": ["ada", "carl"],
        "were open": [False, False],
        "ids": True,
        "checks": {"found": "holdfast.W002", "left": [], "other file": True},
        "database checks": ["holdfast.W001"],
        "advises apsw": False,
    }


@pytest.mark.parametrize(
    ("name", "offered", "cancel"), [("vera", [], 403), ("otto", ["cancel", "retry"], 302), ("anna", ["delete"], 403)]
)
def test_the_admin_lists_jobs_and_offers_what_is_permitted(found: Any, name: str, offered: list[str], cancel: int) -> None:
    assert found["admin"][name] == {
        "list": 200,
        "offered": offered,
        "has link": name != "anna",  # otto has cancelled it before
        "has payload": False,
        "other state": False,
        "wrong": 200,
        "story": "/work/jobs/ID",
        "cancel": cancel,
        "unknown": 403,
    }


def test_the_admin_refuses_strangers_and_forged_forms_and_records_who_acts(found: Any) -> None:
    assert (found["admin"]["carla"]["list"], found["admin"]["carla"]["cancel"], found["admin"]["unsafe"]) == (403, 403, 403)
    assert found["admin"]["audit"] == [["otto", "cancel", "django admin"]]
    assert found["admin"]["state"] == "cancelled"


def test_the_admin_does_not_ask_djangos_database_for_rows_of_jobs(found: Any) -> None:
    assert (found["admin"]["pages of rows"], found["admin"]["asks Django's database for jobs"]) == ([403, 302, 403], False)


def test_commands_without_settings_name_the_remedy(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "HOLDFAST_APP": "holdfast.integrations.django.worker:default"}
    command = [sys.executable, "-m", "holdfast.cli", "jobs", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert (done.returncode, "DJANGO_SETTINGS_MODULE" in done.stderr) == (2, True), done.stderr


PROJECT_WITH = """
import django
from django.conf import settings
from django.core.checks import run_checks

settings.configure(
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}}},
    INSTALLED_APPS=["holdfast.integrations.django"],
    **{given},
)
django.setup()
print([each.msg for each in run_checks() if each.id.startswith("holdfast.E")])
from holdfast.integrations.django import worker
worker.default
"""
MANAGED = """
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
    HOLDFAST={"DATABASE": "default"},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "holdfast.integrations.django"],
)
execute_from_command_line()
"""
TASKS = {"default": {"BACKEND": "holdfast.integrations.django.HoldfastBackend"}}


def found_with(folder: Path, **given: Any) -> tuple[str, str]:
    """Return what the checks and the worker's App report in a project with these settings."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-c", PROJECT_WITH.format(given=given)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False, cwd=folder)
    return done.stdout, done.stderr.splitlines()[-1]


def test_migrate_does_not_warn_of_the_tables_that_it_is_about_to_make(tmp_path: Path) -> None:
    (tmp_path / "manage.py").write_text(MANAGED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def manage(*arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path).stderr

    assert "default: schema: there is none yet" in manage("check", "--database", "default")
    assert "schema" not in manage("migrate")
    assert "schema" not in manage("check", "--database", "default")


def test_a_worker_of_a_project_whose_tasks_cannot_be_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    (tmp_path / "manage.py").write_text(MANAGED.replace('HOLDFAST={"DATABASE": "default"}', f"TASKS={TASKS}"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "manage.py", "holdfast", "worker", "--until-empty"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert "TASKS needs Django 6.0" in done.stderr


def test_tasks_of_a_django_without_them_name_the_release_that_has_them(tmp_path: Path) -> None:
    checked, refused = found_with(tmp_path, TASKS=TASKS)
    for found in (checked, refused):
        assert "TASKS needs Django 6.0, which needs Python 3.12, and this is Django 5.2" in found
    (tmp_path / "mails.py").write_text("from django.tasks import task\n")
    _, refused = found_with(tmp_path, TASKS=TASKS, HOLDFAST={"DATABASE": "default", "IMPORTS": ["mails"]})
    assert "importing mails failed: ModuleNotFoundError: No module named 'django.tasks'" in refused
    assert "TASKS needs Django 6.0" in refused


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"DATABSE": "default"}, "there is no 'DATABSE'"),
        ({"DATABASE": "defalt"}, "DATABASE='defalt' is not in DATABASES"),
        ({"DATABASE": "default", "TRANSACTION": "jion"}, "TRANSACTION='jion'"),
        ({"DATABASE": "default", "SETTINGS": {"ttl": "1s", "beat": "9s"}}, "ttl"),
    ],
)
def test_the_check_of_a_project_without_tasks_reports_its_settings(tmp_path: Path, given: dict[str, Any], problem: str) -> None:
    checked, _ = found_with(tmp_path, HOLDFAST=given)
    assert problem in checked


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ({"NAME": "shop"}, "postgresql:///shop"),
        ({"NAME": "shop", "USER": "a@b", "PASSWORD": "p/w", "HOST": "db", "PORT": ""}, "postgresql://a%40b:p%2Fw@db/shop"),
        ({"NAME": "shop", "HOST": "/run/pg", "PORT": 6432}, "postgresql:///shop?host=%2Frun%2Fpg&port=6432"),
        ({"NAME": "shop", "HOST": "db", "OPTIONS": {"sslmode": "require", "pool": True}}, "postgresql://db/shop?sslmode=require"),
    ],
)
def test_a_database_of_postgresql_is_a_store(database: dict[str, Any], url: str) -> None:
    assert url_of("default", "postgresql", database) == url


@pytest.mark.parametrize(
    ("vendor", "database", "problem"),
    [
        ("mysql", {"NAME": "shop"}, "cannot be kept in mysql"),
        ("postgresql", {"NAME": "", "OPTIONS": {"service": "shop"}}, "name of a service"),
        ("sqlite", {"NAME": ":memory:"}, '"TEST"'),
        ("sqlite", {"NAME": "file:memorydb_default?mode=memory&cache=shared"}, "memory of one process"),
    ],
)
def test_a_database_that_cannot_have_jobs_is_refused(vendor: str, database: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        url_of("default", vendor, database)


def test_a_file_of_django_is_never_opened_by_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SQLITE", "apsw")
    with pytest.raises(ConfigurationError, match=r"unset HOLDFAST_SQLITE, or keep the jobs in another file"):
        url_of("default", "sqlite", {"NAME": "/srv/shop.db"})
    assert url_of("default", "postgresql", {"NAME": "shop"}) == "postgresql:///shop"


def test_the_page_on_django_names_the_keys_of_the_setting() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/django.md").read_text(encoding="utf-8")
    section = page.partition("\n## Before Django 6\n")[2]
    assert [name for name in OF_PROJECT if f"`{name}`" not in section] == []


def test_options_name_all_that_is_wrong_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        BackendOptions.of({"DATBASE": "x", "TRANSACTION": 1, "SETTINGS": 2, "TASK_OPTIONS": {"tries": 3}, "IMPORTS": "shop"})
    assert len(caught.value.problems) == 5
    with pytest.raises(ConfigurationError, match="'queue'"):
        task_options(queue="mail")
    assert (BackendOptions.of({}).joins, BackendOptions.of({"URL": "memory://"}).joins) == (True, False)


def test_the_newest_migration_of_django_names_the_schemas_of_this_release() -> None:
    migrations = sorted((Path(django.__file__).parent / "migrations").glob("0*.py"))
    named = re.search(r"StoreSchema\(sqlite=(\d+), postgresql=(\d+)\)", migrations[-1].read_text())
    assert named is not None
    remedy = "add a migration beside it for manage.py migrate, or correct the numbers if no release has it"
    assert (int(named[1]), int(named[2])) == (SQLITE, POSTGRES), f"{migrations[-1].name}: {remedy}"

"""``manage.py holdfast worker`` with real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.tasks import TaskResultStatus

from holdfast import App
from holdfast.integrations.django.management.commands.holdfast import environment
from tests.django.shop import tasks

ROOT = Path(__file__).parents[2]
MANAGE = str(Path(__file__).parent / "shop" / "manage.py")


def manage(database: Any, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``manage.py`` to its end."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    given = {**os.environ, "SHOP_DATABASE": json.dumps(database), "PYTHONPATH": path, **more}
    command = [sys.executable, MANAGE, *arguments]
    return subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)


def test_workers_run_tasks_and_close_their_connections(database: Any, app: App) -> None:
    sums = [tasks.add.enqueue(n, 1) for n in range(20)]
    asked = [tasks.is_open.enqueue() for _ in range(20)]
    inside = tasks.process_id.enqueue()
    done = manage(database, "holdfast", "worker", "--until-empty", "--concurrency", "2")
    assert done.returncode == 0, done.stderr
    for each in (*sums, *asked, inside):
        each.refresh()
    assert [each.return_value for each in sums] == list(range(1, 21))
    assert [each.return_value for each in asked] == [False] * 20
    assert inside.return_value not in (os.getpid(), 0)


def test_a_killed_worker_costs_a_crash_and_no_attempt_is_lost(database: Any, app: App, tmp_path: Path) -> None:
    result = tasks.die_once.enqueue(str(tmp_path / "pid"))
    done = manage(database, "holdfast", "worker", "--until-empty")
    assert done.returncode == 0, done.stderr
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 2, 2)
    assert [each.exception_class_path for each in result.errors] == ["holdfast.errors.JobFailed"]
    assert len(set(result.worker_ids)) == 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_failure_has_one_traceback_in_the_log(database: Any, app: App) -> None:
    tasks.refuse.enqueue("no parcel")
    done = manage(database, "holdfast", "worker", "--until-empty")
    assert done.stderr.count("Traceback (most recent call last)") == 1, done.stderr


SPY = """
import os, sys

class Spy:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("django", "tests.django.shop.tasks"):
            with open(os.environ["SPY_FILE"], "a") as file:
                file.write(f"{name} {sys.orig_argv[1:4]}\\n")

sys.meta_path.insert(0, Spy)
"""


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_supervisor_never_imports_django(database: Any, app: App, tmp_path: Path) -> None:
    tasks.add.enqueue(1)
    (tmp_path / "sitecustomize.py").write_text(SPY)
    path = os.pathsep.join([str(tmp_path), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = manage(database, "holdfast", "worker", "--until-empty", PYTHONPATH=path, SPY_FILE=str(tmp_path / "imports"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "imports").read_text().splitlines()
    assert any("holdfast._processes.worker" in each for each in lines if each.startswith("tests.django.shop.tasks"))
    assert any("manage.py" in each for each in lines)
    assert [each for each in lines if "holdfast.cli" in each] == []


def test_commands_find_the_store_of_the_project(database: Any, app: App) -> None:
    tasks.add.enqueue(1)
    listed = manage(database, "holdfast", "jobs", "list", "--json")
    assert "tests.django.shop.tasks.add" in listed.stdout, listed.stderr
    assert manage(database, "holdfast", "--backend").returncode == 2
    other = manage(database, "holdfast", "--backend", "attic", "jobs", "list")
    assert (other.returncode, "there is no backend 'attic'" in other.stderr) == (2, True)


def test_the_path_of_the_project_goes_on_but_not_that_of_python() -> None:
    found = environment("default", {"A": "1"}, [str(ROOT), os.path.dirname(os.__file__), "", *sys.path])
    assert (found["A"], found["HOLDFAST_APP"]) == ("1", "holdfast.integrations.django.worker:default")
    folders = found["PYTHONPATH"].split(os.pathsep)
    assert folders[:2] == [str(ROOT), os.getcwd()] or folders[0] == str(ROOT) == os.getcwd()
    assert os.path.dirname(os.__file__) not in folders
    assert environment(None, {"HOLDFAST_APP": "shop:app"}, [])["HOLDFAST_APP"] == "shop:app"


@pytest.mark.parametrize("arguments", [["makemigrations", "--check", "--dry-run"], ["sqlmigrate", "holdfast", "0001"]])
def test_migrations_are_complete(sqlite: Any, arguments: list[str]) -> None:
    done = manage(sqlite, *arguments)
    assert done.returncode == 0, done.stderr


def test_tests_of_a_project_have_a_database_that_django_drops(database: Any, tmp_path: Path) -> None:
    named = {
        **database,
        "TEST": {"NAME": str(tmp_path / "test.db") if "sqlite3" in database["ENGINE"] else f"test_{database['NAME']}"},
    }
    done = manage(named, "test", "tests.django.shop.cases", "--noinput")
    assert (done.returncode, "Ran 3 tests" in done.stderr) == (0, True), done.stderr


def test_check_reports_the_settings_of_tasks_before_any_task_is_imported(sqlite: Any) -> None:
    done = manage(sqlite, "check", SHOP_OPTIONS='{"DATABASE": "defalt"}')
    assert (done.returncode, done.stderr.count("DATABASE='defalt' is not in DATABASES")) == (1, 1), done.stderr
    refused = manage(sqlite, "check", SHOP_OPTIONS='{"DATABSE": "default"}')
    assert (refused.returncode, "there is no 'DATABSE'" in refused.stderr) == (1, True)

"""The front door opens: what it names is there, and opening it costs little."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, requires
from importlib.resources import files
from pathlib import Path

import holdfast
from holdfast.errors import PACKAGES, MissingExtra

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"all", "bench", "browser", "deploy", "dev", "docs", "evolution", "peers", "release"}
"""Extras that only this repository needs."""


def test_every_public_name_is_importable_and_listed_once() -> None:
    assert list(holdfast.__all__) == sorted(set(holdfast.__all__))
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None


def test_a_name_that_is_loaded_when_named_is_listed_before_and_a_wrong_one_is_refused() -> None:
    code = "import holdfast; print('Rows' in vars(holdfast), 'Rows' in dir(holdfast), holdfast.Rows.__name__, hasattr(holdfast, 'Rowz'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "Rows", "False"]


def test_processes_that_run_jobs_have_loaded_what_a_handler_needs_to_enqueue() -> None:
    needed = {"holdfast._engine.client.client", "holdfast._engine.client.handle"}
    for module in ("_processes.worker", "_processes.runner", "_engine.embedded.embedded"):
        code = f"import sys, holdfast.{module}; print({needed} <= set(sys.modules))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "True", module


def test_types_are_shipped() -> None:
    assert files("holdfast").joinpath("py.typed").is_file()


def test_import_needs_no_optional_driver() -> None:
    code = "import sys, holdfast; print(sorted({'apsw', 'matplotlib', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_forked_child_loads_no_part_of_its_app_that_its_parent_may_have_been_loading() -> None:
    code = """
import sys
from holdfast import App
from holdfast._forks import FORKS
app = App("memory://")
FORKS.before_fork()
FORKS.after_fork_in_parent()
before = set(sys.modules)
app.jobs.counts()
for part in (app.jobs, app.errors, app.audit, app.queues, app.limits, app.workers, app.schedules, app.workflows, app.recovery):
    assert part
print(sorted(each for each in set(sys.modules) - before if each.startswith(("holdfast._engine.client", "holdfast._engine.operators"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_core_dependencies_stay_three() -> None:
    core = [line for line in requires("holdfast") or [] if "extra ==" not in line]
    assert sorted(line.split(">")[0] for line in core) == ["click", "msgspec", "rich"]


def test_all_holds_every_extra_and_dev_holds_all() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["all"] == [f"holdfast[{','.join(sorted(extras.keys() - LEFT_OUT))}]"]
    assert "holdfast[all,bench]" in extras["dev"]


def test_an_error_names_the_packages_of_an_extra_as_a_shell_takes_them() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {name: [re.split("[>=;]", each)[0].strip() for each in extras[name]] for name in extras.keys() - LEFT_OUT}
    assert {name: shlex.split(packages) for name, packages in PACKAGES.items()} == needed
    assert str(MissingExtra("psycopg", "postgres")) == (
        "psycopg is not installed: pip install asyncpg 'psycopg[binary]' (the extra holdfast[postgres])"
    )


def test_command_line_is_installed() -> None:
    (script,) = entry_points(group="console_scripts", name="holdfast")
    assert script.value == "holdfast.cli:main"
    assert callable(script.load())

"""`make` and `.ci/run` answer as people and machines expect, without installing anything here."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    quiet = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON"}}
    return subprocess.run(command, cwd=folder, env=quiet, capture_output=True, text=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Make a folder with the Makefile and pyproject.toml, and nothing else."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def stamp(clone: Path, *settings: str) -> str:
    lines = run(clone, "make", "-n", "test", *settings).stdout.splitlines()
    return next(line for line in lines if line.startswith("touch .venv/dev-"))


def test_help_names_every_target(clone: Path) -> None:
    listed = [line.split()[1] for line in run(clone, "make").stdout.splitlines()]
    assert listed == [
        "help",
        "demo",
        "evolution",
        "quick",
        "test",
        "prove",
        "django",
        "check",
        "simulate",
        "worlds",
        "mutants",
        "torture",
        "models",
        "bench",
        "peers",
        "docs",
        "release-check",
        "clean",
    ]


def test_environment_is_rebuilt_when_pyproject_changes(clone: Path) -> None:
    before = stamp(clone)
    assert stamp(clone) == before
    with (clone / "pyproject.toml").open("a") as file:
        file.write("# another dependency\n")
    assert stamp(clone) != before


def test_quick_installs_no_server(clone: Path) -> None:
    assert "install_debian.sh" in run(clone, "make", "-n", "test").stdout
    assert "install_debian.sh" not in run(clone, "make", "-n", "quick").stdout


def test_demo_does_not_install_what_only_tests_need(clone: Path) -> None:
    plan = run(clone, "make", "-n", "demo").stdout
    assert "'.[demo]'" in plan
    assert "'.[dev]'" not in plan


def test_interpreter_that_does_not_run_is_named(clone: Path) -> None:
    done = run(clone, "make", "demo", "PYTHON=/nowhere/python3")
    assert done.returncode == 2
    assert "none of these runs: /nowhere/python3" in done.stdout
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    ("closing", "code"),
    [("12 passed in 0.34s", 0), ("1 failed, 11 passed, 2 skipped in 65.20s (0:01:05)", 2)],
)
def test_ci_ends_with_pytest_closing_line_and_fails_with_make(tmp_path: Path, closing: str, code: int) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    recipe = (
        f"check:\n\t@echo checked\nmodels:\ntest:\n\t@echo '===== {closing} ====='; echo more; test $$CI = true; exit {code}\n"
    )
    (tmp_path / "Makefile").write_text(recipe)
    done = run(tmp_path, str(tmp_path / ".ci/run"))
    assert done.stdout.splitlines()[0] == "checked"
    assert done.stdout.splitlines()[-1] == closing
    assert done.returncode == code


def test_ci_reports_when_the_tests_did_not_run(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text("check:\n\t@false\n")
    done = run(tmp_path, "bash", ".ci/run")
    assert done.stdout.splitlines()[-1] == "the tests did not run"
    assert done.returncode == 2

"""Every command in the README works as written."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import App
from holdfast._engine.registry import define
from holdfast._engine.task import Task

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line[2:] for language, block in BLOCKS if language == "console" for line in block.splitlines() if line.startswith("$ ")
]
TASKS = next(block for language, block in BLOCKS if language == "python")


def run(command: list[str], folder: Path, timeout: float = 60) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("HOLDFAST_URL", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_first_example_runs_as_written(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    said = {command: run(shlex.split(command), tmp_path) for command in COMMANDS if command.startswith("holdfast")}
    assert len(said) == 3
    assert "completed" in list(said.values())[-1]


def test_every_make_target_named_exists() -> None:
    targets = [command.split()[1] for command in COMMANDS if command.startswith("make")]
    assert targets == ["demo", "test"]
    for target in targets:
        run(["make", "--dry-run", target], ROOT)


def test_no_command_is_left_untested() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"holdfast", "make"}


@pytest.mark.timeout(120)
def test_it_installs_from_a_clone(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--target", str(tmp_path), str(ROOT)], tmp_path, timeout=110)
    assert (tmp_path / "holdfast" / "py.typed").exists()
    assert any((tmp_path / "holdfast" / "stores" / "sqlite").rglob("*.sql"))


def test_words_of_the_rescue_are_those_of_the_demo() -> None:
    show = (ROOT / "src/holdfast/demo/show.py").read_text()
    story = next(block for language, block in BLOCKS if language == "text")
    for words in ("killed worker", "(SIGKILL) at", "rescued by worker", "resumed from checkpoint: commit"):
        assert words in story
        assert words in show


def test_every_setting_and_option_is_in_the_reference() -> None:
    said = (ROOT / "docs/reference.md").read_text()
    names = [
        *inspect.signature(App.__init__).parameters,
        *inspect.signature(define).parameters,
        *inspect.signature(Task.options).parameters,
    ]
    assert [name for name in names if name not in ("self", "function") and name not in said] == []

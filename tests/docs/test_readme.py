"""The README's promises about the clone itself; what it shows of the library is run by `test_pages`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of, commands_of

BLOCKS = blocks_of(ROOT / "README.md")


def run(command: list[str], folder: Path, timeout: float = 60) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("HOLDFAST_URL", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_every_make_target_named_exists() -> None:
    typed = [command.text for block in BLOCKS if block.language == "console" for command in commands_of(block)]
    targets = [command.split()[1] for command in typed if command.startswith("make")]
    assert targets == ["demo", "test"]
    for target in targets:
        run(["make", "--dry-run", target], ROOT)


@pytest.mark.prove
@pytest.mark.timeout(120)
def test_it_installs_from_a_clone(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--target", str(tmp_path), str(ROOT)], tmp_path, timeout=110)
    assert (tmp_path / "holdfast" / "py.typed").exists()
    assert any((tmp_path / "holdfast" / "stores" / "sqlite").rglob("*.sql"))


def test_it_needs_no_more_libraries_than_it_declares() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'"(\w+)', project.partition("\ndependencies = [")[2].partition("]")[0])
    assert needed == ["msgspec", "click", "rich"]


def test_words_of_the_rescue_are_those_of_the_demo() -> None:
    show = (ROOT / "src/holdfast/demo/show.py").read_text()
    story = next(block.text for block in BLOCKS if block.language == "text")
    for words in ("killed worker", "(SIGKILL) at", "rescued by worker", "resumed from checkpoint: commit"):
        assert words in story
        assert words in show

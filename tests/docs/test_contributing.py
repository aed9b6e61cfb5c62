"""The first change that CONTRIBUTING.md proposes works as it is written there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def block(language: str) -> str:
    """Return the one block of this language on the page."""
    (found,) = [each["text"] for each in FENCE.finditer(PAGE) if each["language"] == language]
    return found


def run_test(folder: Path) -> int:
    """Run the page's test against the sources in the folder; return the exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_squared.py"]
    path = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, env=path, capture_output=True, timeout=60, check=False).returncode


@pytest.mark.prove
def test_the_first_change_makes_its_test_pass(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "test_squared.py").write_text(block("python"))
    (tmp_path / "squared.diff").write_text(block("diff"))
    assert run_test(tmp_path) == 1
    subprocess.run(["git", "apply", "squared.diff"], cwd=tmp_path, check=True, timeout=60)
    assert run_test(tmp_path) == 0

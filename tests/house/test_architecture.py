"""The picture of the house equals the imports, and each rule about imports fails on an import that breaks it."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLANTED = {
    "Arrows point inwards": ("src/holdfast/_core/job.py", "import holdfast.sync"),
    "The engine's rooms": ("src/holdfast/_engine/client/client.py", "import holdfast._engine.worker.slots"),
    "The engine knows no brand and no machine": ("src/holdfast/_engine/retry.py", "import holdfast._system.clock"),
    "Databases, stores, rows and transports know ports and words only": (
        "src/holdfast/stores/memory.py",
        "import holdfast.settings",
    ),
    "Stores never import each other": ("src/holdfast/stores/memory.py", "import holdfast.stores.sqlite.schema"),
    "Databases never import each other": (
        "src/holdfast/databases/sqlite/timers.py",
        "import holdfast.databases.postgres.errors",
    ),
    "Transports never import each other": ("src/holdfast/transports/polling.py", "import holdfast.transports.inprocess"),
    "What is shipped never imports the proof": ("src/holdfast/testing/points.py", "import proof.simulate"),
    "Words and ports are pure": ("src/holdfast/_ports/clock.py", "import asyncio"),
}


def test_the_picture_is_drawn_from_the_imports_of_today() -> None:
    draw = runpy.run_path(str(ROOT / "scripts/house_picture.py"))["draw"]
    picture = (ROOT / "docs/images/house.svg").read_text()
    assert draw() == picture, "run `python scripts/house_picture.py`"


def contracts() -> list[str]:
    """Return the names of all rules in .importlinter."""
    lines = (ROOT / ".importlinter").read_text().splitlines()
    return [line.removeprefix("name = ") for line in lines if line.startswith("name = ")]


def test_an_import_that_breaks_it_is_planted_for_each_rule() -> None:
    assert sorted(PLANTED) == sorted(contracts())


@pytest.mark.prove
@pytest.mark.parametrize("rule", PLANTED)
def test_the_rule_fails_on_a_planted_import(rule: str, tmp_path: Path) -> None:
    for folder in ("src", "proof"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    name, statement = PLANTED[rule]
    file = tmp_path / name
    file.write_text(f"{file.read_text()}\n{statement}\n")
    path = os.environ | {"PYTHONPATH": f"{tmp_path / 'src'}:{tmp_path}"}
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    answer = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1, answer.stdout
    broken = [line.removesuffix(" BROKEN") for line in answer.stdout.splitlines() if line.endswith(" BROKEN")]
    assert rule in broken, answer.stdout

"""`python -m bench.rows` measures all it promises; no test judges the numbers, but which index a statement uses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.rows.contest import CPU, HAND, OURS, OWNED, WORKS

ROOT = Path(__file__).parents[2]


@pytest.mark.prove
@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_everything_is_measured(store: str, tmp_path: Path) -> None:
    small = ["--rows", "200000", "--count", "2000", "--rounds", "1", "--stores", store]
    where = ["--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    done = subprocess.run([sys.executable, "-m", "bench.rows", *small, *where], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / f"results/rows-{store}.json").read_text())
    assert {plan["statement"] for plan in found["plans"]} >= {"claim", "has_due", "reset", "prune", "states: due, stuck, oldest"}
    assert all(plan["is_sound"] for plan in found["plans"])
    assert all(values and min(values) > 0 for values in found["milliseconds"].values())
    figures = [f"{work}{which}" for work in WORKS for which in ("", f" {CPU}")]
    assert set(found["rows per second"]) == {f"{name}, {figure}" for name in (HAND, OURS, OWNED) for figure in figures}
    assert set(found["ratios"]) == {f"{name}, {figure}" for name in (OURS, OWNED) for figure in figures}
    for promised in ("beside 200,000 rows", "claim of scattered rows", "by hand", "written: "):
        assert promised in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["results"]

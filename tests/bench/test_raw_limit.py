"""`python -m bench.raw_limit` sends Holdfast's statements with and without its engine; no test judges the figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = ["enqueue many, an iterator", "enqueue many, lists of 1,000", "enqueue one by one", "drain"]


@pytest.mark.prove
@pytest.mark.timeout(120)
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def test_each_figure_of_the_engine_has_that_of_its_statements(store: str, tmp_path: Path) -> None:
    small = ["--store", store, "--rounds", "1", "--size", "0.01", "--folder", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "bench.raw_limit", *small], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^([a-z].*): ([\d,]+) / ([\d,]+) jobs/s = ([\d.]+)$", done.stdout, re.MULTILINE)
    assert [name for name, *_ in found] == FIGURES
    assert all(float(rate.replace(",", "")) > 0 for _, engine, raw, _ in found for rate in (engine, raw))
    assert list(tmp_path.iterdir()) == []

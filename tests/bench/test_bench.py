"""`make bench` measures everything it promises: every peer, every figure, a table, a chart. The numbers are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENQUEUED, RUN = {"one by one"}, {"together", "bulk", "drain"}
FIGURES = {
    "raw": ENQUEUED,
    "raw in a thread": ENQUEUED,
    "huey": ENQUEUED | RUN | {"p50", "p99"},
    "holdfast": ENQUEUED | RUN | {"p50", "p99"},
    "holdfast beside waiting": ENQUEUED | RUN,
    "holdfast beside finished": ENQUEUED | RUN,
}


@pytest.mark.timeout(180)
def test_every_peer_gets_every_figure_in_every_round(tmp_path: Path) -> None:
    small = ["--rounds", "2", "--seconds", "600", "--size", "0.01", "--scale", "100"]
    where = ["--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    done = subprocess.run([sys.executable, "-m", "bench", *small, *where], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results/sqlite.json").read_text())
    assert set(found["rounds"]) == {f"{figure} | {peer}" for peer, figures in FIGURES.items() for figure in figures}
    assert all(len(values) == 2 and min(values) > 0 for values in found["rounds"].values())
    assert len(found["ratios"]) == 8
    for promised in ("synchronous=FULL", "--concurrency 100", "run no-op jobs", "as a multiple of huey's", "written: "):
        assert promised in done.stdout
    assert (tmp_path / "results/sqlite.svg").read_text().count("enqueue one by one") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["results"]

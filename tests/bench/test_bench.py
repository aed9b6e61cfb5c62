"""`make bench` measures everything it promises: every peer, every figure, a table, a chart. No test judges the numbers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENQUEUED, RUN, REPORTED = {"one by one"}, {"together", "bulk", "drain"}, {"p50", "p99"}
OURS = {
    "holdfast": ENQUEUED | RUN | REPORTED,
    "holdfast beside waiting": ENQUEUED | RUN,
    "holdfast beside finished": ENQUEUED | RUN,
}
FIGURES = {
    "sqlite": {"raw": ENQUEUED, "raw in a thread": ENQUEUED, "huey": ENQUEUED | RUN | REPORTED, **OURS},
    "postgres": {"raw": ENQUEUED, "pgqueuer": ENQUEUED | RUN | REPORTED, "procrastinate": ENQUEUED | RUN | REPORTED, **OURS},
}
LABELS = {
    "sqlite": ("synchronous=FULL", "--concurrency 100", "run no-op jobs", "as a multiple of huey's", "written: "),
    "postgres": ("fsync=on", "synchronous_commit=on", "batch_size=", "as a multiple of pgqueuer's", "written: "),
}


@pytest.mark.prove
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("race", "rounds", "targets"), [("sqlite", 2, 8), ("postgres", 1, 6)])
def test_every_peer_gets_every_figure_in_every_round(race: str, rounds: int, targets: int, tmp_path: Path) -> None:
    small = ["--rounds", str(rounds), "--seconds", "600", "--size", "0.01", "--scale", "100"]
    where = ["--folder", str(tmp_path), "--results", str(tmp_path / "results")]
    done = subprocess.run([sys.executable, "-m", "bench", race, *small, *where], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / f"results/{race}.json").read_text())
    assert set(found["rounds"]) == {f"{figure} | {peer}" for peer, figures in FIGURES[race].items() for figure in figures}
    assert all(len(values) == rounds and min(values) > 0 for values in found["rounds"].values())
    assert len(found["ratios"]) == targets
    for promised in LABELS[race]:
        assert promised in done.stdout
    assert (tmp_path / f"results/{race}.svg").read_text().count("enqueue one by one") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["results"]

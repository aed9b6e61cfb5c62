"""`holdfast demo`, as a user runs it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


def show(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast.cli", "demo", "--seconds", "2", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50, check=False)


def test_the_owner_is_killed_half_way_and_the_job_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    killed = show(tmp_path)
    assert killed.returncode == 0, killed.stderr
    output = killed.stdout
    percent = re.search(r"^killed worker (\S+) \(SIGKILL\) at (\d+) %$", output, re.MULTILINE)
    assert percent
    assert 40 <= int(percent[2]) <= 60
    rescue = re.search(r"^rescued by worker (\S+) after (\d+\.\d+) s: attempt 2$", output, re.MULTILINE)
    assert rescue
    assert rescue[1] != percent[1]
    assert float(rescue[2]) < 1.0
    assert re.search(r"^resumed from checkpoint: commit \d+ of 400 \(\d+ %\)$", output, re.MULTILINE)
    assert re.search(r"attempt 1 .* SIGKILL", output)
    assert re.search(r"attempt 2 .* completed", output)
    chart = Path(output.splitlines()[-1])
    assert chart.is_file()
    assert chart == tmp_path / "holdfast-demo" / "sample" / "evolution.png"
    undisturbed = show(tmp_path, "--no-kill", "--out", "calm")
    assert "SIGKILL" not in undisturbed.stdout
    calm = tmp_path / "calm" / "sample" / chart.name
    assert chart.with_suffix(".csv").read_bytes() == calm.with_suffix(".csv").read_bytes()
    reported, expected = (json.loads(path.with_suffix(".json").read_text()) for path in (chart, calm))
    assert reported.pop("repo") != expected.pop("repo"), "each show makes another sample"
    assert reported == expected


@pytest.mark.parametrize("repo", ["/nowhere", "--upload-pack=x", ""])
def test_a_repository_that_is_none_is_refused_with_a_remedy(tmp_path: Path, repo: str) -> None:
    refused = show(tmp_path, f"--repo={repo}")
    assert refused.returncode in (1, 2)
    assert refused.stderr.startswith(("error: ", "Usage: "))
    assert "Traceback" not in refused.stderr


def test_a_store_that_workers_cannot_share_is_refused_at_once(tmp_path: Path) -> None:
    refused = show(tmp_path, "--url", "memory://")
    assert refused.returncode == 1
    assert "leave --url out" in refused.stderr


@pytest.mark.prove
def test_without_matplotlib_the_chart_is_an_svg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").write_text("raise ImportError\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = show(tmp_path, "--no-kill")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[-1]) == tmp_path / "holdfast-demo" / "sample" / "evolution.svg"

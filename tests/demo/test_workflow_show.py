"""`holdfast demo --workflow`, as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest


def show(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "holdfast.cli", "demo", "--workflow", "--seconds", "2", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.prove
def test_one_analysis_is_lost_and_it_alone_runs_again(tmp_path: Path) -> None:
    done = show(tmp_path)
    assert done.returncode == 0, done.stderr
    output = done.stdout
    killed = re.search(r"^killed worker (\S+) \(SIGKILL\), which ran (analyze-\w+)$", output, re.MULTILINE)
    assert killed
    again = re.search(rf"^{killed[2]}: attempt 2 on worker (\S+), \d+\.\d+ s after the kill$", output, re.MULTILINE)
    assert again
    assert again[1] != killed[1]
    assert re.search(rf"^run again: {killed[2]}; [\d,]+ lines in all$", output, re.MULTILINE)
    assert sorted(re.findall(r"^(\S+): attempt 1 ", output, re.MULTILINE)) == [
        "analyze-api",
        "analyze-core",
        "analyze-web",
        "report",
    ]
    report = Path(output.splitlines()[-1])
    assert report == tmp_path / "holdfast-demo" / "workflow" / "report.md"
    assert sorted(re.findall(r"^\| (\w+) \| [\d,]+ \|", report.read_text(), re.MULTILINE)) == ["api", "core", "web"]
    picture = ElementTree.fromstring((report.parent / "workflow.svg").read_text())
    assert "4 of 4 nodes done" in picture.attrib["aria-label"]


def test_a_repository_of_the_users_is_refused_with_what_to_do(tmp_path: Path) -> None:
    refused = show(tmp_path, "--repo", ".")
    assert refused.returncode == 2
    assert "leave --repo out" in refused.stderr

"""The demo's analysis: right figures, resumed at its checkpoint, refusals with a remedy, and a chart of every history."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.demo import chart
from holdfast.demo.analysis import GIT, BadRepository, environment, git, language_of
from holdfast.demo.sample import generate
from holdfast.demo.task import analyze


class FakeJob:
    """A job that keeps its checkpoints, and ends its attempt at the n-th."""

    def __init__(self, attempt: int = 1, checkpoint: object = None, ends_at: int = 0) -> None:
        self.id, self.attempt, self.checkpoint_value = "job", attempt, checkpoint
        self._left = ends_at

    async def progress(self, *, stage: str, fraction: float, message: str) -> None:
        assert 0 <= fraction <= 1

    async def checkpoint(self, value: object) -> None:
        self.checkpoint_value = json.loads(json.dumps(value))
        self._left -= 1
        if self._left == 0:
            raise ConnectionResetError


def run(repository: Path | str, out: Path, job: FakeJob | None = None, **options: int) -> dict[str, object]:
    return asyncio.run(analyze(job or FakeJob(), str(repository), str(out), **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "sample.git"
    generate(folder, 60)
    return folder


@pytest.fixture(autouse=True)
def _no_chart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "chart" not in request.node.name:
        monkeypatch.setattr("holdfast.demo.analysis.sys.executable", "true")


def lines_by_language(repository: Path, commit: str) -> dict[str, int]:
    """Count a whole tree, file by file."""
    found: Counter[str] = Counter()
    for path in git("-C", str(repository), "ls-tree", "-r", "--name-only", commit).splitlines():
        content = subprocess.run(
            [*GIT, "-C", str(repository), "show", f"{commit}:{path}"], capture_output=True, check=True
        ).stdout
        if b"\0" not in content:
            found[language_of(path)] += content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    return {language: lines for language, lines in found.items() if lines}


def history_of(out: Path) -> list[dict[str, object]]:
    history = json.loads((out / "evolution.json").read_text())["history"]
    assert isinstance(history, list)
    return history


def test_a_sample_is_the_same_on_every_machine(sample: Path, tmp_path: Path) -> None:
    generate(tmp_path / "again.git", 60)
    assert git("-C", str(tmp_path / "again.git"), "rev-parse", "main") == git("-C", str(sample), "rev-parse", "main")


def test_each_row_has_the_lines_of_its_commit(sample: Path, tmp_path: Path) -> None:
    found = run(sample, tmp_path)
    rows = history_of(tmp_path)
    assert (found["commits"], found["sampled"], len(rows)) == (60, 60, 60)
    for row in rows[::13]:
        assert row["languages"] == lines_by_language(sample, str(row["commit"]))
    assert len((tmp_path / "evolution.csv").read_text().splitlines()) == 61
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".work")] == []


def test_merges_renames_and_binary_files_are_counted_right(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run([*GIT, "init", "-q", "-b", "main", str(repository)], env=environment(), check=True)

    def do(*words: str) -> None:
        git("-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example.org", *words)

    (repository / "a b.py").write_text("one\ntwo\n")
    (repository / "x.png").write_bytes(b"\0" * 100)
    do("add", "."), do("commit", "-qm", "first"), do("checkout", "-qb", "side")
    (repository / "side.rs").write_text("one\n" * 5)
    do("add", "."), do("commit", "-qm", "second"), do("checkout", "-q", "main"), do("mv", "a b.py", "ä.js")
    do("commit", "-qm", "third"), do("merge", "-q", "--no-ff", "-m", "fourth", "side")
    found = run(repository, tmp_path / "out")
    assert (found["commits"], found["languages"]) == (3, {"JavaScript": 2, "Rust": 5})


@pytest.mark.parametrize("ends_at", [1, 2, 5])
def test_a_resumed_analysis_writes_what_an_undisturbed_one_does(sample: Path, tmp_path: Path, ends_at: int) -> None:
    run(sample, tmp_path / "calm", batch=7)
    job = FakeJob(ends_at=ends_at)
    with pytest.raises(ConnectionResetError):
        run(sample, tmp_path / "hurt", job, batch=7)
    run(sample, tmp_path / "hurt", FakeJob(2, job.checkpoint_value), batch=7)
    for kind in ("json", "csv"):
        assert (tmp_path / "hurt" / f"evolution.{kind}").read_bytes() == (tmp_path / "calm" / f"evolution.{kind}").read_bytes()


def test_a_long_history_is_sampled_evenly_up_to_its_tip(sample: Path, tmp_path: Path) -> None:
    found = run(sample, tmp_path, max_commits=8)
    assert (found["commits"], found["sampled"]) == (60, 9)
    assert history_of(tmp_path)[-1]["commit"] == found["tip"]


def test_a_url_is_cloned_first(sample: Path, tmp_path: Path) -> None:
    assert run(f"file://{sample}", tmp_path)["commits"] == 60


@pytest.mark.parametrize("repository", ["", "--upload-pack=x", "a\0b", "/nowhere", "file:///nowhere/at-all"])
def test_what_cannot_be_analyzed_is_refused_with_a_remedy(tmp_path: Path, repository: str) -> None:
    with pytest.raises(BadRepository, match=r"check the|pass one"):
        run(repository, tmp_path)


@pytest.mark.parametrize("remote", ["/nowhere", "ssh://host/x", "ext::sh -c {program}", "file:///nowhere"])
def test_what_is_missing_is_not_fetched_by_a_program_the_repository_names(sample: Path, tmp_path: Path, remote: str) -> None:
    program, trap = tmp_path / "program", tmp_path / "trap.git"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\n")
    program.chmod(0o755)
    git("clone", "-q", "--bare", str(sample), str(trap), protocols="file")
    settings = {"uploadpack": str(program), "vcs": str(program), "url": remote.format(program=program), "promisor": "true"}
    for setting, value in settings.items():
        git("-C", str(trap), "config", f"remote.origin.{setting}", value)
    for setting in ("core.sshCommand", "core.fsmonitor", "diff.external", "core.pager", "core.gitProxy"):
        git("-C", str(trap), "config", setting, str(program))
    for path in trap.glob("objects/pack/*"):
        path.unlink()
    (trap / "objects" / "pack" / "x.promisor").touch()
    with pytest.raises(BadRepository, match=r"fsck|commits"):
        run(trap, tmp_path / "out")
    assert not (tmp_path / "owned").exists()


def test_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    subprocess.run([*GIT, "init", "-q", str(tmp_path / "empty")], env=environment(), check=True)
    with pytest.raises(BadRepository, match="commit something first"):
        run(tmp_path / "empty", tmp_path)


def test_the_chart_shows_every_language_and_escapes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"date": 1_600_000_000, "languages": {"C": 3, "Rust": 1}}
    result = {"name": "<&>", "commits": 1, "lines": 4, "history": [row]}
    (tmp_path / "evolution.json").write_text(json.dumps(result))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    chart.main(*(str(tmp_path / f"evolution.{kind}") for kind in ("json", "svg", "png")))
    words = [each.text for each in ElementTree.parse(tmp_path / "evolution.svg").iter() if each.text and each.text.strip()]
    assert {"<&>", "C  3", "Rust  1"} <= set(words)
    assert not (tmp_path / "evolution.png").exists(), "without matplotlib there is only the SVG"


def test_the_chart_of_a_long_history_ends_at_its_tip(sample: Path, tmp_path: Path) -> None:
    found = run(sample, tmp_path)
    assert "svg" in found["files"]  # type: ignore[operator]
    head = json.loads((tmp_path / "evolution.json").read_text())
    head["history"] *= 30
    assert f"Markdown  {found['languages']['Markdown']:,}" in chart.svg_of(head)  # type: ignore[index]

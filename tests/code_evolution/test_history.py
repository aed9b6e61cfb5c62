"""The walk: every commit once, parents first, sampled evenly; and the sample repository it is tried on."""

import json
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from analyzer import history
from analyzer.analysis import Request
from analyzer.errors import BadRepository
from analyzer.git import Git, git_command, git_environment
from analyzer.history import CommitFile, even_positions, walk
from analyzer.processes import Children
from analyzer.sample import generate
from hypothesis import given
from hypothesis import strategies as st

from tests.code_evolution.support import FakeJob, analyze, git

TIP_OF_100 = "72470ea28a8fb3582acf429a066c7718b3d3a8c2"


@given(st.integers(1, 5000), st.integers(2, 300))
def test_an_even_sample_keeps_both_ends(total: int, limit: int) -> None:
    positions = list(even_positions(total, limit))
    assert len(positions) == min(total, limit)
    assert (positions[0], positions[-1]) == (0, total - 1)
    steps = {after - before for before, after in pairwise(positions)}
    assert not steps or (min(steps) > 0 and max(steps) - min(steps) <= 1)


def walked(repository: Path, target: Path, limit: int | None = None) -> CommitFile:
    *_, found = walk(Git(repository, Children()), "main", limit, target)
    commits = CommitFile(target)
    assert commits.count == found.sampled
    return commits


def test_every_commit_once_and_parents_first(sample: Path, tmp_path: Path) -> None:
    commits = walked(sample, tmp_path / "commits").read(0, 1000)
    seen: set[str] = set()
    parents = dict(line.split(" ", 1) for line in git(sample, "log", "--format=%H %P", "main").decode().splitlines())
    for commit in commits:
        assert set(parents[commit.id].split()) <= seen
        seen.add(commit.id)
    assert (len(commits), seen) == (120, set(parents))


def test_the_main_line_is_marked(sample: Path, tmp_path: Path) -> None:
    commits = walked(sample, tmp_path / "commits").read(0, 1000)
    expected = git(sample, "rev-list", "--first-parent", "--reverse", "main").decode().split()
    assert [commit.id for commit in commits if commit.is_mainline] == expected
    assert len(expected) < 120


@pytest.mark.parametrize("limit", [1, 2, 7, 99, 110, 120, 500])
def test_a_sample_is_of_the_main_line_when_that_is_long_enough(sample: Path, tmp_path: Path, limit: int) -> None:
    commits = walked(sample, tmp_path / "commits", limit).read(0, 1000)
    mainline = git(sample, "rev-list", "--first-parent", "--reverse", "main").decode().split()
    assert len(commits) == min(limit, 120)
    assert commits[-1].id == mainline[-1]
    assert limit == 1 or commits[0].id == mainline[0]
    assert limit > len(mainline) or all(commit.is_mainline for commit in commits)


def test_a_small_sample_of_a_long_history_is_not_silent(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_SLICE", 10)
    assert len(list(walk(Git(sample, Children()), "main", 2, tmp_path / "commits"))) > 5


def test_slices_of_the_file(sample: Path, tmp_path: Path) -> None:
    commits = walked(sample, tmp_path / "commits")
    everything = commits.read(0, 120)
    assert commits.read(7, 9) == everything[7:9]
    assert commits.read(118, 200) == everything[118:]
    assert commits.read(120, 121) == []


def test_dates_of_broken_clocks_are_kept_in_range(tmp_path: Path) -> None:
    git(tmp_path / "r.git", "init", "--quiet", "--bare", "--initial-branch=main")
    dates = (0, 99_999_999_999_999, 5)
    stream = "".join(f"commit refs/heads/main\ncommitter A <a> {date} +0000\ndata 0\n\n" for date in dates)
    git(tmp_path / "r.git", "fast-import", "--quiet", stdin=stream.encode())
    assert [commit.date for commit in walked(tmp_path / "r.git", tmp_path / "commits").read(0, 3)] == [0, 4_102_444_800, 5]


@pytest.mark.usefixtures("no_chart")
def test_a_shallow_clone_is_analyzed_and_reported_as_such(sample: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow.git"
    command = git_command("clone", "--quiet", "--bare", "--depth=5", "--", f"file://{sample}", str(shallow))
    subprocess.run(command, env=git_environment(), check=True)
    result = analyze(FakeJob(), Request(str(shallow), str(tmp_path / "out")))
    assert (result["shallow"], result["commits"]) == (True, int(git(shallow, "rev-list", "--count", "HEAD")))
    whole = analyze(FakeJob(), Request(str(sample), str(tmp_path / "whole")))
    assert result["languages"] == whole["languages"]
    assert json.loads((tmp_path / "out" / "evolution.json").read_text())["shallow"] is True


@pytest.mark.usefixtures("no_chart")
def test_urls_and_detached_heads(sample: Path, tmp_path: Path) -> None:
    assert analyze(FakeJob(), Request(f"file://{sample}", str(tmp_path / "url")))["commits"] == 120
    detached = tmp_path / "detached.git"
    subprocess.run(git_command("clone", "--quiet", "--bare", "--", str(sample), str(detached)), env=git_environment(), check=True)
    git(detached, "update-ref", "--no-deref", "HEAD", "main~3")
    result = analyze(FakeJob(), Request(str(detached), str(tmp_path / "out")))
    assert result["tip"] == git(sample, "rev-parse", "main~3").decode().strip()


def test_the_sample_is_the_same_everywhere(tmp_path: Path) -> None:
    assert generate(tmp_path / "one.git", 100) == TIP_OF_100
    assert generate(tmp_path / "one.git", 100) == TIP_OF_100  # kept


@pytest.mark.parametrize("commits", [1, 2, 3, 17, 30])
def test_the_sample_has_as_many_commits_as_asked(tmp_path: Path, commits: int) -> None:
    generate(tmp_path / "sample.git", commits)
    assert int(git(tmp_path / "sample.git", "rev-list", "--count", "main")) == commits


def test_the_sample_is_lively(sample: Path) -> None:
    raw = git(sample, "log", "--raw", "-M", "--format=%P", "main").decode("utf-8", "replace")
    assert len(git(sample, "rev-list", "--merges", "main").split()) >= 5
    assert {change.split("\t")[0].split()[-1][0] for change in raw.splitlines() if change.startswith(":")} >= set("AMDR")
    assert ":160000" in raw


def test_a_sample_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(BadRepository, match="not empty"):
        generate(tmp_path / "mine", 10)
    assert (tmp_path / "mine" / "thesis.txt").exists()

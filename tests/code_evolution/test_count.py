"""Counting: what has lines, what has none, and that looking at changes only is as good as looking at everything."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from analyzer import count, languages
from analyzer.analysis import Request
from analyzer.count import BINARY, BlobCounter, count_lines
from analyzer.git import Git, GitFailed, GitKilled
from analyzer.languages import language_of
from analyzer.processes import Children

from tests.code_evolution.support import FakeJob, analyze, counted_by_brute_force, git, make_repository

pytestmark = pytest.mark.usefixtures("no_chart")
LINK, MODULE, PROGRAM = b"120000", b"160000", b"100755"


def history(repository: Path, out: Path, **more: Any) -> list[dict[str, Any]]:
    analyze(FakeJob(), Request(str(repository), str(out), **more))
    rows = json.loads((out / "evolution.json").read_text())["history"]
    assert isinstance(rows, list)
    return rows


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"one", 1),
        (b"one\n", 1),
        (b"one\ntwo", 2),
        (b"\r\n\r\n", 2),
        (b"caf\xe9\n\xff\xfe\n", 2),
        (b"a" * 200_000 + b"\nb", 2),
        (b"\0", BINARY),
        (b"a" * 7999 + b"\0", BINARY),
        (b"a" * 8000 + b"\0\n", 1),
    ],
)
def test_lines_of_a_blob(content: bytes, lines: int) -> None:
    assert count_lines(io.BytesIO(content), len(content)) == lines


def test_a_cut_off_blob_is_an_error() -> None:
    with pytest.raises(GitKilled):
        count_lines(io.BytesIO(b"abc"), 4)


def test_links_submodules_binaries_and_vendored_files_are_counted_apart(tmp_path: Path) -> None:
    repository = make_repository(
        tmp_path / "repository.git",
        {
            b"a.py": b"1\n2\n",
            b"run.sh": (PROGRAM, b"1\n"),
            b"link.py": (LINK, b"a.py"),
            b"library": (MODULE, b"1" * 40),
            b"logo.png": b"\x89PNG\0\n\n\n",
            b"node_modules/x/y.js": b"1\n2\n3\n",
            b"web/app.min.js": b"1\n",
            b"empty.rs": b"",
        },
        {b"link.py": b"1\n2\n3\n", b"library": None, b"logo.png": b"now text\n", b"a.py": (LINK, b"link.py")},
        {b"library": (MODULE, b"2" * 40), b"node_modules/x/y.js": b"1\n"},
        {b"library": (MODULE, b"3" * 40), b"empty.rs": None},
    )
    rows = history(repository, tmp_path / "out")
    shown = [(row["languages"], row["files"], row["binary"], row["vendored"], row["symlinks"], row["submodules"]) for row in rows]
    assert shown == [
        ({"Python": 2, "Shell": 1}, 3, 1, 2, 1, 1),
        ({"Python": 3, "Shell": 1, "Other": 1}, 4, 0, 2, 1, 0),
        ({"Python": 3, "Shell": 1, "Other": 1}, 4, 0, 2, 1, 1),
        ({"Python": 3, "Shell": 1, "Other": 1}, 3, 0, 2, 1, 1),
    ]


@pytest.mark.parametrize("name", ["sp ace", "tab\t", "new\nline", 'quo"te', "back\\slash", "-dash", ":colon", "ü", "*", "'"])
def test_odd_names(tmp_path: Path, name: str) -> None:
    path = f"{name}/{name}.py".encode()
    repository = make_repository(
        tmp_path / "repository.git", {path: b"1\n", b"\xff\xfe.c": b"1\n"}, {path: b"1\n2\n"}, {b"\xff\xfe.c": None}
    )
    assert [row["languages"] for row in history(repository, tmp_path / "out")] == [
        {"C": 1, "Python": 1},
        {"C": 1, "Python": 2},
        {"Python": 2},
    ]


def test_a_large_blob_is_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "LARGEST", 1000)
    repository = make_repository(
        tmp_path / "repository.git", {b"a.py": b"1\n", b"dump.sql": b"1\n" * 501}, {b"dump.sql": b"1\n" * 500}
    )
    rows = history(repository, tmp_path / "out")
    assert [(row["languages"], row["large"]) for row in rows] == [({"Python": 1}, 1), ({"Python": 1, "SQL": 500}, 0)]


def test_the_same_content_is_read_once_under_any_name(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository.git", {b"a.py": b"1\n", b"b.py": b"1\n"})
    blob = git(repository, "rev-parse", "main:a.py").strip()
    children = Children()
    try:
        blobs = BlobCounter(Git(repository, children))
        assert blobs.lines_of([blob, blob]) == {blob: 1}
        assert blobs.lines_of([blob]) == {blob: 1}
        assert blobs.counted == 1
        with pytest.raises(GitFailed, match="missing"):
            blobs.lines_of([b"1" * 40])
    finally:
        children.kill()
        children.reap()


@pytest.mark.parametrize("limits", [{"_CACHED": 1, "_AT_ONCE": 2}, {"_SLICE": 1}, {"_SLICE": 3, "_CACHED": 5}])
def test_small_memory_and_small_slices_change_nothing(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    expected = history(sample, tmp_path / "usual")
    for name, value in limits.items():
        monkeypatch.setattr(count, name, value)
    assert history(sample, tmp_path / "small") == expected


@pytest.mark.parametrize("batch", [1, 119, 1000])
def test_the_batch_changes_nothing(sample: Path, tmp_path: Path, batch: int) -> None:
    assert history(sample, tmp_path / "one", batch=batch) == history(sample, tmp_path / "two")


def test_commits_which_change_nothing(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository.git", {}, {}, {b"a.py": b"1\n"}, {}, {b"a.py": None}, {})
    rows = history(repository, tmp_path / "out", batch=2)
    assert [row["languages"] for row in rows] == [{}, {}, {"Python": 1}, {"Python": 1}, {}, {}]


def test_names_of_unusual_length_are_not_remembered() -> None:
    before = languages._remembered.cache_info().currsize
    assert language_of(b"never-seen/" * 100 + b"a.py") == "Python"
    assert languages._remembered.cache_info().currsize == before


def test_sha256_repositories(tmp_path: Path) -> None:
    folder = tmp_path / "long.git"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "--object-format=sha256")
    git(
        folder,
        "fast-import",
        "--quiet",
        stdin=b"commit refs/heads/main\ncommitter A <a> 1 +0000\ndata 0\nM 644 inline a.c\ndata 2\nx\n\n",
    )
    (row,) = history(folder, tmp_path / "out")
    assert (len(row["commit"]), row["languages"]) == (64, {"C": 1})
    assert counted_by_brute_force(folder, "main")["languages"] == {"C": 1}


@pytest.mark.parametrize(
    ("path", "language"),
    [
        (b"a.PY", "Python"),
        (b"deep/er/Makefile", "Makefile"),
        (b"Dockerfile.prod", "Dockerfile"),
        (b".gitignore", "Other"),
        (b"LICENSE", "Text"),
        (b"x.tar.unknown", "Other"),
        (b"vendor/a.go", None),
        (b"a/node_modules/b/c.js", None),
        (b"vendor.go", "Go"),
        (b"jquery.min.js", None),
        (b"Cargo.lock", None),
        (b"caf\xe9.rb", "Ruby"),
    ],
)
def test_languages(path: bytes, language: str | None) -> None:
    assert language_of(path) == language

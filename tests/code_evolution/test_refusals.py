"""Bad input is refused in one sentence which names the remedy."""

import subprocess
from importlib import util
from pathlib import Path

import pytest
from analyzer import analysis
from analyzer.analysis import Request
from analyzer.errors import AnalysisError, BadRepository, Unreachable, explain_clone
from analyzer.git import git_command, git_environment, locate, repository_name, without_secrets

from holdfast.errors import MissingExtra
from tests.code_evolution.support import FakeJob, analyze, git, make_repository

pytestmark = pytest.mark.usefixtures("no_chart")


def refusal(repository: str | Path, out: Path) -> AnalysisError:
    with pytest.raises(AnalysisError) as caught:
        analyze(FakeJob(), Request(str(repository), str(out)))
    assert isinstance(caught.value, ValueError)
    assert caught.value.remedy in str(caught.value)
    assert not (out / ".work").exists()
    return caught.value


@pytest.mark.parametrize("repository", ["", "  ", "--upload-pack=touch /tmp/owned", "-h", "a\0b"])
def test_what_looks_like_an_option_is_not_a_repository(tmp_path: Path, repository: str) -> None:
    assert "not a path or URL" in str(refusal(repository, tmp_path / "out"))


def test_no_repository_there(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert "no git repository" in str(refusal(tmp_path / "plain", tmp_path / "out"))
    assert "nothing at" in str(refusal(tmp_path / "missing", tmp_path / "out"))
    (tmp_path / "file").write_text("x")
    assert isinstance(refusal(tmp_path / "file", tmp_path / "out"), BadRepository)
    assert "no git repository" in str(refusal(f"file://{tmp_path}/missing", tmp_path / "out"))


def test_a_repository_without_commits(tmp_path: Path) -> None:
    make_repository(tmp_path / "empty.git")
    assert "no commits" in str(refusal(tmp_path / "empty.git", tmp_path / "out"))


def test_a_head_which_points_nowhere(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository.git", {b"a": b"1\n"})
    git(repository, "symbolic-ref", "HEAD", "refs/heads/nowhere")
    assert "no commits on its HEAD" in str(refusal(repository, tmp_path / "out"))


def test_an_unreachable_server_may_be_tried_again(tmp_path: Path) -> None:
    error = refusal("http://me:secret@127.0.0.1:1/x.git", tmp_path / "out")
    assert isinstance(error, Unreachable)
    assert "secret" not in str(error)


@pytest.mark.parametrize("repository", ["ext::sh -c touch% /tmp/owned", "ftp://127.0.0.1/x.git", "fd::17"])
def test_transports_which_run_commands_are_refused(tmp_path: Path, repository: str) -> None:
    assert isinstance(refusal(repository, tmp_path / "out"), BadRepository)


def test_kinds_of_damage_are_distinguished(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "damaged.git", {b"a.py": b"1\n"})
    blob = git(repository, "rev-parse", "main:a.py").decode().strip()
    (repository / "objects" / blob[:2] / blob[2:]).unlink()  # a history this small is not packed
    error = refusal(repository, tmp_path / "out")
    assert isinstance(error, BadRepository)
    assert "fsck" in error.remedy


def test_another_users_repository_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "theirs.git", {b"a": b"1\n"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own way to try it without another user
    assert "safe.directory" in refusal(repository, tmp_path / "out").remedy


@pytest.mark.parametrize(
    ("complaint", "kind"),
    [
        ("git@x: Permission denied (publickey).\nfatal: Could not read from remote repository.", BadRepository),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", BadRepository),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", BadRepository),
        ("remote: Repository not found.\nfatal: repository 'https://x/' not found", BadRepository),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", Unreachable),
        ("ssh: connect to host x port 22: Connection timed out\nfatal: Could not read from remote repository.", Unreachable),
        ("fatal: the remote end hung up unexpectedly", Unreachable),
        ("fatal: write error: No space left on device", Unreachable),
        ("", Unreachable),
    ],
)
def test_an_error_of_git_becomes_a_remedy(complaint: str, kind: type[AnalysisError]) -> None:
    error = explain_clone("https://x/", complaint)
    assert type(error) is kind
    assert error.remedy


@pytest.mark.parametrize("numbers", [{"batch": 0}, {"max_commits": 0}, {"pace": -1.0}, {"pace": float("nan")}])
def test_impossible_numbers(numbers: dict[str, int]) -> None:
    with pytest.raises(BadRepository, match="1 or more"):
        Request("x", "out", **numbers)  # type: ignore[arg-type]


def test_results_that_cannot_be_written(tmp_path: Path) -> None:
    make_repository(tmp_path / "repository.git", {b"a": b"1\n"})
    (tmp_path / "out").write_text("a file, not a folder")
    with pytest.raises(BadRepository, match="cannot write"):
        analyze(FakeJob(), Request(str(tmp_path / "repository.git"), str(tmp_path / "out")))


def test_without_matplotlib_the_extra_is_named_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "find_spec", lambda name: None if name == "matplotlib" else util.find_spec(name))
    with pytest.raises(MissingExtra, match="pip install matplotlib"):
        analyze(FakeJob(), Request(str(tmp_path), str(tmp_path / "out")))


def test_nothing_of_a_repository_runs(tmp_path: Path) -> None:
    """Hooks of the source, of templates and of the user's configuration would each touch a file."""
    repository = make_repository(
        tmp_path / "repository.git", {b"a.py": b"1\n", b".gitattributes": b"*.py filter=evil diff=evil\n"}
    )
    for hook in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-update"):
        path = repository / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\n")
        path.chmod(0o755)
    for setting in ("core.fsmonitor", "diff.external", "diff.evil.textconv", "diff.evil.command", "filter.evil.smudge"):
        git(repository, "config", setting, f"touch {tmp_path}/owned")
    result = analyze(FakeJob(), Request(str(repository), str(tmp_path / "out")))
    assert result["languages"] == {"Python": 1, "Other": 1}
    assert not (tmp_path / "owned").exists()


def test_the_environment_of_a_hook_means_no_other_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = make_repository(tmp_path / "repository.git", {b"a.py": b"1\n"})
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, "/nowhere")
    assert analyze(FakeJob(), Request(str(repository), str(tmp_path / "out")))["commits"] == 1


def test_a_folder_inside_a_work_tree_means_the_work_tree(tmp_path: Path) -> None:
    subprocess.run(git_command("init", "--quiet", str(tmp_path / "tree")), env=git_environment(), check=True)
    (tmp_path / "tree" / "deep" / "er").mkdir(parents=True)
    assert locate(str(tmp_path / "tree" / "deep" / "er")) == str(tmp_path / "tree")


def test_names_are_fit_for_folders_and_secrets_stay_home() -> None:
    assert repository_name("https://example.org/team/tool.git/") == "tool"
    assert repository_name("/tmp/../tmp/ä b") == "b"
    assert repository_name("ssh://host/..") == "repository"
    assert repository_name("/home/me/tool/.git") == "tool"
    assert without_secrets("https://token@example.org/x") == "https://example.org/x"
    assert without_secrets("git@example.org:x") == "git@example.org:x"

"""A repository, a path or an address of any form is analyzed and reported, or refused with the remedy."""

import errno
import os
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from analyzer import count
from analyzer.analysis import Request
from analyzer.errors import AnalysisError, BadRepository, Unreachable, explain_clone
from analyzer.git import git_command, git_environment, locate

from tests.code_evolution.support import FakeJob, analyze, git, make_repository

pytestmark = [pytest.mark.usefixtures("no_chart"), pytest.mark.prove]


def refused(repository: str | Path, out: Path) -> AnalysisError:
    with pytest.raises(AnalysisError) as caught:
        analyze(FakeJob(), Request(str(repository), str(out)))
    assert caught.value.remedy in str(caught.value)
    assert str(caught.value).encode("utf-8")
    assert not (out / ".work").exists()
    return caught.value


def small(folder: Path) -> Path:
    return make_repository(folder, {b"a.py": b"1\n", b"d/b.c": b"2\n"}, {b"a.py": b"1\n2\n"})


def run(*words: str | Path) -> None:
    subprocess.run(git_command(*map(str, words)), env=git_environment(), check=True, capture_output=True)


# ── addresses ──


@pytest.mark.parametrize("name", ["a" * 5000, "/tmp/" + "a/" * 3000, "~nobody-has-this-name/x", "/tmp/\ud800", "/tmp/caf\udce9"])
def test_a_path_no_file_system_could_have_is_bad_input_and_no_crash(tmp_path: Path, name: str) -> None:
    assert isinstance(refused(name, tmp_path / "out"), BadRepository)


def test_links_in_a_circle_are_nothing_to_analyze(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert isinstance(refused(tmp_path / "a", tmp_path / "out"), BadRepository)


def test_no_permission_to_look_names_whose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", locked)
    with pytest.raises(BadRepository, match="worker's user read access"):
        locate("/home/somebody/project")


@pytest.mark.parametrize("kind", ["file", "fifo", "file in a work tree"])
def test_a_path_that_is_not_a_folder_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "file":
        path.write_text("hello")
    else:
        run("init", "--quiet", tmp_path / "tree")
        path = tmp_path / "tree" / "a.py"
        path.write_text("1\n")
    assert "no git repository" in str(refused(path, tmp_path / "out"))


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:99999999/x", "file://relative.git", "https://127.0.0.1:1/a\nb", "ssh://-oProxyCommand=x/y"]
)
def test_a_url_git_cannot_understand_is_not_tried_again(tmp_path: Path, url: str) -> None:
    assert isinstance(refused(url, tmp_path / "out"), BadRepository)


@pytest.mark.parametrize("url", ["ssh://127.0.0.1:1/x", "git://127.0.0.1:1/x", "https://127.0.0.1:1/x", "https://host.invalid/x"])
def test_an_unreachable_server_is_reported_with_its_cause(tmp_path: Path, url: str) -> None:
    error = refused(url, tmp_path / "out")
    assert isinstance(error, Unreachable)
    assert "exists" not in error.problem  # ssh's and git's chorus after every failure


@pytest.mark.parametrize("name", [" sp ace'\"$x`;", "a:b", "u@host:p", "-x", "new\nline", "ünï"])
def test_odd_paths_are_analyzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    small(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    repository = f"./{name}" if name.startswith("-") else name
    assert analyze(FakeJob(), Request(repository, "out"))["commits"] == 2
    assert analyze(FakeJob(), Request(str(tmp_path / name), "out"))["commits"] == 2


@pytest.mark.parametrize("branch", ["-oops", "über/'$(x)&;", "@", "a@b", "refs/heads/main", "x.y"])
@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_odd_branches_are_analyzed(tmp_path: Path, branch: str, address: str) -> None:
    repository = small(tmp_path / "repository.git")
    git(repository, "update-ref", f"refs/heads/{branch}", "refs/heads/main")
    git(repository, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    assert analyze(FakeJob(), Request(address.format(repository), str(tmp_path / "out")))["commits"] == 2


@pytest.mark.parametrize("kind", ["work tree", ".git", "linked work tree", "detached", "bundle"])
def test_every_form_of_repository_is_analyzed(tmp_path: Path, kind: str) -> None:
    bare, tree = small(tmp_path / "bare.git"), tmp_path / "tree"
    run("clone", "--quiet", bare, tree)
    match kind:
        case ".git":
            where = tree / ".git"
        case "linked work tree":
            where = tmp_path / "linked"
            run("-C", tree, "worktree", "add", "--quiet", where, "-b", "other")
        case "bundle":
            where = tmp_path / "all.bundle"
            run("-C", tree, "bundle", "create", "--quiet", where, "HEAD", "main")
        case _:
            where = tree
    if kind == "detached":
        run("-C", tree, "checkout", "--quiet", "--detach")
    assert analyze(FakeJob(), Request(str(where), str(tmp_path / "out")))["commits"] == 2


# ── results ──


@pytest.mark.parametrize("out", ["", "  ", "a\0b", "~nobody-has-this-name/x", "/tmp/\ud800"])
@pytest.mark.parametrize("which", ["out", "work"])
def test_a_folder_that_can_be_none_is_refused(tmp_path: Path, out: str, which: str) -> None:
    paths = {"out": str(tmp_path), which: out} if which == "out" or out else {"out": "\0"}
    with pytest.raises(BadRepository, match=f"`{'out' if not out else which}` is not a usable path"):
        Request("x", **paths)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["json", "csv", "svg", "png"])
def test_a_result_whose_place_is_taken_by_a_folder_is_refused_before_the_work(tmp_path: Path, kind: str) -> None:
    repository = small(tmp_path / "repository.git")
    (tmp_path / "out" / f"evolution.{kind}").mkdir(parents=True)
    job = FakeJob()
    with pytest.raises(BadRepository, match="is a folder"):
        analyze(job, Request(str(repository), str(tmp_path / "out")))
    assert job.checkpoints == []


def test_a_full_disk_may_be_tried_again_and_loses_nothing(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    request = Request(str(sample), str(tmp_path / "out"), batch=50)
    job = FakeJob()
    with monkeypatch.context() as patch:
        patch.setattr("analyzer.analysis.write_json", full)
        with pytest.raises(Unreachable, match="No space left"):
            analyze(job, request)
    again = job.reborn()
    assert analyze(again, request)["commits"] == 120
    assert again.reports[0][2] == "resumed at commit 120 of 120"


def test_a_batch_is_bounded_because_it_is_held_in_memory(tmp_path: Path) -> None:
    with pytest.raises(BadRepository, match="1 to 10,000"):
        Request("x", str(tmp_path), batch=10_001)


# ── histories ──


@pytest.mark.parametrize("lost", ["main~1", "main", "main~1^{tree}", "main~1:d", "main~1:a.py"])
@pytest.mark.parametrize("how", ["gone", "empty", "rubbish"])
@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_damage_names_fsck_and_is_not_tried_again(tmp_path: Path, lost: str, how: str, address: str) -> None:
    repository = small(tmp_path / "repository.git")
    name = git(repository, "rev-parse", lost).decode().strip()
    path = repository / "objects" / name[:2] / name[2:]
    path.unlink()
    if how != "gone":
        path.write_bytes(b"" if how == "empty" else b"rubbish" * 9)
    error = refused(address.format(repository), tmp_path / "out")
    assert isinstance(error, BadRepository)
    assert "fsck" in error.remedy
    assert ".work" not in str(error)  # a path of ours, which is gone when it is read


def test_a_truncated_pack_is_damage(tmp_path: Path) -> None:
    noise = b"".join(sha256(b"%d" % number).digest() for number in range(300))
    repository = make_repository(tmp_path / "repository.git", {b"a.py": noise}, {b"a.py": b"1\n"})
    git(repository, "repack", "-adq")
    (pack,) = repository.glob("objects/pack/*.pack")
    pack.chmod(0o644)
    os.truncate(pack, pack.stat().st_size - 200)
    assert "fsck" in refused(repository, tmp_path / "out").remedy


@pytest.mark.parametrize(
    "spoil",
    [
        lambda git_dir: (git_dir / "config").write_text("[core"),
        lambda git_dir: git(git_dir, "config", "core.repositoryformatversion", "99"),
        lambda git_dir: (git_dir / "HEAD").write_text("ref: refs/heads/../../x\n"),
        lambda git_dir: (git_dir / "HEAD").write_bytes(git(git_dir, "rev-parse", "main:a.py")),
        lambda git_dir: (git_dir / "HEAD").unlink(),
    ],
)
def test_a_repository_git_does_not_accept_is_refused(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    repository = small(tmp_path / "repository.git")
    spoil(repository)
    assert isinstance(refused(repository, tmp_path / "out"), BadRepository)


def test_a_partial_clone_is_refused_with_the_remedy(tmp_path: Path) -> None:
    whole, partial = small(tmp_path / "whole.git"), tmp_path / "partial.git"
    git(whole, "config", "uploadpack.allowFilter", "true")
    run("clone", "--quiet", "--bare", "--filter=blob:none", f"file://{whole}", partial)
    assert "partial clone must be refetched" in refused(partial, tmp_path / "out").remedy


def tree_of(repository: Path, *entries: tuple[bytes, bytes, str]) -> str:
    data = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(blob) for mode, name, blob in entries)
    return git(repository, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=data).decode().strip()


def committed(repository: Path, tree: str) -> Path:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    commit = git(repository, *author, "commit-tree", tree, "-m", "x").decode().strip()
    git(repository, "update-ref", "refs/heads/main", commit)
    return repository


def blob_of(repository: Path, content: bytes) -> str:
    return git(repository, "hash-object", "-w", "--stdin", stdin=content).decode().strip()


@pytest.mark.parametrize(("depth", "limit"), [(4, {"MOST_CHANGES": 5000}), (10, {"DIFF_MEMORY": 64 * 2**20})])
def test_a_tree_that_holds_itself_over_and_over_ends_in_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, limit: dict[str, int]
) -> None:
    for name, value in limit.items():
        monkeypatch.setattr(count, name, value)
    repository = make_repository(tmp_path / "bomb.git")
    inner, mode = blob_of(repository, b"1\n"), b"100644"
    for _ in range(depth):  # ten billion files in ten trees
        inner, mode = tree_of(repository, *((mode, b"%d" % number, inner) for number in range(10))), b"40000"
    assert f"changes more than {count.MOST_CHANGES:,} files" in str(refused(committed(repository, inner), tmp_path / "out"))


def test_a_file_name_of_megabytes_is_refused(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "name.git")
    tree = tree_of(repository, (b"100644", b"a" * 3_000_000 + b".py", blob_of(repository, b"1\n")))
    assert "name of more than 1 MiB" in str(refused(committed(repository, tree), tmp_path / "out"))


def test_long_names_are_counted_and_not_kept(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "names.git")
    blob = blob_of(repository, b"1\n")
    names = sorted(b"%03d" % number + b"a" * 100_000 + b".py" for number in range(20))
    tree = tree_of(repository, *((b"100644", name, blob) for name in names))
    assert analyze(FakeJob(), Request(str(committed(repository, tree)), str(tmp_path / "out")))["languages"] == {"Python": 20}


def test_deep_folders_are_counted(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "deep.git")
    tree = tree_of(repository, (b"100644", b"a.py", blob_of(repository, b"1\n")))
    for _ in range(200):
        tree = tree_of(repository, (b"40000", b"folder", tree))
    assert analyze(FakeJob(), Request(str(committed(repository, tree)), str(tmp_path / "out")))["languages"] == {"Python": 1}


def test_submodules_without_their_repository_are_counted_and_not_fetched(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/never-there.git"
    modules = f'[submodule "x"]\n\tpath = library\n\turl = {url}\n\tupdate = !touch {tmp_path}/owned\n'.encode()
    repository = make_repository(
        tmp_path / "repository.git", {b".gitmodules": modules, b"library": (b"160000", b"1" * 40), b"a.py": b"1\n"}
    )
    assert analyze(FakeJob(), Request(f"file://{repository}", str(tmp_path / "out")))["languages"] == {"INI": 4, "Python": 1}
    assert not (tmp_path / "owned").exists()


# ── what would run ──


def evil(tmp_path: Path) -> Path:
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\nexit 1\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("address", ["{}", "file://{}"])
def test_no_setting_of_a_repository_runs_a_program(tmp_path: Path, address: str) -> None:
    repository, program = small(tmp_path / "repository.git"), evil(tmp_path)
    settings = (
        "core.fsmonitor uploadpack.packObjectsHook core.alternateRefsCommand core.pager core.sshCommand core.gitProxy core.editor "
        "diff.external credential.helper gpg.program core.askPass alias.clone alias.rev-list alias.cat-file remote.origin.uploadpack "
        "remote.origin.vcs filter.x.process"
    )
    for setting in settings.split():
        git(repository, "config", setting, str(program))
    result = analyze(FakeJob(), Request(address.format(repository), str(tmp_path / "out")))
    assert result["commits"] == 2
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("remote", ["/nowhere", "ssh://host/x", "ext::sh -c {program}", "file:///nowhere"])
def test_what_is_missing_is_not_fetched_by_a_program_the_repository_names(tmp_path: Path, remote: str) -> None:
    whole, program = small(tmp_path / "whole.git"), evil(tmp_path)
    git(whole, "config", "uploadpack.allowFilter", "true")
    trap = tmp_path / "trap.git"
    run("clone", "--quiet", "--bare", "--filter=blob:none", f"file://{whole}", trap)
    for setting, value in {"uploadpack": str(program), "vcs": str(program), "url": remote.format(program=program)}.items():
        git(trap, "config", f"remote.origin.{setting}", value)
    git(trap, "config", "core.sshCommand", str(program))
    for path in trap.glob("objects/pack/*"):
        path.unlink()  # the commits too, so that a reader of the repository itself would have to fetch
    (trap / "objects" / "pack" / "x.promisor").touch()
    assert isinstance(refused(trap, tmp_path / "out"), BadRepository)
    assert isinstance(refused(f"file://{trap}", tmp_path / "out"), BadRepository)
    assert not (tmp_path / "owned").exists()


def test_questions_need_no_transport() -> None:
    assert git_environment(is_offline=True)["GIT_ALLOW_PROTOCOL"] == ""
    assert "ext" not in git_environment()["GIT_ALLOW_PROTOCOL"]


def test_the_cause_stands_before_the_chorus() -> None:
    access = "Please make sure you have the correct access rights\nand the repository exists."
    output = f"ssh: no route to host\nfatal: Could not read from remote repository.\n\n{access}"
    assert "no route" in str(explain_clone("ssh://x/y", output))

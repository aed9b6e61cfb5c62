"""The cache of clones: shared, killed at any point, damaged, full – the next analysis gets a whole clone of what is there now."""

import asyncio
import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from analyzer import cache
from analyzer.analysis import Request
from analyzer.cache import CloneCache, Lock, Step, cache_root, newest
from analyzer.errors import AnalysisError, Unreachable
from analyzer.git import GitFailed, git_command, git_environment
from analyzer.processes import Children, Ended

from tests.code_evolution.support import FakeJob, analyze, git, make_repository

pytestmark = [pytest.mark.usefixtures("no_chart"), pytest.mark.prove]
DAY = 86_400


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "source.git", {b"a.py": b"1\n" * 500}, {b"a.py": b"1\n" * 501})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "clones").mkdir()
    return tmp_path / "clones"


def take(root: Path, url: str, target: Path, **limits: Any) -> list[Step]:
    """A clone through the cache, as an analysis takes it."""
    children = Children()
    with ExitStack() as held:
        steps = list(CloneCache(root, children, **limits).clone(url, target, held))
    children.kill()
    return steps


def commit(repository: Path, content: bytes, parent: str = "refs/heads/main^0", branch: str = "main") -> str:
    story = f"commit refs/heads/{branch}\ncommitter A <a> 1700000000 +0000\ndata 0\n".encode()
    story += f"from {parent}\n".encode() if parent else b"deleteall\n"
    git(repository, "fast-import", "--quiet", "--force", stdin=story + b"M 644 inline b.c\ndata %d\n" % len(content) + content)
    return tip(repository, f"refs/heads/{branch}")


def tip(repository: Path, name: str = "HEAD") -> str:
    return git(repository, "rev-parse", name).decode().strip()


def packs(clone: Path) -> set[int]:
    return {path.stat().st_ino for path in clone.glob("objects/pack/*.pack")}


def is_whole(clone: Path) -> bool:
    git(clone, "fsck", "--strict", "--no-dangling")
    return int(git(clone, "rev-list", "--count", "HEAD")) > 0


def entries(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


# ── what it is for ──


def test_what_was_fetched_once_is_linked_and_only_new_objects_come(root: Path, source: Path, tmp_path: Path) -> None:
    url = f"file://{source}"
    take(root, url, tmp_path / "one")
    news = commit(source, b"x\n")
    take(root, url, tmp_path / "two")
    assert (tip(tmp_path / "two"), is_whole(tmp_path / "two")) == (news, True)
    kept = newest(CloneCache(root, Children()).entry(url))
    assert kept is not None
    assert len(packs(kept)) == 2  # the first clone's, and one with only the new objects
    assert packs(tmp_path / "one") < packs(tmp_path / "two") == packs(kept)  # the same files, by hard links


@pytest.mark.parametrize("change", ["nothing", "rewritten", "another branch", "detached", "unrelated"])
def test_it_follows_head_to_any_commit(root: Path, source: Path, tmp_path: Path, change: str) -> None:
    url = f"file://{source}"
    take(root, url, tmp_path / "one")
    match change:
        case "rewritten":
            commit(source, b"other\n", parent="refs/heads/main~1")
        case "another branch":
            commit(source, b"other\n", branch="trunk")
            git(source, "symbolic-ref", "HEAD", "refs/heads/trunk")
            git(source, "update-ref", "-d", "refs/heads/main")
        case "detached":
            git(source, "update-ref", "--no-deref", "HEAD", "refs/heads/main~1")
        case "unrelated":
            commit(source, b"other\n", parent="")
    for number in range(2):
        take(root, url, tmp_path / f"later-{number}")
        assert tip(tmp_path / f"later-{number}") == tip(source)
        assert is_whole(tmp_path / f"later-{number}")


def test_many_updates_do_not_pile_up_packs(root: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_PACKS", 3)
    for number in range(5):
        commit(source, b"%d\n" % number)
        take(root, f"file://{source}", tmp_path / f"{number}")
        assert len(packs(tmp_path / f"{number}")) <= 3
        assert tip(tmp_path / f"{number}") == tip(source)


def test_a_shallow_clone_is_not_kept_shallow(root: Path, source: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow.git"
    command = git_command("clone", "--quiet", "--bare", "--depth=1", f"file://{source}", str(shallow))
    subprocess.run(command, env=git_environment(), check=True)
    take(root, f"file://{shallow}", tmp_path / "one")
    assert (tmp_path / "one" / "shallow").exists()
    git(shallow, "fetch", "--quiet", "--unshallow", f"file://{source}", "main")
    take(root, f"file://{shallow}", tmp_path / "two")
    assert int(git(tmp_path / "two", "rev-list", "--count", "HEAD")) == 2


def test_an_analysis_of_a_url_uses_it_and_names_its_folder(source: Path, tmp_path: Path) -> None:
    job, again = FakeJob(), FakeJob()
    first = analyze(job, Request(f"file://{source}", str(tmp_path / "one")))
    second = analyze(again, Request(f"file://{source}", str(tmp_path / "two")))
    assert str(cache_root(tmp_path)) in job.reports[1][2]
    assert any("updating the clone" in text for _, _, text in again.reports)
    assert first["tip"] == second["tip"]
    assert [fraction for _, fraction, _ in again.reports] == sorted(fraction for _, fraction, _ in again.reports)


def test_a_path_needs_no_cache(source: Path, tmp_path: Path) -> None:
    before = entries(cache_root(tmp_path))
    analyze(FakeJob(), Request(str(source), str(tmp_path / "out")))
    assert entries(cache_root(tmp_path)) == before


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "asked"))
    assert cache_root(tmp_path / "work") == tmp_path / "asked" / "holdfast" / "clones"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_root(tmp_path / "work") == tmp_path / "home" / ".cache" / "holdfast" / "clones"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cache_root(tmp_path / "work") == tmp_path / "work" / "clones"
    assert cache_root(tmp_path / "work").stat().st_mode & 0o077 == 0


def test_where_nothing_can_be_locked_nothing_is_kept_and_that_is_reported(
    root: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert "No locks available" in take(root, f"file://{source}", tmp_path / "one")[0].text
    assert is_whole(tmp_path / "one")


def test_passwords_are_not_kept_and_separate_what_they_open(root: Path, source: Path, tmp_path: Path) -> None:
    take(root, f"file://{source}", tmp_path / "one")
    kept = newest(CloneCache(root, Children()).entry(f"file://{source}"))
    assert kept is not None
    assert "url" not in (kept / "config").read_text()
    both = {CloneCache(root, Children()).entry(f"https://{user}example.org/x").name for user in ("", "me:secret@")}
    assert len(both) == 2
    assert not any("secret" in name for name in both)


# ── shared ──

TAKE = """
import sys
from contextlib import ExitStack
from pathlib import Path
from analyzer.cache import CloneCache
from analyzer.processes import Children
root, url, target = sys.argv[1:]
with ExitStack() as held:
    for step in CloneCache(Path(root), Children()).clone(url, Path(target), held):
        print(step.text, flush=True)
"""


def taking(root: Path, url: str, target: Path, **environment: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", TAKE, str(root), url, str(target)]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_fetch_once(root: Path, source: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook.sh"  # the server's, which signals when it sends and waits until it may
    hook.write_text(f'#!/bin/sh\necho sent >> {tmp_path}/sent\nread go < {tmp_path}/go\nexec "$@"\n')
    hook.chmod(0o755)
    os.mkfifo(tmp_path / "go")
    (tmp_path / "config").write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    url = f"file://{source}"
    with taking(root, url, tmp_path / "one", GIT_CONFIG_GLOBAL=str(tmp_path / "config")) as one:
        assert one.stdout is not None
        assert one.stdout.readline().startswith("cloning source")
        with taking(root, url, tmp_path / "two", GIT_CONFIG_GLOBAL=str(tmp_path / "config")) as two:
            assert two.stdout is not None
            assert two.stdout.readline() == "waiting for another analysis, which is cloning source\n"
            assert not (tmp_path / "two").exists()
            (tmp_path / "go").write_text("go\n")
            assert "updating" in two.communicate(timeout=30)[0]
        one.communicate(timeout=30)
    assert (one.returncode, two.returncode) == (0, 0)
    assert is_whole(tmp_path / "one")
    assert is_whole(tmp_path / "two")
    assert (tmp_path / "sent").read_text() == "sent\n"  # the second had nothing left to fetch


KILLED_AT_EACH_STEP = """
import os, signal, sys
from contextlib import ExitStack
from pathlib import Path
from analyzer.cache import CloneCache
from analyzer.processes import Children
root, url, target = sys.argv[1:]
for last in range(100):
    if (child := os.fork()) == 0:
        with ExitStack() as held:
            for number, step in enumerate(CloneCache(Path(root), Children()).clone(url, Path(f"{target}-{last}"), held)):
                if number == last:
                    os.kill(os.getpid(), signal.SIGKILL)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        break
print(last)
"""


@pytest.mark.parametrize("is_first", [True, False])
def test_killed_at_any_step_it_stays_usable(root: Path, source: Path, tmp_path: Path, is_first: bool) -> None:
    url = f"file://{source}"
    if not is_first:
        take(root, url, tmp_path / "before")
        commit(source, b"x\n")
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, str(root), url, str(tmp_path / "killed")]
    kills = int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=50).stdout)
    assert kills >= 4
    assert is_whole(tmp_path / f"killed-{kills}")  # the one which was let live
    take(root, url, tmp_path / "after")
    assert (tip(tmp_path / "after"), is_whole(tmp_path / "after")) == (tip(source), True)
    (entry,) = root.iterdir()
    assert [name.partition("-")[0] for name in entries(entry)] == ["clone", "lock"]  # and tidied up


def test_half_a_clone_is_never_taken_for_one(root: Path, source: Path, tmp_path: Path) -> None:
    entry = CloneCache(root, Children()).entry(f"file://{source}")
    for rubbish in ("draft-x/git/objects", "draft-y/git.part", "clone-7.part"):
        (entry / rubbish).mkdir(parents=True)
    with ExitStack() as held:
        steps = CloneCache(root, Children()).clone(f"file://{source}", tmp_path / "one", held)
        next(steps)
        assert not (entry / "draft-x").exists()  # gone before another one takes its space
        list(steps)
    assert is_whole(tmp_path / "one")
    assert entries(entry) == ["clone-1", "lock"]


def test_a_cancelled_analysis_releases_the_lock_and_leaves_nothing_half_made(source: Path, tmp_path: Path) -> None:
    url = f"file://{source}"
    for part in (0.0, 0.09):
        job = FakeJob()
        job.cancel_at_progress = lambda stage, fraction, job=job, part=part: len(job.reports) > 1 and fraction >= part  # type: ignore[misc]
        with pytest.raises(asyncio.CancelledError):
            analyze(job, Request(url, str(tmp_path / "out")))
        assert job.reports[-1][0] == "clone"
        with Lock.of(CloneCache(cache_root(tmp_path), Children()).entry(url)) or pytest.fail("still locked"):
            pass
    assert analyze(FakeJob(), Request(url, str(tmp_path / "out")))["commits"] == 2


def test_waiting_for_a_lock_ends_with_the_analysis(root: Path, source: Path, tmp_path: Path) -> None:
    children = Children()
    clones = CloneCache(root, children)
    with Lock.of(clones.entry(f"file://{source}")) or pytest.fail("locked"), ExitStack() as held:
        steps = clones.clone(f"file://{source}", tmp_path / "one", held)
        assert "waiting" in next(steps).text
        assert "waiting" in next(steps).text
        children.kill()
        with pytest.raises(Ended):
            next(steps)


def test_who_waited_for_an_evicted_entry_does_not_get_its_lock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = root / "x-0123456789abcdef"
    really: Callable[[int, int], None] = fcntl.flock

    def evicted_meanwhile(descriptor: int, operation: int) -> None:
        really(descriptor, operation)
        entry.rename(root / "trash")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", evicted_meanwhile)
        assert Lock.of(entry) is None
    with Lock.of(entry) or pytest.fail("locked") as lock:
        assert lock.entry == entry
        assert Lock.of(entry) is None


# ── damaged ──


def spoilt(root: Path, url: str, how: str) -> None:
    kept = newest(CloneCache(root, Children()).entry(url))
    assert kept is not None
    (pack,) = kept.glob("objects/pack/*.pack")
    content = bytearray(pack.read_bytes())
    pack.unlink()  # not in place: the file is linked into clones of others
    match how:
        case "gone":
            return
        case "cut":
            pack.write_bytes(content[:-40])
        case "flipped":
            for place in range(20, len(content) - 20):
                content[place] ^= 0x55
            pack.write_bytes(content)


@pytest.mark.parametrize("how", ["gone", "cut", "flipped"])
def test_a_damaged_clone_in_the_cache_is_replaced(source: Path, tmp_path: Path, how: str) -> None:
    url = f"file://{source}"
    analyze(FakeJob(), Request(url, str(tmp_path / "out")))
    spoilt(cache_root(tmp_path), url, how)
    try:
        result = analyze(FakeJob(), Request(url, str(tmp_path / "out")))
    except Unreachable:  # seen late, while counting; the next attempt is whole
        result = analyze(FakeJob(), Request(url, str(tmp_path / "out")))
    assert result["commits"] == 2
    assert result["languages"] == {"Python": 501}


def test_damage_found_while_counting_is_thrown_away_and_tried_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{source}"

    def damaged(*_: object) -> None:
        raise GitFailed("fatal: bad object")

    with monkeypatch.context() as patch:
        patch.setattr("analyzer.count.BlobCounter._count", damaged)
        with pytest.raises(Unreachable, match="thrown away"):
            analyze(FakeJob(), Request(url, str(tmp_path / "out")))
    assert not CloneCache(cache_root(tmp_path), Children()).entry(url).exists()
    assert analyze(FakeJob(), Request(url, str(tmp_path / "out")))["commits"] == 2


def test_what_could_not_be_cloned_leaves_nothing(root: Path, tmp_path: Path) -> None:
    for url in (f"file://{tmp_path}/nowhere.git", "https://127.0.0.1:1/x"):
        with pytest.raises(AnalysisError):
            take(root, url, tmp_path / "one")
    assert entries(root) == []


def test_an_origin_which_went_away_keeps_its_clone(root: Path, source: Path, tmp_path: Path) -> None:
    url = f"file://{source}"
    take(root, url, tmp_path / "one")
    source.rename(tmp_path / "moved.git")
    with pytest.raises(AnalysisError, match="no git repository"):  # what is cached is not what is there
        take(root, url, tmp_path / "two")
    (tmp_path / "moved.git").rename(source)
    (entry,) = root.iterdir()
    assert entries(entry) == ["clone-1", "lock"]
    take(root, url, tmp_path / "three")
    assert is_whole(tmp_path / "three")


# ── bounded ──


def made(root: Path, name: str, *, size: int, days_ago: float, now: float) -> Path:
    entry = root / f"{name}-0123456789abcdef"
    (entry / "clone-1").mkdir(parents=True)
    (entry / "clone-1" / "pack").write_bytes(b"x" * size)
    (entry / "lock").touch()
    os.utime(entry / "lock", (now - days_ago * DAY,) * 2)
    return entry


def now_of(tmp_path: Path) -> float:
    (tmp_path / "now").touch()
    return (tmp_path / "now").stat().st_mtime


def test_what_was_not_used_for_long_goes(root: Path, source: Path, tmp_path: Path) -> None:
    now = now_of(tmp_path)
    old = made(root, "old", size=1, days_ago=31, now=now)
    young = made(root, "young", size=1, days_ago=29, now=now)
    take(root, f"file://{source}", tmp_path / "one")
    assert (old.exists(), young.exists()) == (False, True)


def test_what_was_used_least_recently_goes_until_the_rest_fits(root: Path, source: Path, tmp_path: Path) -> None:
    now = now_of(tmp_path)
    sizes = {"third": 3, "first": 1, "second": 2}
    made_entries = {name: made(root, name, size=1_000_000, days_ago=4 - days, now=now) for name, days in sizes.items()}
    take(root, f"file://{source}", tmp_path / "one", most_bytes=2_500_000)
    assert {name for name, entry in made_entries.items() if entry.exists()} == {"second", "third"}
    assert newest(CloneCache(root, Children()).entry(f"file://{source}")) is not None


def test_to_be_used_is_to_stay(root: Path, source: Path, tmp_path: Path) -> None:
    url = f"file://{source}"
    take(root, url, tmp_path / "one")
    lock = CloneCache(root, Children()).entry(url) / "lock"
    os.utime(lock, (0, 0))
    take(root, url, tmp_path / "two")
    assert lock.stat().st_mtime >= now_of(tmp_path) - DAY


def test_nothing_in_use_is_evicted(root: Path, source: Path, tmp_path: Path) -> None:
    used = made(root, "used", size=1_000_000, days_ago=400, now=now_of(tmp_path))
    script = "import sys; from pathlib import Path; from analyzer.cache import Lock; "
    script += "lock = Lock.of(Path(sys.argv[1])); print(lock is not None, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(used)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "True\n"
        take(root, f"file://{source}", tmp_path / "one", most_bytes=0)
        assert (used / "clone-1" / "pack").exists()
        assert newest(CloneCache(root, Children()).entry(f"file://{source}")) is not None  # nor its own, which it still holds
        user.communicate(timeout=10)
    take(root, f"file://{source}", tmp_path / "two", most_bytes=0)
    assert not used.exists()


def test_an_evicted_clone_takes_nothing_from_the_analysis_it_was_given_to(root: Path, source: Path, tmp_path: Path) -> None:
    take(root, f"file://{source}", tmp_path / "one")
    CloneCache(root, Children()).discard(f"file://{source}")
    assert entries(root) == []
    assert is_whole(tmp_path / "one")


def test_what_is_not_the_caches_own_is_not_touched(root: Path, source: Path, tmp_path: Path) -> None:
    (root / "thesis").mkdir()
    (root / "thesis" / "text").touch()
    (root / "note.txt").touch()
    (root / ".trash-left").mkdir()
    take(root, f"file://{source}", tmp_path / "one", most_bytes=0, longest_unused=0.0)
    assert {"thesis", "note.txt"} <= set(entries(root))
    assert ".trash-left" not in entries(root)


def test_abandoned_work_is_removed_after_a_week(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "out" / ".work"
    folders = {}
    for name, days in {"1" * 8: 8.0, "2" * 8: 6.0}.items():
        folder = folders[days] = work / f"{name}-0000-7000-8000-000000000000"
        folder.mkdir(parents=True)
        (folder / "rows-1").touch()
        moment = now_of(tmp_path) - days * DAY
        os.utime(folder / "rows-1", (moment, moment))
        os.utime(folder, (moment, moment))
    (work / "mine").mkdir()
    analyze(FakeJob(), Request(str(source), str(tmp_path / "out")))
    assert entries(work) == sorted([folders[6.0].name, "mine"])
    assert json.loads((tmp_path / "out" / "evolution.json").read_text())["commits"] == 2

"""`holdfast store`, on a bucket in memory."""

from pathlib import Path

import pytest

from holdfast import App
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.buckets.opening import open_bucket
from holdfast.stores.objects.head import KEY
from tests.cli.support import answer, run
from tests.event_loops import run as run_until_done


@pytest.fixture
def url() -> str:
    """Return the URL of a store in a bucket that has a job."""
    url = f"memory-object://{SystemRandomness().uuid4()}"
    app = App(url)
    app.migrate()
    app.enqueue("analyze", repo_url="u")
    app.close()
    return url


def test_a_store_is_inspected(url: str) -> None:
    found = answer("store", "inspect", "--url", url)
    assert (found["url"], found["version"], found["unfinished"], found["rows"]["jobs"]) == (url, 1, 1, 1)
    done = run("store", "inspect", "--url", url)
    assert "jobs\t1 unfinished, 0 finished, 0 archived\n" in done.stdout
    assert "rows of jobs\t1\n" in done.stdout


def test_a_whole_store_verifies_and_a_damaged_one_is_exit_code_1(url: str) -> None:
    done = run("store", "verify", "--url", url)
    assert (done.exit_code, done.stdout) == (0, "1 objects are whole: version 1, 2 rows, 1 jobs\n")
    run_until_done(open_bucket(url, SystemClock()).put(KEY, b"{"))
    done = run("store", "verify", "--url", url)
    assert done.exit_code == 1
    assert "head.json\tcannot be read\t`holdfast store restore PLACE --force --url memory-object://" in done.stdout
    done = run("store", "verify", "--url", url, "--json")
    assert done.exit_code == 1
    assert '"damage":[{"key":"head.json"' in done.stdout
    done = run("store", "inspect", "--url", url)
    assert done.exit_code == 75
    assert "head.json cannot be read: restore the object" in done.stderr


def test_a_store_is_compacted(url: str) -> None:
    done = run("store", "compact", "--url", url)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("0 runs became 1, of ")
    assert answer("store", "compact", "--url", url)["runs"] == 1


def test_a_store_is_copied_and_restored(url: str, tmp_path: Path) -> None:
    done = run("store", "backup", str(tmp_path / "copy"), "--url", url)
    assert done.stdout.startswith(f"1 jobs copied to {tmp_path}/copy (")
    another = f"memory-object://{SystemRandomness().uuid4()}"
    done = run("store", "restore", str(tmp_path / "copy"), "--url", another)
    assert done.stdout == f"1 jobs restored to {another}; start the processes that use it again\n"
    assert answer("jobs", "counts", "--url", another) == answer("jobs", "counts", "--url", url)
    done = run("store", "restore", str(tmp_path / "copy"), "--url", another)
    assert (done.exit_code, "or pass --force" in done.stderr) == (2, True)
    assert run("store", "restore", str(tmp_path / "copy"), "--url", another, "--force").exit_code == 0
    done = run("store", "backup", str(tmp_path / "copy"), "--url", url)
    assert (done.exit_code, "a backup replaces nothing: name another place" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", ["inspect", "verify", "compact", "backup", "restore"])
@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("sqlite:///jobs.db", "`holdfast backup copy.db --url sqlite:///jobs.db` copies it"),
        ("postgresql://nobody@127.0.0.1:1/none", "pg_dump"),
        ("memory://", "it ends with its process"),
        ("http://127.0.0.1:1", "the URL of the store behind the broker"),
    ],
)
def test_another_store_is_refused_with_what_to_use_instead(folder: Path, command: str, url: str, remedy: str) -> None:
    place = ("copy",) if command in ("backup", "restore") else ()
    done = run("store", command, *place, "--url", url)
    assert done.exit_code == 1
    assert "`holdfast store` is for stores in a bucket" in done.stderr
    assert remedy in done.stderr
    assert [each.name for each in folder.iterdir()] == ["shop.py"]


def test_a_prefix_without_a_store_is_refused(folder: Path) -> None:
    for command in (("inspect",), ("verify",), ("compact",), ("backup", str(folder / "copy"))):
        done = run("store", *command, "--url", f"memory-object://{SystemRandomness().uuid4()}")
        assert done.exit_code == 1
        assert "there is no store here" in done.stderr
    assert not (folder / "copy").exists()

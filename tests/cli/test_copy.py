"""`holdfast copy`."""

import re
import shlex
from pathlib import Path

import pytest

from holdfast import App
from holdfast._system.clock import SystemRandomness
from tests.cli.support import answer, claim, enqueue, run, url


@pytest.fixture
def destination() -> str:
    """Return the URL of an empty store of another kind."""
    found = f"memory-object://{SystemRandomness().uuid4()}"
    app = App(found)
    app.migrate()
    app.close()
    return found


def test_jobs_move_to_another_kind_of_store(folder: Path, destination: str) -> None:
    jobs = {enqueue() for _ in range(3)}
    words = ("copy", "--from", url(folder), "--to", destination)
    planned = run(*words, "--dry-run")
    assert (planned.exit_code, planned.stdout) == (0, "3 jobs would be moved\n")
    assert len(answer("jobs", "list", "--url", url(folder))) == 3
    done = run(*words)
    assert done.exit_code == 0, done.output
    command = re.fullmatch(r"3 jobs moved\npaused at the source: default; `holdfast (.+)` opens them\n", done.stdout)
    assert command is not None, done.stdout
    assert done.stderr == "3 jobs moved\n"
    assert answer("jobs", "list", "--url", url(folder)) == []
    assert {each["id"] for each in answer("jobs", "list", "--url", destination)} == jobs
    assert answer(*words)["moved"] == 0
    assert run(*shlex.split(command[1])).stdout == "queue default resumed\n"


def test_jobs_go_from_sqlite_to_postgresql_and_back_as_they_were(folder: Path, postgres_dsn: str) -> None:
    app = App(postgres_dsn)
    app.migrate()
    app.close()
    words = ("enqueue", "shop:app", "analyze", '{ "repo_url": "\\u00fc", "limit": 10 }')
    options = ("--key", "acme", "--tag", "a", "--tag", "b", "--header", "tenant=x", "--priority", "-3", "--unique-key", "one")
    assert run(*words, *options, "--at", "2100-01-01T00:00:00.123457Z").exit_code == 0
    enqueue('{"repo_url": "a\\u0000b"}')
    before = [answer("jobs", "show", each["id"], "--app", "shop") for each in answer("jobs", "list", "--app", "shop")]
    for source, destination in ((url(folder), postgres_dsn), (postgres_dsn, f"sqlite:///{folder}/again.db")):
        done = answer("copy", "--from", source, "--to", destination)
        assert (done["moved"], done["stay"]) == (2, {})
        there = answer("jobs", "list", "--url", destination)
        after = [answer("jobs", "show", each["id"], "--url", destination) for each in there]
        for job in (*before, *after):
            job["created_at"] = job["story"] = None  # times that pass while jobs are copied
        assert after == before


def test_what_is_not_copied_is_named(folder: Path, destination: str) -> None:
    enqueue()
    assert run("limits", "set", "task", "analyze", "--concurrency", "1", "--app", "shop").exit_code == 0
    ended = enqueue()
    assert run("jobs", "cancel", ended, "--app", "shop").exit_code == 0
    done = run("copy", "--from", "shop:app", "--to", destination, "--queue", "default")
    assert done.exit_code == 0, done.output
    assert "not copied: 1 finished jobs, 1 limits, 2 actions of operators\n" in done.stdout


def test_a_running_job_is_waited_for_and_the_remedy_is_named(folder: Path, destination: str) -> None:
    enqueue()
    claim(folder, "analyze")
    done = run("copy", "--from", url(folder), "--to", destination, "--wait", "0s")
    assert done.exit_code == 75
    assert "waiting for 1 running jobs\n" in done.stderr
    assert "let workers of the source end them" in done.stderr
    assert "run the same command again" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--from", "sqlite:///jobs.db"), "Missing option '--to'"),
        (("--from", "memory://", "--to", "sqlite:///a.db"), "jobs in memory end with this command"),
        (("--from", "sqlite:///jobs.db", "--to", "memory://"), "jobs in memory end with this command"),
        (("--from", "sqlite:///jobs.db", "--to", "sqlite:///../{folder}/jobs.db"), "name the same store"),
        (("--from", "sqlite:///jobs.db", "--to", "sqlite:///a.db", "--queue", "none"), "the source has no such queue"),
    ],
)
def test_what_cannot_be_copied_is_refused_and_stays(folder: Path, words: tuple[str, ...], problem: str) -> None:
    job = enqueue()
    done = run("copy", *(word.format(folder=folder.name) for word in words))
    assert done.exit_code == 2
    assert problem in done.stderr
    assert [each["id"] for each in answer("jobs", "list", "--app", "shop")] == [job]
    assert [each["paused_at"] for each in answer("queues", "list", "--app", "shop")] == [None]


def test_a_destination_without_a_schema_leaves_the_source_as_it_was(folder: Path) -> None:
    job = enqueue()
    done = run("copy", "--from", url(folder), "--to", f"memory-object://{SystemRandomness().uuid4()}")
    assert done.exit_code == 1
    assert "holdfast migrate" in done.stderr
    assert [each["id"] for each in answer("jobs", "list", "--app", "shop")] == [job]
    assert [each["paused_at"] for each in answer("queues", "list", "--app", "shop")] == [None]

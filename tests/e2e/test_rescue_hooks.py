"""``on_rescue``: real workers repair the user's rows after real deaths."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.e2e.fleet import START, Fleet, fleet, thaw
from tests.e2e.scripted_workers import end
from tests.e2e.server_site import ON_BOTH
from tests.e2e.waiting import until

TABLE = "CREATE TABLE rows_of_jobs (job text PRIMARY KEY, status text)"
KINDS = ("work", "work_in_thread", "work_in_process")


@pytest.fixture
def ships(tmp_path: Path, store_url: str) -> Iterator[Fleet]:
    with fleet(tmp_path, url=store_url) as ships:
        ships.target = "tests.e2e.hooks_app:app"
        ships.app.migrate()
        sql(ships, TABLE)
        yield ships
        print(ships.logs())  # shown if the test fails


def sql(ships: Fleet, statement: str) -> Any:
    """Run a statement in a separate session."""
    if ships.url.startswith("sqlite"):
        with closing(sqlite3.connect(ships.folder / "jobs.db", isolation_level=None, timeout=START)) as connection:
            return connection.execute(statement).fetchone()
    with closing(psycopg.connect(ships.url, autocommit=True)) as connection:
        found = connection.execute(statement)  # type: ignore[call-overload]
        return found.fetchone() if found.description else None


def status(ships: Fleet, job: UUID) -> str:
    return str(sql(ships, f"SELECT status FROM rows_of_jobs WHERE job = '{job}'")[0])


def hooks(ships: Fleet, job: UUID) -> list[dict[str, Any]]:
    """Return the hook calls of a job, oldest first."""
    path = ships.folder / "hooks"
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [entry for entry in entries if entry["job"] == str(job)]


@pytest.mark.timeout(180)
def test_the_hook_for_a_killed_worker_runs_before_the_next_attempt_for_every_kind_of_task(ships: Fleet) -> None:
    crew = ships.crew()
    (doomed,) = crew.workers()
    jobs = [ships.enqueue(kind, gate="gate") for kind in KINDS]
    for job in jobs:
        assert ships.entry(job, "start")["seen"] is None
    end(doomed)
    for job in jobs:
        again = ships.entry(job, "start", number=2)
        assert (again["seen"], again["rescued"]) == ("repaired", "crashed")
    (heir,) = crew.workers()
    for job in jobs:
        (hook,) = hooks(ships, job)
        assert (hook["reason"], hook["attempt"], hook["state"], hook["pid"]) == ("crashed", 1, "running", heir)
    ships.open("gate")
    for job in jobs:
        view = ships.until_state(job, "completed", within=START)
        assert (view.result, view.attempt, view.crashes, view.rescued) == ("repaired", 2, 1, "crashed")
        assert status(ships, job) == "done"


@pytest.mark.timeout(180)
def test_the_worker_runs_the_hook_for_a_runner_that_is_killed_or_stalls(ships: Fleet) -> None:
    crew = ships.crew()
    (worker,) = crew.workers()
    stalled, job = ships.enqueue("moves", gate="never"), ships.enqueue("work_in_process", gate="gate")
    runner = ships.entry(job, "start")["pid"]
    assert runner != worker
    end(runner)
    again = ships.entry(job, "start", number=2)
    assert (again["seen"], again["rescued"], again["pid"] != runner) == ("repaired", "crashed", True)
    moved = ships.entry(stalled, "start", number=2, within=2 * START)
    assert (moved["seen"], moved["rescued"]) == ("repaired", "stalled")
    assert {hook["pid"] for each in (job, stalled) for hook in hooks(ships, each)} == {worker}
    ships.open("gate")
    assert ships.until_state(job, "completed", within=START).crashes == 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["work", pytest.param("work_in_thread", marks=pytest.mark.prove)])
@ON_BOTH
def test_s9_a_death_inside_the_hook_is_a_crash_of_that_attempt_and_its_rows_are_not_kept(ships: Fleet, kind: str) -> None:
    crew = ships.crew()
    job = ships.enqueue(kind, gate="gate", then="hook dies")
    ships.entry(job, "start")
    end(crew.workers()[0])
    again = ships.entry(job, "start", number=2, within=2 * START)
    assert (again["attempt"], again["crashes"], again["seen"]) == (3, 2, "repaired")
    assert [(hook["attempt"], hook["reason"]) for hook in hooks(ships, job)] == [(1, "crashed"), (2, "crashed")]
    ships.open("gate")
    view = ships.until_state(job, "completed", within=START)
    assert [each.outcome for each in view.attempts] == ["crashed", "crashed", "completed"]
    assert status(ships, job) == "done"


@pytest.mark.timeout(180)
def test_a_job_that_ends_with_its_worker_gets_its_hook_and_no_attempt(ships: Fleet) -> None:
    crew = ships.crew()
    jobs = {
        ships.enqueue(kind, gate="gate"): state
        for kind, state in (("once", "failed"), ("once_in_thread", "failed"), ("held", "held"))
    }
    for job in jobs:
        ships.entry(job, "start")
    end(crew.workers()[0])
    for job, state in jobs.items():
        ships.until_state(job, state, within=START)
        until(lambda job=job, state=state: status(ships, job) == f"{state} after crashed", within=START)  # type: ignore[misc]
        (hook,) = hooks(ships, job)
        assert (hook["state"], hook["attempt"], hook["pid"]) == (state, 1, crew.workers()[0])
        assert len(ships.journal.read(job, "start")) == 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize("then", ["hook dies", pytest.param("hook raises", marks=pytest.mark.prove)])
def test_a_hook_without_an_attempt_is_tried_again_when_it_fails(ships: Fleet, then: str) -> None:
    crew = ships.crew()
    job = ships.enqueue("once", gate="gate", then=then)
    ships.entry(job, "start")
    end(crew.workers()[0])
    until(lambda: status(ships, job) == "failed after crashed", within=2 * START)
    assert len(hooks(ships, job)) == 2
    assert ships.view(job).attempt == 1


@pytest.mark.timeout(180)
def test_s3_a_frozen_worker_whose_jobs_were_taken_after_their_hook_leaves_their_rows_unchanged(ships: Fleet) -> None:
    crew = ships.crew()
    jobs = [ships.enqueue(kind, gate="gate") for kind in KINDS[:2]]
    for job in jobs:
        ships.entry(job, "start")
    frozen = crew.freeze_outside_of_writes()
    ships.crew()
    for job in jobs:
        again = ships.entry(job, "start", number=2)
        assert (again["seen"], again["rescued"]) == ("repaired", "expired")
        assert again["pid"] not in frozen
    thaw(frozen)
    ships.open("gate")
    for job in jobs:
        assert ships.until_state(job, "completed", within=START).attempt == 2
        assert (status(ships, job), len(hooks(ships, job))) == ("done", 1)

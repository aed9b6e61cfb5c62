"""``holdfast schedules``: what is listed, changed and run, as text and as JSON."""

from pathlib import Path

import pytest

from holdfast import App, every
from tests.cli.support import answer, run, url


@pytest.fixture(autouse=True)
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two schedules, in a store that commands find by themselves."""
    monkeypatch.setenv("HOLDFAST_URL", url(folder))
    app = App(url(folder))
    task = app.task(name="load")(lambda: None)
    app.schedules.set("hourly", every("1h"), task.bind())
    app.schedules.set("daily", every("1d"), task.bind())
    app.close()


def test_schedules_are_listed_with_their_coming_ticks() -> None:
    found = answer("schedules", "list", "--next", "5")
    assert [(each["name"], len(each["next"]), each["task"]) for each in found] == [("daily", 5, "load"), ("hourly", 5, "load")]
    lines = run("schedules", "list").stdout.splitlines()
    assert lines[0].split("\t")[:3] == ["schedule", "condition", "when"]
    assert lines[1].split("\t")[:3] == ["daily", "on", "every 1d"]


def test_schedules_are_paused_resumed_and_removed() -> None:
    (paused,) = answer("schedules", "pause", "daily")
    assert paused["paused_at"] is not None
    assert run("schedules", "list").stdout.splitlines()[1].split("\t")[1].startswith("paused since")
    assert run("schedules", "resume", "daily", "hourly").stdout.splitlines() == [
        "schedule daily: resumed",
        "schedule hourly: resumed",
    ]
    before = answer("schedules", "list", "--next", "3")[1]["next"]
    assert answer("schedules", "skip", "hourly", "2")[0]["next"] == before[2:]
    assert answer("schedules", "remove", "daily") == [{"schedule": "daily"}]
    assert [each["name"] for each in answer("schedules", "list")] == ["hourly"]


def test_a_schedules_job_runs_now() -> None:
    (ran,) = answer("schedules", "run", "hourly")
    (job,) = answer("jobs", "list")
    assert (job["id"], job["task"]) == (ran["job"], "load")
    assert run("schedules", "run", "hourly").stdout.startswith("schedule hourly: job ")


def test_an_unknown_schedule_is_an_error_with_its_remedy() -> None:
    done = run("schedules", "pause", "none")
    assert done.exit_code == 2
    assert "schedules list" in done.stderr

"""`holdfast jobs follow` prints each change of a job, once, until its end."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from holdfast import App, Failure, JobView
from holdfast._core.job import Reason, State
from holdfast._engine.operators.operators import Jobs
from holdfast.cli.follow import LOOK_EVERY, Moment
from tests.cli.support import enqueue, run, url


@pytest.fixture(autouse=True)
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the store by themselves."""
    monkeypatch.setenv("HOLDFAST_URL", url(folder))


def acting(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
    """Do the next of the acts after each change that is printed."""
    left, real = list(acts), Jobs.follow

    def follow(jobs: Jobs, job: UUID, every: float) -> Iterator[JobView]:
        assert every == LOOK_EVERY
        for view in real(jobs, job, "100ms"):
            yield view
            if left:
                left.pop(0)()

    monkeypatch.setattr(Jobs, "follow", follow)


def test_each_change_is_one_line_until_the_job_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    acting(
        monkeypatch,
        lambda: run("jobs", "reschedule", job, "--delay", "1h"),
        lambda: run("jobs", "cancel", job),
    )
    done = run("jobs", "follow", job[-6:])
    assert [line.split()[1:] for line in done.stdout.splitlines()] == [["available"], ["scheduled"], ["cancelled", "BY_OPERATOR"]]
    assert done.exit_code == 1


def test_json_is_one_document_on_each_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(url(folder))

    @app.task(name="analyze")
    async def analyze(repo_url: str) -> None: ...

    job = str(analyze.enqueue(repo_url="u").id)
    acting(monkeypatch, app.run_due)
    done = run("jobs", "follow", job, "--json")
    first, last = map(json.loads, done.stdout.splitlines())
    assert (first["id"], first["state"], last["state"], last["attempt"]) == (job, "available", "completed", 1)
    assert {"at", "stage", "fraction", "message", "worker", "reason", "error"} <= last.keys()
    assert done.exit_code == 0


def moment(state: State, **fields: object) -> Moment:
    empty = dict.fromkeys(("worker", "stage", "fraction", "message", "reason", "error"))
    return Moment(**{"state": state, "attempt": 0} | empty | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (moment(State.AVAILABLE), "available"),
        (
            moment(State.RUNNING, attempt=2, worker="web1", stage="analyze", fraction=0.81, message="commit\x1b[2J"),
            r"running    attempt 2  on web1  analyze  81%  commit\x1b[2J",
        ),
        (moment(State.COMPLETED, attempt=2, stage="analyze", fraction=1.0), "completed"),
        (
            moment(State.FAILED, attempt=3, fraction=0.5, reason=Reason.HANDLER_ERROR, error=Failure("KeyError", "x", "")),
            "failed     50%  HANDLER_ERROR  KeyError: x",
        ),
    ],
)
def test_a_line_names_what_is_known(seen: Moment, text: str) -> None:
    assert seen.text == text


def test_a_finished_job_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    run("jobs", "cancel", job)
    acting(monkeypatch)
    assert len(run("jobs", "follow", job).stdout.splitlines()) == 1


def test_a_job_that_is_deleted_ends_it_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    acting(monkeypatch, lambda: run("jobs", "delete", job))
    done = run("jobs", "follow", job)
    assert (done.exit_code, "no job has the id" in done.stderr) == (1, True)

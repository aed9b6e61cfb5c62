"""Many jobs at once: what is chosen, asked, done and printed."""

import json
from collections.abc import Sequence
from getpass import getuser
from pathlib import Path
from socket import gethostname
from typing import Any
from uuid import UUID

import pytest

from holdfast import App, StoreUnavailable
from holdfast._core.requests import Steer, SteerVerb
from holdfast._engine.client.client import Client
from holdfast._processes.loading import opened
from holdfast.cli import job_actions, selection
from tests.cli.support import answer, claim, enqueue, run, url


@pytest.fixture(autouse=True)
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the store by themselves."""
    monkeypatch.setenv("HOLDFAST_URL", url(folder))


def states() -> dict[str, str]:
    return {job["id"]: job["state"] for job in answer("jobs", "list")}


def test_a_selector_does_what_all_its_conditions_choose_and_counts_it() -> None:
    chosen = [enqueue() for _ in range(3)]
    App(url(Path.cwd())).enqueue("other", n=1)
    assert answer("jobs", "cancel", "--task", "analyze", "--queue", "default", "--yes") == {
        "command": "cancel",
        "jobs": 3,
        "states": {"cancelled": 3},
        "refused": 0,
    }
    assert {job for job, state in states().items() if state == "cancelled"} == set(chosen)
    assert run("jobs", "retry", "--state", "cancelled", "--limit", "2", "--yes").stdout.strip() == "2 jobs; 2 available"
    assert run("jobs", "cancel", "--task", "nothing", "--yes").stdout.strip() == "0 jobs"


def test_a_dry_run_prints_how_many_and_which_and_changes_nothing() -> None:
    chosen = [enqueue() for _ in range(7)]
    plan = answer("jobs", "delete", "--all", "--dry-run")
    assert (plan["command"], plan["jobs"]) == ("delete", 7)
    assert [job["id"] for job in plan["first"]] == list(reversed(chosen))[:5]
    lines = run("jobs", "delete", "--all", "--dry-run").stdout.splitlines()
    assert lines[0] == "would delete 7 jobs, the first ones:"
    assert len(lines) == 7
    assert run("jobs", "cancel", chosen[0], "--dry-run").stdout.splitlines()[0] == "would cancel 1 job"
    assert set(states().values()) == {"available"}


def test_a_dry_run_refuses_the_jobs_that_the_command_refuses(folder: Path) -> None:
    App(url(folder)).enqueue("other", n=1)
    ended, done = enqueue(), [enqueue() for _ in range(2)]
    run("jobs", "cancel", ended)
    claim(folder, "other")
    with opened("shop:app") as app:
        assert app.run_due() == 2
    selected = ("--task", "analyze", "--state", "completed")
    assert run("jobs", "cancel", *selected, "--dry-run").stdout.strip() == "would cancel 0 jobs; 2 completed, refused"
    assert run("jobs", "cancel", *selected, "--yes").stdout.strip() == "2 jobs; 2 completed, refused"
    for command in (("cancel", *selected), ("delete", "--all"), ("retry", "--state", "running"), ("cancel", "--all")):
        plan, act = answer("jobs", *command, "--dry-run"), answer("jobs", *command, "--yes")
        assert (plan["jobs"], plan["refused"]) == (act["jobs"], act["refused"]), command
    assert run("jobs", "cancel", done[0], "--dry-run").stdout.strip() == "would cancel 0 jobs"  # it was deleted


@pytest.mark.parametrize(("output", "code", "state"), [("y\n", 0, "cancelled"), ("n\n", 130, "available")])
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, output: str, code: int, state: str) -> None:
    job = enqueue()
    monkeypatch.setattr(selection, "can_ask", lambda: True)
    done = run("jobs", "cancel", "--all", input=output)
    assert (done.exit_code, states()) == (code, {job: state})
    assert "cancel 1 job?" in done.stderr


def test_a_pipe_cannot_be_asked_for_confirmation() -> None:
    job = enqueue()
    assert run("jobs", "delete", "--all").exit_code == 2
    assert states() == {job: "available"}


def test_ids_are_acted_on_at_once_and_unknown_ones_are_reported() -> None:
    job, unknown = enqueue(), "01a1f8b1-ee66-738d-b504-41402640ee47"
    done = run("jobs", "cancel", job, unknown)
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (1, [f"{job}\tcancelled", f"{unknown}\tunknown"])


def test_running_jobs_are_not_deleted_and_that_is_reported(folder: Path) -> None:
    waiting, running = enqueue(), enqueue()
    claim(folder, "analyze", limit=1)
    waiting, running = (running, waiting) if states()[waiting] == "running" else (waiting, running)
    done = run("jobs", "delete", waiting, running)
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (1, [f"{waiting}\tdeleted", f"{running}\trunning, not deleted"])
    assert states() == {running: "running"}
    assert run("jobs", "delete", "--all", "--yes").stdout.strip() == "1 job; 1 running, not deleted"
    assert answer("jobs", "delete", "--all", "--yes")["states"] == {"running": 1}
    assert run("jobs", "cancel", running).stdout.splitlines()[1] == f"{running}\trunning, asked to end"


def test_jobs_are_made_due_at_another_time() -> None:
    job = enqueue()
    assert answer("jobs", "reschedule", job, "--at", "2100-01-31T08:00+01:00") == {job: "scheduled"}
    assert answer("jobs", "show", job)["available_at"] == "2100-01-31T07:00:00Z"
    assert answer("jobs", "reschedule", "--all", "--delay", "0s", "--yes")["states"] == {"available": 1}


def test_a_signal_is_sent_with_a_value_that_is_json() -> None:
    job = enqueue()
    assert run("jobs", "signal", job, "approved").stdout == "accepted\n"
    assert answer("jobs", "signal", job, "approved", '{"by": "ada"}') == {"id": job, "signal": "approved", "accepted": True}
    done = run("jobs", "signal", job, "approved", "yes")
    assert (done.exit_code, "VALUE is not JSON" in done.stderr) == (2, True)
    run("jobs", "cancel", job)
    done = run("jobs", "signal", job, "approved")
    assert (done.exit_code, done.stdout) == (1, "refused: the job has finished\n")
    assert run("jobs", "signal", "00000000-0000-0000-0000-000000000005", "approved").exit_code == 1


def test_a_retry_may_be_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [enqueue() for _ in range(2)]
    fresh, steer = list[bool](), Client.steer

    async def watched(self: Client, how: Steer, *request: Any, **more: Any) -> Any:
        if how.verb is SteerVerb.REOPEN:
            fresh.append(how.is_fresh)
        return await steer(self, how, *request, **more)

    monkeypatch.setattr(Client, "steer", watched)
    run("jobs", "cancel", *jobs)
    assert answer("jobs", "retry", jobs[0], "--fresh") == {jobs[0]: "available"}
    assert answer("jobs", "retry", "--state", "cancelled", "--fresh", "--yes")["states"] == {"available": 1}
    run("jobs", "cancel", *jobs)
    assert answer("jobs", "retry", *jobs) == dict.fromkeys(jobs, "available")
    assert fresh == [True, True, False]


def test_many_are_done_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        enqueue()
    sizes, steer = list[int](), Client.steer
    monkeypatch.setattr(selection, "BATCH", 2)

    async def watched(self: Client, how: Steer, ids: Sequence[UUID], *request: Any, **more: Any) -> Any:
        sizes.append(len(ids))
        return await steer(self, how, ids, *request, **more)

    monkeypatch.setattr(Client, "steer", watched)
    assert run("jobs", "cancel", "--all", "--yes").stdout.strip() == "5 jobs; 5 cancelled"
    assert sizes == [2, 2, 1]
    (entry,) = answer("audit")
    assert (entry["action"], entry["count"], entry["selector"]) == ("cancel", 5, '{"all":true}')


def test_a_job_that_matches_no_longer_when_it_is_written_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = enqueue(), enqueue()
    run("jobs", "cancel", first, second)
    monkeypatch.setattr(job_actions, "confirm", lambda question, *, yes: run("jobs", "retry", first))
    assert answer("jobs", "delete", "--state", "cancelled")["states"] == {"available": 1, "deleted": 1}
    assert states() == {first: "available"}


def test_what_was_done_before_a_failure_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        enqueue()
    steer, calls = Client.steer, iter([True, False])

    def once(self: Client, *request: Any, **more: Any) -> Any:
        if not next(calls):
            raise StoreUnavailable("gone")
        return steer(self, *request, **more)

    monkeypatch.setattr(selection, "BATCH", 1)
    monkeypatch.setattr(Client, "steer", once)
    done = run("jobs", "cancel", "--all", "--yes")
    assert done.exit_code == 75
    assert done.stderr.splitlines()[0] == "stopped after 1 of 3 jobs; what was done stays done"


def test_who_did_what_and_why_is_recorded() -> None:
    job = enqueue()
    run("jobs", "cancel", job, "--because", "wrong address")
    run("queues", "pause", "default", "--reason", "the provider is down")
    run("queues", "resume", "default")
    newest, paused, cancelled = answer("audit")
    user = getuser()
    assert [(each["who"], each["origin"]) for each in (newest, paused)] == [(user, f"cli:{user}@{gethostname()}")] * 2
    assert (newest["action"], newest["reason"], newest["count"]) == ("resume", None, 1)
    assert (paused["reason"], paused["selector"]) == ("the provider is down", '{"queues":["default"]}')
    assert (cancelled["reason"], cancelled["selector"], cancelled["count"]) == ("wrong address", f'{{"ids":["{job}"]}}', 1)
    assert "the provider is down" in run("audit", "--action", "pause").stdout
    assert answer("audit", "--before", cancelled["id"]) == []


def test_one_worker_is_drained_by_its_name_or_how_it_begins(folder: Path) -> None:
    for worker in ("web-1-4711", "web-1-4712", "web-1-47"):
        claim(folder, "analyze", worker=worker)
    for name, why in (("web-1-471", "web-1-4711, web-1-4712 have such a name"), ("web-2", "no worker"), ("", "no worker")):
        refused = run("workers", "drain", name)
        assert (refused.exit_code, why in refused.stderr) == (2, True)
    assert answer("workers", "drain", "web-1-47", "--because", "new host") == {"worker": "web-1-47", "holds": 0}
    assert run("workers", "drain", "web-1-4712").stdout == "web-1-4712 drains, with 0 jobs\n"
    assert [each["is_draining"] for each in answer("workers", "list")] == [False, True, True]
    (entry,) = answer("audit", "--action", "drain")[1:]
    assert (entry["selector"], entry["reason"]) == ('{"worker":"web-1-47"}', "new host")


def test_queues_are_paused_resumed_and_emptied(folder: Path) -> None:
    for _ in range(3):
        enqueue()
    claim(folder, "analyze", limit=1)
    assert run("queues", "pause", "default", "mail").stdout.splitlines() == ["queue default paused", "queue mail paused"]
    listed = {queue["name"]: queue["paused_at"] is not None for queue in answer("queues", "list")}
    assert listed == {"default": True, "mail": True}
    assert "default\tpaused since" in run("queues", "list").stdout
    run("queues", "resume", "default")
    assert "default\topen\t0\t2\t0\t0\t0\t1" in run("queues", "list").stdout
    assert run("queues", "purge", "default").exit_code == 2
    assert answer("queues", "purge", "default", "--dry-run") == {"queue": "default", "waiting": 2, "deleted": 0}
    assert run("queues", "purge", "default", "--yes").stdout.strip() == "2 waiting jobs of queue default deleted"
    enqueue()
    assert run("queues", "purge", "default", "--dry-run").stdout == "would delete 1 waiting job of queue default\n"
    assert json.loads(run("jobs", "counts", "--json").stdout)["running"] == 1


def test_who_paused_a_queue_and_why_is_listed_and_explained(folder: Path) -> None:
    job = enqueue()
    run("queues", "pause", "default", "--because", "a release")
    (queue,) = answer("queues", "list")
    assert queue["paused_because"] == "a release"
    why = f" by {queue['paused_by']} (a release)"
    assert queue["paused_at"][11:19] + f"Z{why}\t" in run("queues", "list").stdout
    assert answer("jobs", "explain", job)["causes"][0]["message"] == f"its queue default is paused{why}"
    run("queues", "resume", "default")
    (queue,) = answer("queues", "list")
    assert (queue["paused_by"], queue["paused_because"]) == (None, None)


def test_lists_and_selectors_take_the_same_conditions() -> None:
    chosen = enqueue()
    App(url(Path.cwd())).enqueue("other", n=1)
    run("jobs", "cancel", chosen)
    old = ("--state", "cancelled", "--reason", "BY_OPERATOR", "--older-than", "0s", "--key", "")
    assert [job["id"] for job in answer("jobs", "list", *old)] == [chosen]
    assert answer("jobs", "list", *old, "--attempts-at-least", "1") == answer("jobs", "list", "--older-than", "1h") == []
    more = ("--state", "cancelled,failed", "--state", "held", "--task", "absent,analyze", "--text", "NALY")
    assert [job["id"] for job in answer("jobs", "list", *more, "--up-to", "2100-01-01T00:00Z")] == [chosen]
    assert answer("jobs", "list", *more, "--rescued") == answer("jobs", "list", *more, "--up-to", "2020-01-01T00:00Z") == []
    assert answer("jobs", "list", *more, "--worker", "w") == answer("jobs", "list", *more, "--schedule", "s") == []
    assert "'gone' is not one of scheduled" in run("jobs", "list", "--state", "failed,gone").stderr
    assert run("jobs", "cancel", "--state", ",", "--yes").exit_code == 2
    assert answer("jobs", "retry", *old, "--yes") == {"command": "retry", "jobs": 1, "states": {"available": 1}, "refused": 0}
    assert answer("jobs", "delete", "--older-than", "1h", "--yes")["jobs"] == 0

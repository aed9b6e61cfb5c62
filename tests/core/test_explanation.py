"""An explanation names each reason why a job does not run, the most important first, with a command that helps."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.cause import Code, clock
from holdfast._core.explanation import WorkerFacts, explain
from holdfast._core.job import Failure, HeldFor, Reason, State, Token
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.steps import FOREVER

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
JOB = JobRecord(
    id=UUID(int=1),
    token=Token(None, 0),
    task="analyze",
    queue="slow",
    priority=0,
    state=State.AVAILABLE,
    payload=b"{}",
    policy=Policy(max_attempts=5, max_crashes=3),
    attempt=0,
    failures=0,
    crashes=0,
    created_at=NOW,
    available_at=NOW,
)
IDLE = WorkerFacts(name="w-1", tasks=("analyze",), free=3)


def codes(job: JobRecord, *workers: WorkerFacts, is_paused: bool = False) -> list[str]:
    explanation = explain(job, is_paused=is_paused, workers=workers, now=NOW)
    assert explanation.state is job.state
    assert explanation.summary == (explanation.causes[0].message if explanation.causes else explanation.summary) != ""
    assert all("`holdfast " in cause.remedy for cause in explanation.causes)
    return [cause.code.value for cause in explanation.causes]


def test_a_due_job_has_no_cause_when_a_worker_has_a_free_slot() -> None:
    assert codes(JOB, IDLE) == []
    assert codes(JOB, structs.replace(IDLE, queues=("other", "slow"), overdue=0.0)) == []


@pytest.mark.parametrize(
    ("workers", "code"),
    [
        ((), "no_live_worker"),
        ((structs.replace(IDLE, overdue=0.1),), "no_live_worker"),
        ((structs.replace(IDLE, is_draining=True),), "no_live_worker"),
        ((structs.replace(IDLE, queues=("fast",)),), "no_live_worker"),
        ((structs.replace(IDLE, tasks=("other",)),), "unknown_task"),
        ((structs.replace(IDLE, tasks=("other",)), structs.replace(IDLE, queues=("fast",))), "unknown_task"),
        ((structs.replace(IDLE, free=0),), "at_capacity"),
        ((structs.replace(IDLE, is_isolated=True),), "at_capacity"),
        ((structs.replace(IDLE, free=0), structs.replace(IDLE, tasks=("other",))), "at_capacity"),
    ],
)
def test_the_first_thing_that_workers_lack_is_named_when_none_can_claim_the_job(
    workers: tuple[WorkerFacts, ...], code: str
) -> None:
    assert codes(JOB, *workers) == [code]


def test_an_isolated_attempt_waits_for_an_isolated_worker() -> None:
    crashed = structs.replace(JOB, crashes=2)
    assert codes(crashed, IDLE) == ["at_capacity"]
    assert codes(crashed, IDLE, structs.replace(IDLE, is_isolated=True, free=1)) == []
    assert codes(crashed, IDLE, structs.replace(IDLE, is_isolated=True, free=0)) == ["at_capacity"]


def test_causes_that_apply_together_are_listed_most_important_first() -> None:
    late = structs.replace(JOB, state=State.SCHEDULED, available_at=LATER, expires_at=NOW)
    assert codes(late, is_paused=True) == ["expired", "paused", "due_later", "no_live_worker"]
    assert codes(late, IDLE, is_paused=True) == ["expired", "paused", "due_later"]


def test_only_a_first_attempt_expires() -> None:
    assert codes(structs.replace(JOB, expires_at=NOW, attempt=1), IDLE) == []
    assert codes(structs.replace(JOB, expires_at=LATER), IDLE) == []
    assert codes(structs.replace(JOB, expires_at=NOW, state=State.HELD)) == ["held"]


@pytest.mark.parametrize(
    ("state", "changes", "expected"),
    [
        (State.COMPLETED, {}, ["finished"]),
        (State.CANCELLED, {"reason": Reason.BY_OPERATOR}, ["finished"]),
        (State.FAILED, {"reason": Reason.PERMANENT, "failures": 1}, ["finished"]),
        (State.FAILED, {"reason": Reason.HANDLER_ERROR, "failures": 1}, ["finished"]),
        (State.FAILED, {"reason": Reason.HANDLER_ERROR, "failures": 5}, ["budget_spent", "finished"]),
        (State.FAILED, {"reason": Reason.STALLED, "failures": 5}, ["budget_spent", "finished"]),
        (State.FAILED, {"reason": Reason.TIMED_OUT, "failures": 5}, ["budget_spent", "finished"]),
        (State.FAILED, {"reason": Reason.WORKER_CRASHED, "crashes": 3}, ["budget_spent", "finished"]),
        (State.FAILED, {"reason": Reason.EXPIRED}, ["expired", "finished"]),
        (State.HELD, {}, ["held"]),
        (State.BLOCKED, {}, ["blocked"]),
    ],
)
def test_a_finished_held_or_blocked_job_is_explained_without_regard_to_workers(
    state: State, changes: dict[str, object], expected: list[str]
) -> None:
    assert codes(structs.replace(JOB, state=state, **changes)) == expected  # type: ignore[arg-type]


def test_a_job_held_for_its_steps_names_both_ways_to_go_on() -> None:
    held = structs.replace(JOB, state=State.HELD, held_for=HeldFor.STEPS, error=Failure("StepsChanged", "asks for 'b'"))
    (cause,) = explain(held, is_paused=False, workers=(), now=NOW).causes
    assert cause.message == "its code was changed under its steps: asks for 'b'"
    again = f"`holdfast jobs retry {JOB.id}"
    assert cause.remedy.startswith(f"deploy the code that recorded its steps and run {again}`, or {again} --fresh`")


def test_a_job_that_awaits_a_signal_names_it_and_until_when() -> None:
    waiting = structs.replace(JOB, state=State.BLOCKED, awaits="go", available_at=LATER)
    (cause,) = explain(waiting, is_paused=False, workers=(), now=NOW).causes
    assert cause.message == f"it waits for the signal 'go', at most until {clock(LATER)}"
    assert cause.remedy == f"`holdfast jobs signal {JOB.id} go VALUE` sends it"
    for_ever = structs.replace(waiting, available_at=NOW + timedelta(seconds=FOREVER))
    assert explain(for_ever, is_paused=False, workers=(), now=NOW).summary == "it waits for the signal 'go'"


def test_a_job_that_waits_for_others_names_its_workflow() -> None:
    (cause,) = explain(structs.replace(JOB, state=State.BLOCKED), is_paused=False, workers=(), now=NOW).causes
    assert cause.message == "it waits for other jobs of its workflow"
    assert cause.remedy == f"nothing to do; `holdfast jobs cancel {JOB.id}` ends it"


def test_a_running_job_is_explained_with_its_worker_and_progress() -> None:
    running = structs.replace(JOB, state=State.RUNNING, worker="w-1", started_at=NOW, fraction=0.5, cancel_requested=True)
    assert codes(running, structs.replace(IDLE, is_draining=True)) == ["running"]
    summary = explain(running, is_paused=False, workers=(IDLE,), now=NOW).summary
    assert summary == "it runs on w-1 since 2024-05-01 12:00:00Z, 50% done, asked to end"
    assert codes(structs.replace(running, state=State.CLAIMED), IDLE) == ["running"]


def test_a_job_that_runs_on_a_silent_worker_waits_for_its_rescue() -> None:
    running = structs.replace(JOB, state=State.RUNNING, worker="w-1", started_at=NOW)
    assert codes(running, structs.replace(IDLE, overdue=7.0)) == ["no_live_worker"]
    assert codes(running, structs.replace(IDLE, name="w-2")) == ["no_live_worker"]
    summary = explain(running, is_paused=False, workers=(structs.replace(IDLE, overdue=7.0),), now=NOW).summary
    assert summary == "its worker w-1 has been silent for 7 s longer than it may"


def test_the_codes_are_those_of_the_front_door() -> None:
    promised = (
        "paused due_later expired no_live_worker unknown_task blocked held budget_spent at_capacity rate_limited running finished"
    )
    assert [code.value for code in Code] == promised.split()

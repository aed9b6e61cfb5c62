"""An explanation names each reason why a job does not run, the most important first, with a command that helps."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.cause import Code, clock
from holdfast._core.explanation import WorkerFacts, explain
from holdfast._core.job import Failure, HeldFor, Reason, State, Token
from holdfast._core.member import Member
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.steps import FOREVER
from holdfast._core.view import JobView
from holdfast._core.workflow import Flow, FlowView, MemberView
from holdfast._core.workflow_view import WorkflowView

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


def test_a_job_that_failed_for_its_steps_names_both_ways_to_go_on() -> None:
    changes = {"state": State.FAILED, "reason": Reason.STEPS_CHANGED, "error": Failure("StepsChanged", "asks for 'b'")}
    first, second = explain(structs.replace(JOB, **changes), is_paused=False, workers=(), now=NOW).causes  # type: ignore[arg-type]
    assert (first.code, first.message) == ("finished", "its code was changed under its steps: asks for 'b'")
    assert first.remedy.endswith(
        f"`holdfast jobs retry {JOB.id} --fresh`, which forgets its steps and its checkpoint and does all of its work again"
    )
    assert second.message == "it failed: STEPS_CHANGED"


def test_a_job_that_awaits_a_signal_names_it_and_until_when() -> None:
    waiting = structs.replace(JOB, state=State.BLOCKED, awaits="go", available_at=LATER)
    (cause,) = explain(waiting, is_paused=False, workers=(), now=NOW).causes
    assert cause.message == f"it waits for the signal 'go', at most until {clock(LATER)}"
    assert cause.remedy == f"`holdfast jobs signal {JOB.id} go null` sends it, with the JSON value that you write for null"
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


ROOT, OWN = UUID(int=7), UUID(int=1)
FLOW = Flow(id=ROOT)


def member(node: str, state: State, job: UUID, *parents: UUID, **counters: int) -> MemberView:
    return MemberView(job=job, task=node, state=state, member=Member(flow=ROOT, node=node, **counters), parents=parents)


def workflow(*members: MemberView, flow: Flow = FLOW) -> WorkflowView:
    return WorkflowView.of(FlowView(flow, (*members, member("release", State.BLOCKED, ROOT))))


def causes_of(job: JobRecord, view: WorkflowView) -> list[tuple[str, str, str]]:
    found = explain(job, is_paused=False, workers=(IDLE,), now=NOW, workflow=view).causes
    return [(each.code.value, each.message, each.remedy) for each in found]


def blocked(**member: object) -> JobRecord:
    return structs.replace(JOB, state=State.BLOCKED, member=Member(flow=ROOT, node="own", **member))  # type: ignore[arg-type]


def test_a_blocked_member_names_what_it_waits_for() -> None:
    parents = [member(f"p{n}", State.RUNNING, UUID(int=10 + n)) for n in range(4)]
    done = member("done", State.COMPLETED, UUID(int=20))
    own = member("own", State.BLOCKED, OWN, done.job, *(each.job for each in parents), needs=2, waits=4)
    ((code, message, remedy),) = causes_of(blocked(), workflow(done, *parents, own))
    assert (code, message) == ("blocked", "it waits for 2 of p0 (running), p1 (running), p2 (running) and 1 more")
    assert f"`holdfast workflows show {ROOT}`" in remedy
    root = structs.replace(blocked(), id=ROOT)
    assert causes_of(root, workflow(done, parents[0]))[0][1] == "it is the workflow release, and waits for p0 (running)"


@pytest.mark.parametrize("asking", [{"state": State.HELD}, {"state": State.BLOCKED, "awaits": "go"}])
def test_a_node_that_waits_for_an_operator_is_named_by_all_that_wait_for_it(asking: dict[str, Any]) -> None:
    behind, own = member("behind", State.BLOCKED, UUID(int=11), UUID(int=10)), member("own", State.BLOCKED, OWN, UUID(int=11))
    view = workflow(member("charge", State.RUNNING, UUID(int=10)), behind, own)
    first = structs.replace(view.nodes[0], **asking)
    view = structs.replace(view, nodes=(first, *view.nodes[1:]))
    look = f"`holdfast jobs explain {first.job}` shows what charge waits for; "
    for waiting in (blocked(), structs.replace(blocked(), id=ROOT)):
        assert causes_of(waiting, view)[0][2].startswith(look)
    paused = structs.replace(view, paused_at=NOW, nodes=(structs.replace(first, is_paused=True, awaits=None), *view.nodes[1:]))
    assert causes_of(blocked(), paused)[-1][2].startswith("nothing to do; ")


def test_a_job_that_depends_on_others_names_those_that_have_not_ended() -> None:
    parents = [structs.replace(JOB, id=UUID(int=n), task=f"p{n}", state=State.RUNNING) for n in range(4)]
    parents[3] = structs.replace(parents[3], state=State.COMPLETED)
    root = structs.replace(blocked(needs=2), id=ROOT)
    flow = FlowView(FLOW, (member("own", State.BLOCKED, ROOT),))
    ((code, message, remedy),) = causes_of(root, WorkflowView.of(flow, parents))
    named = [f"p{n} {UUID(int=n)} (running)" for n in range(3)]
    assert (code, message) == ("blocked", f"it waits for 2 of {', '.join(named)}")
    assert f"`holdfast jobs cancel {ROOT}`" in remedy
    assert "just ended" in causes_of(root, WorkflowView.of(flow, parents[3:]))[0][1]
    lost = structs.replace(root, state=State.FAILED, reason=Reason.DEPENDENCY_FAILED, finished_at=NOW)
    failed = structs.replace(parents[1], state=State.FAILED)
    assert f"`holdfast jobs retry {failed.id}`" in causes_of(lost, WorkflowView.of(flow, [failed]))[0][2]


def test_a_member_held_by_a_pause_is_explained_by_the_pause_and_not_by_a_crash() -> None:
    view = workflow(member("own", State.HELD, OWN), flow=Flow(id=ROOT, paused_at=NOW))
    held = structs.replace(blocked(is_paused=True), state=State.HELD)
    ((code, message, remedy),) = causes_of(held, view)
    assert (code, "paused since 2024-05-01 12:00:00Z, which holds it" in message) == ("paused", True)
    assert remedy == f"`holdfast workflows resume {ROOT}` lets it go on"
    assert JobView.of(held).held_for is HeldFor.PAUSE


def test_a_member_behind_a_failure_that_a_pause_holds_back_names_the_choices() -> None:
    failed = member("lint", State.FAILED, UUID(int=10))
    view = workflow(failed, member("own", State.BLOCKED, OWN, failed.job), flow=Flow(id=ROOT, paused_at=NOW))
    ((_, message, remedy),) = causes_of(blocked(), view)
    assert message.endswith("; lint (failed) did not complete")
    assert all(choice in remedy for choice in (f"resume {ROOT}", "--failed retry", "--failed continue"))


@pytest.mark.parametrize("root", [False, True])
def test_the_choices_are_also_named_where_others_have_not_ended(root: bool) -> None:
    failed, runs = member("lint", State.FAILED, UUID(int=10)), member("test", State.RUNNING, UUID(int=11))
    own = member("own", State.BLOCKED, OWN, failed.job, runs.job)
    view = workflow(failed, runs, own, flow=Flow(id=ROOT, paused_at=NOW))
    (_, message, remedy), _ = causes_of(structs.replace(blocked(), id=ROOT if root else OWN), view)
    assert "; lint (failed) did not complete" in message
    assert all(choice in remedy for choice in ("--failed retry", "--failed continue"))


def test_a_finished_workflow_is_run_again_by_the_command_of_workflows() -> None:
    root = structs.replace(JOB, id=ROOT, member=Member(flow=ROOT, node="release", is_gate=True))
    for state, again in ((State.CANCELLED, f"retry {ROOT}`"), (State.COMPLETED, f"retry {ROOT} --from NODE`")):
        ended = structs.replace(root, state=state, reason=None if state is State.COMPLETED else Reason.BY_OPERATOR)
        (cause,) = explain(ended, is_paused=False, workers=(), now=NOW).causes
        assert f"`holdfast workflows {again}" in cause.remedy
        assert f"`holdfast workflows show {ROOT}`" in cause.remedy
        assert "holdfast jobs" not in cause.remedy


def test_the_causes_of_a_job_without_attempts_left_repeat_no_remedy() -> None:
    dead = structs.replace(JOB, state=State.FAILED, reason=Reason.HANDLER_ERROR, failures=5)
    spent, finished = explain(dead, is_paused=False, workers=(), now=NOW).causes
    assert spent.remedy == f"once the cause is fixed, `holdfast jobs retry {JOB.id}` runs it again with fresh budgets"
    assert finished.remedy == f"`holdfast jobs show {JOB.id}` shows its attempts"


def test_a_member_held_for_a_crash_in_a_workflow_is_explained_by_the_crash() -> None:
    held = structs.replace(blocked(), state=State.HELD, held_for=HeldFor.CRASH)
    assert causes_of(held, workflow())[0][0] == "held"
    assert "its worker ended" in causes_of(held, workflow())[0][1]


def test_a_member_that_ended_because_of_others_names_them() -> None:
    error = Failure("DependencyFailed", "lint did not complete")
    failed = structs.replace(blocked(), state=State.FAILED, reason=Reason.DEPENDENCY_FAILED, error=error)
    assert causes_of(failed, workflow()) == [
        (
            "finished",
            "it failed, because lint did not complete",
            f"`holdfast workflows retry {ROOT}` runs again what did not complete",
        )
    ]
    paused = workflow(flow=Flow(id=ROOT, paused_at=NOW))
    assert causes_of(failed, paused)[0][2].endswith(f", once `holdfast workflows resume {ROOT}` has ended its pause")
    cancelled = structs.replace(blocked(), state=State.CANCELLED, reason=Reason.BY_WORKFLOW)
    assert causes_of(cancelled, workflow())[0][1] == "it was cancelled with its workflow release"

"""The verdicts on the cost of attempts, on writes of former owners to waiting jobs, and on two attempts in one process."""

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.policy import CrashPolicy, Policy
from proof.checker.history import FAIL_OVER, By, Phase
from proof.checker.verdicts import Rules
from tests.simulation.hand_made_histories import FIRST, LEASE, OTHER, SECOND, Tale, begun, dead, stopped

BACK = {"state": State.AVAILABLE, "token": Token(None, 1), "lease": None}
OPEN = Rules(is_complete=False)


def with_policy(tale: Tale, policy: CrashPolicy) -> Tale:
    """The task of the job has this policy for interrupted code."""
    assert tale.row is not None
    tale.row = structs.replace(tale.row, policy=Policy(on_crash=policy))
    return tale


def interrupted(tale: Tale, **changes: object) -> Tale:
    """The worker releases the job, whose code had begun."""
    return tale.settle(FIRST, record=AttemptOutcome.RELEASED, **changes)


def copy_of(tale: Tale) -> Tale:
    """A copy, so that a tale can end in two ways."""
    copy = Tale()
    copy.events, copy.time, copy.row, copy.leases = [*tale.events], tale.time, tale.row, {**tale.leases}
    return copy


@pytest.mark.parametrize(("failures", "is_right"), [(0, False), (1, True), (2, False)])
def test_a_failed_attempt_is_counted_once(failures: int, is_right: bool) -> None:
    tale = stopped().settle(FIRST, record=AttemptOutcome.FAILED, failures=failures, **BACK)
    assert tale.check(OPEN).verdict("S9") is is_right


def test_nothing_else_is_counted_as_a_failure() -> None:
    assert not stopped().settle(FIRST, record=AttemptOutcome.SNOOZED, failures=1, **BACK).check(OPEN).verdict("S9")


@pytest.mark.parametrize("policy", [CrashPolicy.HOLD, CrashPolicy.FAIL])
def test_interrupted_code_runs_again_only_if_its_task_allows_it(policy: CrashPolicy) -> None:
    assert not interrupted(with_policy(stopped(), policy), **BACK).check(OPEN).verdict("S9")
    assert not with_policy(dead(), policy).rescue().check(OPEN).verdict("S9")
    assert interrupted(with_policy(stopped(), policy), **{**BACK, "state": State.HELD}).check(OPEN).verdict("S9")
    assert interrupted(stopped(), **BACK).check(OPEN).verdict("S9")
    failed = with_policy(stopped(), policy).settle(FIRST, record=AttemptOutcome.FAILED, failures=1, **BACK)
    assert failed.check(OPEN).verdict("S9")


def test_code_that_never_began_was_not_interrupted() -> None:
    tale = with_policy(Tale().job(By("enqueue")).lease(), CrashPolicy.HOLD)
    tale = tale.job(By("claim"), state=State.RUNNING, token=FIRST, lease=LEASE, attempt=1).settle(FIRST, **{**BACK, "attempt": 0})
    assert tale.check(OPEN).verdict("S9")


def test_a_former_owner_changes_no_waiting_job() -> None:
    assert not dead().rescue().settle(FIRST, state=State.FAILED).check(OPEN).verdict("S3")
    assert dead().rescue().job(By("request_cancel"), state=State.CANCELLED).check(OPEN).verdict("S3")


def test_no_process_runs_two_attempts_of_a_job_after_any_fault_of_clocks_and_store() -> None:
    rules = Rules(is_timed=False, is_complete=False)
    again = begun().job(By(FAIL_OVER), **BACK).job(By("claim"), state=State.RUNNING, token=SECOND, lease=LEASE, attempt=2)
    assert not copy_of(again).life("handler.start", SECOND).check(rules).verdict("S8")
    assert again.check(rules).verdict("S8")


def test_a_lease_that_a_fail_over_has_forgotten_counts_as_expired() -> None:
    tale = begun().say("lease", Phase.TRUTH, lease=LEASE, before=None, after=None, by=By(FAIL_OVER))
    moved = tale.settle(FIRST, Precondition.LEASE_ENDED, OTHER, AttemptOutcome.CRASHED, crashes=1, **BACK)
    assert moved.check(Rules(is_timed=False, is_complete=False)).verdict("S9")

"""Each way an attempt can end has its sentence."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.attempt_line import ended_line, rescued_line, started_line, summary_line
from holdfast._core.job import ActiveJob, Claim, Failure, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Cancel, Done, Fail, Outcome, Raised, Retry, Snooze
from holdfast._core.policy import Backoff, Policy

JOB = ActiveJob(
    id=UUID("01a20386-38bd-746c-85ed-47a9829d8f2c"),
    token=Token(UUID(int=1), 1),
    lease=UUID(int=2),
    task="sync",
    state=State.RUNNING,
    attempt=1,
    failures=0,
    crashes=0,
    policy=Policy(backoff=Backoff.fixed("1.2s"), timeout=3.0),
)
LAST = structs.replace(JOB, attempt=3, failures=2, crashes=2)
ERROR = Raised(Failure("KeyError", "'sku'"))


def line(job: ActiveJob, outcome: Outcome, checkpoint: bytes | None = None) -> str:
    move = lifecycle.finish(job, outcome, jitter=0.0)
    return ended_line(Claim(job=job, payload=b"{}", checkpoint=checkpoint), move, 0.33, move.error)


@pytest.mark.parametrize(
    ("job", "outcome", "text"),
    [
        (JOB, Done(), "sync 9d8f2c completed in 0.33 s"),
        (LAST, Done(), "sync 9d8f2c completed in 0.33 s, attempt 3"),
        (JOB, ERROR, "sync 9d8f2c failed in 0.33 s, attempt 1 of 3, again in 1.2 s: KeyError: 'sku'"),
        (LAST, ERROR, "sync 9d8f2c failed for good, attempt 3 of 3: KeyError: 'sku'"),
        (JOB, Retry(after=0), "sync 9d8f2c failed in 0.33 s, attempt 1 of 3, again at once: Retry"),
        (JOB, Fail("no such user"), "sync 9d8f2c failed for good, attempt 1 of 3: Fail: no such user"),
        (JOB, Snooze(64), "sync 9d8f2c snoozed for 1 min 04 s"),
        (JOB, Cancel("too old"), "sync 9d8f2c cancelled in 0.33 s: Cancel: too old"),
    ],
)
def test_an_outcome_has_its_sentence(job: ActiveJob, outcome: Outcome, text: str) -> None:
    assert line(job, outcome) == text


def test_a_job_that_went_on_from_its_checkpoint_names_it() -> None:
    assert (
        line(structs.replace(JOB, attempt=2), Done(), b"{}") == "sync 9d8f2c completed in 0.33 s, attempt 2, from its checkpoint"
    )


def test_ends_without_an_outcome_have_their_sentences() -> None:
    claim = Claim(job=JOB, payload=b"{}")
    late = lifecycle.deadline_exceeded(JOB, RescueReason.TIMED_OUT, jitter=0.0)
    text = "sync 9d8f2c timed out in 3 s, attempt 1 of 3, again in 1.2 s: TIMED_OUT: still running after 3 s"
    assert ended_line(claim, late, 3.0, late.error) == text
    crashed = lifecycle.runner_crashed(LAST, "SIGKILL", jitter=0.0)
    text = "sync 9d8f2c failed for good, crash 3 of 3: WorkerCrashed: the worker ended while the job ran (3 of 3 crashes)"
    assert ended_line(claim, crashed, 3.0, crashed.error) == text
    released = lifecycle.release(JOB, code_ran=True)
    assert ended_line(claim, released, 3.0, None) == "sync 9d8f2c returned to its queue"
    assert started_line(claim, 0.9) == "sync 9d8f2c started, attempt 1, waited 0.9 s"


def test_a_summary_names_the_five_largest_queues() -> None:
    queues = {name: number for number, name in enumerate("abcdefg", 1)}
    assert summary_line(10.0, queues, 0, None) == "28 completed in 10 s (g 7, f 6, e 5, d 4, c 3, others 3), 0 failed"
    assert summary_line(10.0, {}, 9, None) == "0 completed in 10 s, 9 failed"


@pytest.mark.parametrize(
    ("job", "why", "text"),
    [
        (JOB, LeaseEnd(RescueReason.CRASHED, "SIGKILL"), "back in its queue, crash 1 of 3"),
        (structs.replace(JOB, crashes=1), LeaseEnd(RescueReason.CRASHED), "runs again in 1.2 s, crash 2 of 3"),
        (LAST, LeaseEnd(RescueReason.CRASHED), "failed, crash 3 of 3"),
        (JOB, LeaseEnd(RescueReason.CLOSED, is_free=True), "back in its queue"),
        (
            JOB,
            LeaseEnd(RescueReason.CLOSED, is_free=True, charged_jobs={JOB.id: RescueReason.TIMED_OUT}),
            "runs again in 1.2 s, attempt 1 of 3",
        ),
    ],
)
def test_a_rescue_has_its_sentence(job: ActiveJob, why: LeaseEnd, text: str) -> None:
    move = lifecycle.rescue(job, why, jitter=0.0)
    assert rescued_line(job, move, move.to, "web1-4711", "SIGKILL") == f"sync 9d8f2c taken from web1-4711 (SIGKILL), {text}"


def test_the_line_of_a_rescue_has_the_progress_and_the_time_that_it_took() -> None:
    job = structs.replace(JOB, fraction=0.524)
    move = lifecycle.rescue(job, LeaseEnd(RescueReason.CRASHED), jitter=0.0)
    found = rescued_line(job, move, move.to, "web1-4711", "SIGKILL (out of memory)", 0.4)
    assert "taken from web1-4711 (lease ran out) at 52 %" in rescued_line(job, move, move.to, "web1-4711", "expired", 0.4)
    assert (
        found == "sync 9d8f2c taken from web1-4711 (SIGKILL, out of memory) at 52 %, back in its queue after 0.4 s, crash 1 of 3"
    )

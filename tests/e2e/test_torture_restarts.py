"""How torture measures the time until a returned job runs again: what counts, and what ends the wait without a figure."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State, Token
from proof.checker.history import Event, JobRow, Phase
from tests.e2e.torture.restarts import waits

JOB, CLAIM = UUID(int=1), UUID(int=2)
RUNNING = JobRow(State.RUNNING, Token(CLAIM, 1), attempt=1)
BACK = structs.replace(RUNNING, state=State.AVAILABLE, crashes=1)


def moved(time: float, before: JobRow, after: JobRow, job: UUID = JOB) -> Event:
    return Event(time=time, process="", what="job", phase=Phase.TRUTH, job=job, before=before, after=after)


def started(time: float) -> Event:
    return Event(time=time, process="worker", what="handler.start", phase=Phase.LIFE, job=JOB)


def test_l10_a_returned_job_is_timed_until_its_code_starts() -> None:
    again = structs.replace(RUNNING, crashes=1)
    history = [
        started(0.5),
        moved(1.0, RUNNING, BACK),
        moved(2.0, BACK, again),
        started(2.5),
        moved(3.0, again, BACK),
        started(4.0),
    ]
    assert list(waits(history, {JOB})) == [(JOB, 1.5), (JOB, 1.0)]


def test_l10_a_job_returned_before_its_code_started_is_timed_from_its_last_return() -> None:
    history = [moved(1.0, RUNNING, BACK), moved(2.0, BACK, RUNNING), moved(5.0, RUNNING, BACK), started(6.0)]
    assert list(waits(history, {JOB})) == [(JOB, 1.0)]


@pytest.mark.parametrize(
    "after",
    [
        structs.replace(BACK, crashes=2),
        structs.replace(BACK, failures=1),
        structs.replace(BACK, state=State.SCHEDULED),
        structs.replace(BACK, state=State.COMPLETED),
        structs.replace(BACK, is_cancel_requested=True),
    ],
    ids=["second crash", "failure", "snooze", "finished", "cancelled"],
)
def test_l10_a_job_that_has_to_wait_is_not_timed(after: JobRow) -> None:
    assert list(waits([moved(1.0, RUNNING, after), started(9.0)], {JOB})) == []


def test_l10_a_job_that_is_released_after_it_had_to_wait_is_not_timed() -> None:
    again = structs.replace(RUNNING, crashes=2)
    assert list(waits([moved(1.0, again, structs.replace(BACK, crashes=2)), started(9.0)], {JOB})) == []


def test_l10_a_job_that_an_operator_moves_is_not_timed() -> None:
    later = structs.replace(BACK, state=State.SCHEDULED)
    assert list(waits([moved(1.0, RUNNING, BACK), moved(1.5, BACK, later), started(9.0)], {JOB})) == []


def test_l10_other_jobs_are_not_timed() -> None:
    assert list(waits([moved(1.0, RUNNING, BACK), started(2.0)], set())) == []

"""What a job takes along to another store, and which jobs stay."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord, new_record
from holdfast._core.transfer import MOST_BYTES, MOST_JOBS, Stays, is_as_sent, moved, parts_of, reason_to_stay

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=60)


def record(payload: bytes = b"{}") -> JobRecord:
    return new_record(
        NewJob(id=UUID(int=1), payload=payload, task="mail", policy=Policy(), priority=7, expires_in=60.0, unique_key="one"), NOW
    )


def test_a_job_takes_its_own_priority_and_the_rest_of_its_time_along() -> None:
    row, sent = record(), moved(record(), 5, NOW + timedelta(seconds=20))
    assert (sent.priority, sent.expires_in, sent.run_at) == (2, 40.0, NOW)
    assert is_as_sent(new_record(sent, LATER), sent)
    assert is_as_sent(structs.replace(row, priority=99), sent)


def test_a_job_that_was_started_does_not_expire_any_more() -> None:
    started = structs.replace(record(), attempt=1)
    assert moved(started, 0, LATER).expires_in is None
    assert reason_to_stay(started, LATER) is None
    assert reason_to_stay(record(), LATER) is Stays.EXPIRED


@pytest.mark.parametrize(
    ("field", "value", "why"), [("checkpoint", b"1", Stays.STEPS), ("hook_due_at", NOW, Stays.HOOK)], ids=["checkpoint", "hook"]
)
def test_what_a_new_job_cannot_have_makes_it_stay(field: str, value: object, why: Stays) -> None:
    assert reason_to_stay(record(), NOW) is None
    assert reason_to_stay(structs.replace(record(), **{field: value}), NOW) is why


@pytest.mark.parametrize(("field", "value"), [("payload", b"[]"), ("tags", ("a",)), ("available_at", LATER), ("key", "acme")])
def test_a_job_that_arrived_with_another_value_is_noticed(field: str, value: object) -> None:
    sent = moved(record(), 0, NOW)
    assert not is_as_sent(structs.replace(new_record(sent, NOW), **{field: value}), sent)


def test_parts_are_bounded_by_number_and_by_bytes_and_a_large_job_goes_alone() -> None:
    assert [len(part) for part in parts_of([record()] * (2 * MOST_JOBS + 1))] == [MOST_JOBS, MOST_JOBS, 1]
    large = record(b"x" * (MOST_BYTES + 1))
    assert parts_of([record(), large, record()]) == [[record()], [large], [record()]]

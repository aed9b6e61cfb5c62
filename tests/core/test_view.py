"""Users read JSON data and plain fields, and a view of any record can be made."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from holdfast._core.job import ActiveJob, AttemptOutcome, Claim, Rescue, RescueReason, State, Token
from holdfast._core.policy import Policy
from holdfast._core.record import AttemptRecord, JobRecord
from holdfast._core.view import JobView, RescuedJob

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
ATTEMPT = AttemptRecord(
    job=UUID(int=1), token=Token(UUID(int=2), 1), attempt=1, worker="w", outcome=AttemptOutcome.CRASHED, late_result=b"[1]"
)
RECORD = JobRecord(
    id=UUID(int=1),
    token=Token(None, 1),
    task="analyze",
    queue="default",
    priority=0,
    state=State.AVAILABLE,
    payload=b'{"url":"u"}',
    policy=Policy(max_attempts=5, max_crashes=7),
    attempt=1,
    failures=0,
    crashes=1,
    created_at=NOW,
    available_at=NOW,
    checkpoint=b'{"next":3}',
    attempts=(ATTEMPT,),
)
NAMES = (
    "id task queue priority state reason error payload result attempt failures crashes rescued max_attempts max_crashes created_at "
    "available_at expires_at claimed_at started_at finished_at worker stage fraction message last_progress_at checkpoint "
    "attempts tags key unique_key headers workflow awaits held_for error_key rescued_at rescued_from rescued_fraction points "
    "unique_for unique_until"
)


def test_the_names_are_those_of_the_front_door() -> None:
    view = JobView.of(RECORD)
    assert set(view.__struct_fields__) == set(NAMES.split())
    attempt = (
        "attempt worker outcome error started_at ended_at signal stacks late_result error_key stage fraction message points "
        "rescued_by late_at"
    )
    assert set(view.attempts[0].__struct_fields__) == set(attempt.split())


def test_json_is_decoded_and_budgets_are_named() -> None:
    view = JobView.of(RECORD)
    assert (view.payload, view.checkpoint, view.result) == ({"url": "u"}, {"next": 3}, None)
    assert (view.max_attempts, view.max_crashes, view.attempts[0].late_result) == (5, 7, [1])


def test_a_view_is_one_json_document_with_times_in_utc() -> None:
    document = msgspec.json.decode(msgspec.json.encode(JobView.of(RECORD)))
    assert document["created_at"] == "2024-05-01T12:00:00Z"
    assert (document["id"], document["state"]) == (str(UUID(int=1)), "available")


def test_stored_bytes_that_are_not_json_are_shown_as_text() -> None:
    assert JobView.of(msgspec.structs.replace(RECORD, payload=b"{\xff")).payload == "{�"


def test_expiry_and_key_are_shown() -> None:
    view = JobView.of(msgspec.structs.replace(RECORD, expires_at=NOW, unique_key="k"))
    assert (view.expires_at, view.unique_key) == (NOW, "k")


def test_a_view_of_a_rescued_job_names_the_reason() -> None:
    assert JobView.of(RECORD).rescued is None
    rescue = Rescue(reason=RescueReason.STALLED, worker="w", attempt=1, at=NOW)
    assert JobView.of(msgspec.structs.replace(RECORD, rescue=rescue)).rescued == "stalled"


def test_a_hook_receives_the_interrupted_attempt_and_the_new_state_of_the_job() -> None:
    rescue = Rescue(reason=RescueReason.CRASHED, worker="w", attempt=2, at=NOW)
    active = ActiveJob(
        id=RECORD.id,
        token=Token(UUID(int=2), 9),
        lease=UUID(int=3),
        task="analyze",
        state=State.RUNNING,
        attempt=3,
        failures=0,
        crashes=1,
        policy=Policy(),
    )
    starting = RescuedJob.of_claim(Claim(job=active, payload=RECORD.payload, checkpoint=RECORD.checkpoint), rescue)
    expected = {"id": RECORD.id, "task": "analyze", "payload": {"url": "u"}, "checkpoint": {"next": 3}}
    expected |= {"reason": "crashed", "worker": "w", "attempt": 2, "rescued_at": NOW}
    assert msgspec.structs.asdict(starting) == {**expected, "state": "running"}
    ended = RescuedJob.of_record(msgspec.structs.replace(RECORD, state=State.FAILED), rescue)
    assert msgspec.structs.asdict(ended) == {**expected, "state": "failed"}

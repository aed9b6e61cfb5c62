"""The rows of a book as JSON: nothing is lost, nothing is written twice, and what is unknown is refused."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json, structs

from holdfast._core.book.book import Book
from holdfast._core.book.job_row import body_of, body_text
from holdfast._core.book.tables import decode, encode, encode_sayable
from holdfast._core.job import Failure, HeldFor, NewJob, Reason, Rescue, RescueReason, State, Token
from holdfast._core.limits import Scope, ScopeKind
from holdfast._core.member import Input, Member
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord, new_record
from holdfast._core.uniqueness import Uniqueness

NOW = datetime(2026, 11, 27, 3, 4, 5, 678901, UTC)


def job(number: int = 1) -> JobRecord:
    return new_record(NewJob(id=UUID(int=number), payload=b'{"to": "a"}', task="send", policy=Policy(timeout=9.0)), NOW)


def full() -> JobRecord:
    """Return a record in which no field has its default."""
    times = {
        name: NOW + timedelta(seconds=place)
        for place, name in enumerate(
            ("available_at", "claimed_at", "started_at", "finished_at", "last_progress_at", "expires_at", "hook_due_at"), 1
        )
    }
    member = Member(flow=UUID(int=8), node="a", inputs=(Input("x", UUID(int=9), ("y",), is_each=True),), needs=2, is_paused=True)
    return structs.replace(
        job(),
        token=Token(UUID(int=2), 3),
        queue="mail",
        key="k",
        priority=-4,
        state=State.RUNNING,
        attempt=5,
        failures=6,
        crashes=7,
        reason=Reason.STALLED,
        error=Failure("E", "text", "trace"),
        result=b"[1]",
        lease=UUID(int=4),
        worker="w",
        stage="s",
        fraction=0.5,
        message="m",
        checkpoint=b"\xff\x00",
        cancel_requested=True,
        unique_key="u",
        uniqueness=Uniqueness(seconds=60.0, until_started=True, is_freed=True),
        is_stub=True,
        rescue=Rescue(reason=RescueReason.CRASHED, worker="w", attempt=1, at=NOW),
        awaits="signal",
        held_for=HeldFor.PAUSE,
        tags=("t",),
        headers=(("a", "b"),),
        member=member,
        points='[[0.5,0.25,"s"],null]',
        **times,
    )


def test_every_field_of_a_job_is_kept() -> None:
    row = full()
    left_out = {name for name in row.__struct_fields__ if getattr(row, name) == getattr(job(), name)}
    assert left_out == {"id", "task", "payload", "policy", "created_at", "attempts"}
    assert [*decode(encode([("jobs", row.id, row)]))] == [("jobs", row.id, row)]


def test_defaults_are_left_out_and_what_jobs_share_is_written_once() -> None:
    rows = [("jobs", UUID(int=number), job(number)) for number in range(1, 101)]
    data = encode(rows)
    assert json.decode(data)["jobs"][0] == {
        "id": str(UUID(int=1)),
        "at": "2026-11-27T03:04:05.678901Z",
        "p": '{"to": "a"}',
        "t": 0,
        "q": 1,
        "pol": 0,
    }
    assert (data.count(b"send"), data.count(b"timeout")) == (1, 1)
    assert len(data) < 150 * len(rows)
    assert [*decode(data)] == rows


def test_deleted_rows_keep_their_keys() -> None:
    scope = Scope(ScopeKind.QUEUE, "q")
    gone = [
        *[(name, UUID(int=1), None) for name in ("jobs", "marks", "receipts", "leases", "signals", "flows")],
        *[("attempts", (UUID(int=1), Token(None, 2)), None), ("rates", (scope, None), None), ("limits", scope, None)],
        *[("steps", (UUID(int=1), ("a", 1)), None), ("edges", (UUID(int=1), UUID(int=2)), None), ("beats", 7, None)],
    ]
    assert sorted(decode(encode(gone)), key=str) == sorted(gone, key=str)


@given(st.binary())
def test_a_body_of_any_bytes_is_kept(body: bytes) -> None:
    assert body_of(body_text(body)) == body


def test_a_body_of_json_is_read_as_it_is() -> None:
    assert body_text('{"a": "ä"}'.encode()) == '{"a": "ä"}'


def test_a_string_that_utf_8_cannot_say_is_refused_or_replaced() -> None:
    row = structs.replace(job(), error=Failure("E", "\udcff.txt"))
    with pytest.raises(UnicodeEncodeError):
        encode([("jobs", row.id, row)])
    ((_, _, read),) = decode(encode_sayable([("jobs", row.id, row)]))
    assert read == structs.replace(row, error=Failure("E", "?.txt"))


@pytest.mark.parametrize("data", [b'{"unknown": []}', b'{"jobs": [{"id": 1}]}', b"{", b'{"deleted": {"numbers": ["a"]}}'])
def test_what_is_damaged_or_unknown_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Book().load(decode(data))

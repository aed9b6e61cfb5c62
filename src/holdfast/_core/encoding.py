"""Values as the JSON that a SQL store keeps in a column. What was damaged by hand reads as unknown and never raises."""

from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._core.headers import Headers
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Failure, Rescue, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.member import Input, Member, OnFailure
from holdfast._core.schedule import Plan
from holdfast._core.text import json_text
from holdfast._core.timing import LeaseTiming
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness

Value = TypeVar("Value")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN = ProcessIdentity("", 0)


class _Rescue(Struct):
    """A rescue as stored: ``at`` in microseconds since the epoch."""

    reason: RescueReason
    worker: str
    attempt: int
    at: int
    fraction: float | None = None


class _Extra(Struct, omit_defaults=True):
    """What few jobs have, in one column."""

    headers: dict[str, str] = {}
    unique: Uniqueness = UNTIL_FINISHED


class _Input(Struct, array_like=True):
    """A parameter that is the result of another member, as stored."""

    parameter: str
    parent: UUID
    path: tuple[str, ...]
    is_each: bool = False
    is_item: bool = False


_INPUTS = msgspec.json.Decoder(list[_Input])  # made once: every claimed member has some


class _Member(Struct, array_like=True):
    """What a job is in its workflow, as stored."""

    node: str
    join: int | None
    on_failure: OnFailure
    is_gate: int
    inputs: list[_Input] | None
    needs: int
    waits: int
    is_paused: int
    is_suspended: int = 0


def instant(microseconds: int) -> datetime:
    """Return the instant that is this many microseconds after the epoch."""
    return _EPOCH + timedelta(microseconds=microseconds)


def failure_text(failure: Failure | None) -> str | None:
    """Return an exception as JSON; None for none."""
    return None if failure is None else json_text(failure)


def failure_of(text: str | None) -> Failure | None:
    """Return an exception; None if missing or unreadable."""
    return _read(text, Failure)


def rescue_of(text: str | None) -> Rescue | None:
    """Return the last rescue of a job; None if missing or unreadable."""
    rescue = _read(text, _Rescue)
    if rescue is None:
        return None
    at = instant(rescue.at)
    return Rescue(reason=rescue.reason, worker=rescue.worker, attempt=rescue.attempt, at=at, fraction=rescue.fraction)


def extra_text(headers: Headers, uniqueness: Uniqueness = UNTIL_FINISHED) -> str | None:
    """Return what few jobs have as JSON; None for none of it."""
    return json_text(_Extra(dict(headers), uniqueness)) if headers or uniqueness != UNTIL_FINISHED else None


def inputs_text(inputs: tuple[Input, ...]) -> str | None:
    """Return the inputs of a member as JSON; None for none."""
    return json_text([structs.astuple(each) for each in inputs]) if inputs else None


def inputs_of(text: str | None) -> tuple[Input, ...]:
    """Return the inputs of a member; none if missing or unreadable."""
    if text is None:
        return ()
    try:
        return tuple([_input_of(each) for each in _INPUTS.decode(text)])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()


def member_of(flow: UUID, text: str | None) -> Member | None:
    """Return what a job is in its workflow, from a JSON list of its values; None if missing or unreadable."""
    found = _read(text, _Member)
    if found is None:
        return None
    return Member(
        flow=flow,
        node=found.node,
        join=found.join,
        on_failure=found.on_failure,
        is_gate=bool(found.is_gate),
        inputs=tuple([_input_of(each) for each in found.inputs or ()]),
        needs=found.needs,
        waits=found.waits,
        is_paused=bool(found.is_paused),
        is_suspended=bool(found.is_suspended),
    )


def headers_in(text: str | None) -> Headers:
    """Return the headers of a job; none if missing or unreadable."""
    extra = _read(text, _Extra)
    return () if extra is None else tuple(sorted(extra.headers.items()))


def uniqueness_in(text: str | None) -> Uniqueness:
    """Return the terms of a job's unique key; those of most jobs if missing or unreadable."""
    extra = None if text is None else _read(text, _Extra)
    return UNTIL_FINISHED if extra is None else extra.unique


def process_of(text: str | None) -> ProcessIdentity:
    """Return the process that opened a lease; an unknown one if it is unreadable."""
    return _read(text, ProcessIdentity) or _UNKNOWN


def timing_of(text: str | None) -> LeaseTiming:
    """Return a lease's timing; zeros if it is unreadable."""
    return _read(text, LeaseTiming) or LeaseTiming(0.0, 0.0, 0.0)


def end_of(text: str | None, *, is_draining: bool) -> LeaseEnd:
    """Return why a lease ended; expiry if the reason is unreadable."""
    return (_read(text, LeaseEnd) or LeaseEnd(RescueReason.EXPIRED)).with_drain(is_draining=is_draining)


def plan_of(text: str) -> Plan:
    """Return the plan of a schedule; ``ValueError`` if it is unreadable: such a schedule is left alone."""
    return msgspec.json.decode(text, type=Plan)


def names_of(text: str | None) -> tuple[str, ...]:
    """Return names of queues, tasks or tags; none if they are unreadable."""
    return _read(text, tuple[str, ...]) or ()


def _input_of(stored: _Input) -> Input:
    return Input(stored.parameter, stored.parent, stored.path, stored.is_each, stored.is_item)


def _read(text: str | None, kind: type[Value]) -> Value | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

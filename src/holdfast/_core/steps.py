"""Durable steps and signals: their records, their limits, and the decision whether a job's code was changed under its steps."""

from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from holdfast.errors import ConfigurationError

STEP_LIMIT = 64 * 1024
"""The most bytes that one step may return."""
STEPS_LIMIT = 4 * 1024 * 1024
"""The most bytes that all steps of a job may return."""
MOST_STEPS = 1000
SIGNAL_LIMIT = 64 * 1024
"""The most bytes of a signal's value."""
MOST_SIGNALS = 1000
"""The signals that a job has not consumed, beyond which it gets no more. Calls at the same instant may exceed it."""
NAME_LIMIT = 200
FOREVER = 100 * 365.25 * 86400.0
"""The wait of a job that waits for a signal without a timeout, in seconds: the databases compute with no infinite instants."""

StepKey = tuple[str, int]

SLEEP, UNTIL, WAIT, CALL, GATHER = ":sleep", ":until:", ":wait_for:", ":call:", ":gather"
"""What names of steps begin with that belong to ``job.sleep``, ``job.wait_for``, ``job.call`` and ``job.gather``; the names of users' steps
begin with no colon."""


class StepRecord(Struct, frozen=True, kw_only=True):
    """The record of a step. ``nth``: which use of its name it was, from 1. ``place``: its number in the order of calls.

    ``is_sequential``: no other step of the job ran beside it, so the order in which the code calls it is known. ``result``: the JSON that
    it returned; ``None``: a wait whose timeout passed.
    """

    name: str
    nth: int
    place: int
    is_sequential: bool
    result: bytes | None = None

    @property
    def key(self) -> StepKey:
        """What the step is known by in every attempt."""
        return self.name, self.nth


class StepList(Struct, frozen=True):
    """The steps of a job in the order of their places, and the store's time when they were read."""

    records: tuple[StepRecord, ...]
    now: datetime


class SignalTaken(Struct, frozen=True):
    """The answer of a job that asked for a signal. ``value``: ``None`` if there was none. ``is_lost``: the job has another owner."""

    value: bytes | None = None
    is_lost: bool = False


class Signal(Struct, frozen=True):
    """A value for a job that waits for it, or will. ``call`` makes sending it again safe."""

    call: UUID
    name: str
    value: bytes


class SignalAnswer(StrEnum):
    """What became of a signal.

    ACCEPTED: it is kept for the job, or was, if this is a copy of the call. REFUSED: the job has finished. FULL: the job has
    ``MOST_SIGNALS`` that it has not consumed. MISSING: the store has no record of the job.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"
    FULL = "full"
    MISSING = "missing"


def usable(what: str, name: str) -> str:
    """Return a name that a user gave to a step or a signal; ``ConfigurationError`` if it cannot be one."""
    if isinstance(name, str) and 0 < len(name) <= NAME_LIMIT and name.isprintable() and not name.startswith(":"):
        return name
    raise ConfigurationError([f"{what} {name!r}: use 1 to {NAME_LIMIT} printable characters that do not begin with ':'"])


def shown(key: StepKey) -> str:
    """Return a step as people know it.

    >>> shown(("charge", 2)), shown((":wait_for:approved", 1))
    ("'charge' (use 2)", "wait_for('approved') (use 1)")
    """
    name, nth = key
    if name == SLEEP:
        known_as = "sleep"
    elif name.startswith(WAIT):
        known_as = f"wait_for({name.removeprefix(WAIT)!r})"
    elif name.startswith(UNTIL):
        known_as = f"the timeout of wait_for({name.removeprefix(UNTIL)!r})"
    elif name.startswith(CALL):
        known_as = f"call of {name.removeprefix(CALL)!r}"
    elif name == GATHER:
        known_as = "gather"
    else:
        known_as = repr(name)
    return f"{known_as} (use {nth})"


def changed_code(asked: StepKey, records: Iterable[StepRecord], known: Collection[StepKey]) -> str | None:
    """Return how the code was changed, if it was, when a step without a record is called while no other one runs.

    The code of an earlier attempt called its steps in the order of their places. A sequential step that is not among the ``known`` ones,
    for which this attempt has asked, was renamed, moved or removed: to go on could do its work twice.
    """
    missing = [record for record in records if record.is_sequential and record.key not in known]
    if not missing:
        return None
    first = min(missing, key=lambda record: record.place)
    return f"the code asks for step {shown(asked)}, which has no record, before step {shown(first.key)}, which has one"

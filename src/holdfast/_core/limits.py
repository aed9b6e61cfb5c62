"""Limits: how many jobs of the cluster, of a task or of a queue may be active at once or may start in a time, also for each key.

The active row is the slot: a claim counts rows, so that no counter can drift and no slot can leak. A rate is the generic cell rate
algorithm (GCRA; ITU-T I.371): with an interval T between starts, a start is allowed while ``ready_at <= now + (burst - 1) · T``, and
moves ``ready_at`` to ``max(ready_at, now) + T``. So at most ``burst + w / T`` starts fall into any window of ``w`` seconds.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from holdfast._core.durations import seconds
from holdfast.errors import ConfigurationError

UNLIMITED = 2**31 - 1
MOST_HOLDERS = 5
"""The most holders of a limit that are read."""

_RATE = re.compile(r"\s*(\d{1,9})\s*/\s*(\d*\.?\d*)\s*(ms|s|m|h|d)\s*")


class ScopeKind(StrEnum):
    """What a limit counts: all jobs of the cluster, those of a task, or those of a queue."""

    ALL = "all"
    TASK = "task"
    QUEUE = "queue"


class Scope(Struct, frozen=True, order=True):
    """The jobs that a limit counts; ``name``: of the task or queue."""

    kind: ScopeKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else "the cluster"


class Limit(Struct, frozen=True, kw_only=True):
    """How many jobs may be active at once (``concurrency``), and how many may start in a time (``rate``, as in ``"100/m"``).

    ``per_key`` and ``rate_per_key`` are the same for the jobs of each key. ``burst``: how many starts may come at once where none came
    before; 1 spaces them evenly. Raises ``ConfigurationError`` for a value that is not possible.

    >>> Limit(concurrency=10, per_key=2, rate="100/m", burst=20).interval
    600000
    """

    concurrency: int | None = None
    per_key: int | None = None
    rate: str | None = None
    rate_per_key: str | None = None
    burst: int = 1

    def __post_init__(self) -> None:
        if problems := _problems(self):
            raise ConfigurationError(problems)

    @property
    def interval(self) -> int | None:
        """The microseconds between two starts."""
        return _interval(self.rate)

    @property
    def interval_per_key(self) -> int | None:
        """The microseconds between two starts of one key."""
        return _interval(self.rate_per_key)

    @property
    def counts_keys(self) -> bool:
        """Whether the jobs of each key are counted."""
        return self.per_key is not None or self.rate_per_key is not None


class Holder(Struct, frozen=True):
    """An active job that a limit counts. ``held``: the seconds since it was claimed."""

    job: UUID
    worker: str
    held: float


class LimitUse(Struct, frozen=True, kw_only=True):
    """A limit and how much of it is used. ``wait``: the seconds until its rate allows the next start, 0 if it does now.

    ``holders``: the active jobs that were claimed first, ``MOST_HOLDERS`` at most. ``source``: ``code`` or ``operator``.
    """

    scope: Scope
    limit: Limit
    active: int = 0
    wait: float = 0.0
    holders: tuple[Holder, ...] = ()
    source: str = "operator"


class Seat(Struct, frozen=True):
    """A job that may be claimed: what its limits count it by."""

    task: str
    queue: str
    key: str


Rooms = Callable[[Scope, str | None], int]
"""Returns how many more jobs of a scope may be claimed, or with a key, of this key; ``UNLIMITED`` without a limit."""


def scopes_of(task: str, queue: str) -> tuple[Scope, Scope, Scope]:
    """Return the scopes whose limits count a job."""
    return Scope(ScopeKind.ALL), Scope(ScopeKind.TASK, task), Scope(ScopeKind.QUEUE, queue)


def room_for(seat: Seat, rooms: Rooms) -> int:
    """Return how many jobs of this task, queue and key all limits together allow."""
    return min(rooms(scope, key) for scope in scopes_of(seat.task, seat.queue) for key in (None, seat.key))


def seated(seats: Sequence[Seat], rooms: Rooms) -> list[bool]:
    """Return which of these jobs may be claimed: each one takes a seat in all its scopes, and needs room for it in each.

    The first one always may, if there is room for it.
    """
    taken, answer = Counter[tuple[Scope, str | None]](), list[bool]()
    for seat in seats:
        wanted = [(scope, key) for scope in scopes_of(seat.task, seat.queue) for key in (None, seat.key)]
        taken.update(wanted)
        answer.append(all(taken[each] <= rooms(*each) for each in wanted))
    return answer


def slots_left(most: int | None, active: int) -> int:
    """Return how many more jobs may be active."""
    return UNLIMITED if most is None else max(0, most - active)


def starts_left(interval: int | None, burst: int, ready_at: int | None, now: int) -> int:
    """Return how many jobs a rate allows to start now. Instants and the interval are microseconds."""
    if interval is None:
        return UNLIMITED
    behind = _ready(interval, burst, ready_at, now) - now
    return max(0, burst - -(-behind // interval))


def wait_for_start(interval: int | None, burst: int, ready_at: int | None, now: int) -> int:
    """Return the microseconds until a rate allows the next start, 0 if it does now."""
    return 0 if interval is None else max(0, _ready(interval, burst, ready_at, now) - now - (burst - 1) * interval)


def ready_after(interval: int, burst: int, ready_at: int | None, now: int, starts: int) -> int:
    """Return ``ready_at`` after these starts."""
    return _ready(interval, burst, ready_at, now) + starts * interval


def _ready(interval: int, burst: int, ready_at: int | None, now: int) -> int:
    """Return from when on the rate is unused, not before now. A clock that was set back must not stop starts for longer than a burst."""
    return now if ready_at is None else min(max(ready_at, now), now + burst * interval)


def _interval(rate: str | None) -> int | None:
    if rate is None:
        return None
    found = _RATE.fullmatch(rate)
    assert found is not None
    return round(seconds(f"{found[2] or 1}{found[3]}") * 1e6 / int(found[1]))


def _problems(limit: Limit) -> list[str]:
    counts = [("concurrency", limit.concurrency, 0), ("per_key", limit.per_key, 1), ("burst", limit.burst, 1)]
    return [
        *_wrong_counts(counts),
        *(
            f"{name}={rate!r} is not a rate: use a number and a time such as '100/m', '5/s' or '20/10s'"
            for name, rate in (("rate", limit.rate), ("rate_per_key", limit.rate_per_key))
            if rate is not None and not _is_rate(rate)
        ),
    ]


def _wrong_counts(counts: Iterable[tuple[str, int | None, int]]) -> Iterable[str]:
    for name, number, least in counts:
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not least <= number < UNLIMITED):
            yield f"{name}={number!r} is not possible: use an integer from {least} on"


def _is_rate(rate: object) -> bool:
    found = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    return found is not None and int(found[1]) > 0 and found[2] != "." and _interval(str(rate)) not in (None, 0)

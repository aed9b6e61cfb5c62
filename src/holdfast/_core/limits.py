"""Limits: how many jobs of the cluster, of a task or of a queue may be active at once or may start in a time, also for each key.

The active row is the slot: a claim counts rows, so that no counter can drift and no slot can leak. A rate is the generic cell rate
algorithm (GCRA; ITU-T I.371): with an interval T between starts, a start is allowed while ``ready_at <= now + (burst - 1) · T``, and
moves ``ready_at`` to ``max(ready_at, now) + T``. So at most ``burst + w / T`` starts fall into any window of ``w`` seconds.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.durations import seconds
from holdfast._core.origin import Origin
from holdfast._core.plain_view import PlainView
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


class KeyUse(Struct, frozen=True):
    """How much of a limit the jobs of one key use."""

    key: str
    active: int = 0
    wait: float = 0.0
    holders: tuple[Holder, ...] = ()


class LimitView(PlainView, frozen=True, kw_only=True):
    """A limit and how much of it is used. ``wait``: the seconds until its rate allows the next start, 0 if it does now.

    ``holders``: the active jobs that were claimed first, ``MOST_HOLDERS`` at most. ``of_key``: the same of the key that was asked for.
    """

    scope: Scope
    limit: Limit
    active: int = 0
    wait: float = 0.0
    holders: tuple[Holder, ...] = ()
    of_key: "KeyUse | None" = None
    origin: Origin = Origin()


class CountedBy(Struct, frozen=True):
    """What the limits count a job by."""

    task: str
    queue: str
    key: str

    @property
    def scopes(self) -> tuple[Scope, Scope, Scope]:
        """The scopes whose limits count it."""
        return Scope(ScopeKind.ALL), Scope(ScopeKind.TASK, self.task), Scope(ScopeKind.QUEUE, self.queue)


class Use(Struct, frozen=True, kw_only=True):
    """How much of a limit is used at an instant. ``active`` and ``ready_at`` have all jobs under None, and those of each key under it.

    Instants are microseconds, as everywhere in this module.
    """

    limit: Limit
    now: int
    active: Mapping[str | None, int] = {}
    ready_at: Mapping[str | None, int] = {}

    def room(self, key: str | None) -> int:
        """Return how many more jobs of this key may be claimed now; None: of all."""
        most, interval = self._most(key)
        slots = UNLIMITED if most is None else max(0, most - self.active.get(key, 0))
        if interval is None:
            return slots
        behind = self._ready_at(key, interval) - self.now
        return min(slots, max(0, self.limit.burst - -(-behind // interval)))

    def room_of_new_key(self) -> int:
        """Return how many jobs may be claimed now of a key that uses nothing of the limit."""
        slots = UNLIMITED if self.limit.per_key is None else self.limit.per_key
        return slots if self.limit.interval_per_key is None else min(slots, self.limit.burst)

    def wait(self, key: str | None) -> int | None:
        """Return the microseconds until the rate allows a start, 0 if it does now; None while all slots are taken."""
        most, interval = self._most(key)
        if most is not None and self.active.get(key, 0) >= most:
            return None
        return 0 if interval is None else max(0, self._ready_at(key, interval) - self.now - (self.limit.burst - 1) * interval)

    def ready_after(self, key: str | None, starts: int) -> int | None:
        """Return ``ready_at`` after these starts; None without a rate."""
        _, interval = self._most(key)
        return None if interval is None else self._ready_at(key, interval) + starts * interval

    def _most(self, key: str | None) -> tuple[int | None, int | None]:
        limit = self.limit
        return (limit.concurrency, limit.interval) if key is None else (limit.per_key, limit.interval_per_key)

    def _ready_at(self, key: str | None, interval: int) -> int:
        """Return from when on the rate is unused, not before now.

        Starts by this clock make it no later than a burst from now. A later time is from before the clock was set back, perhaps by hours:
        it counts as all of the burst used but one start, so that one job may start now and the next ones at the rate.
        """
        ready, burst = max(self.ready_at.get(key, self.now), self.now), self.limit.burst
        return ready if ready <= self.now + burst * interval else self.now + (burst - 1) * interval


Uses = Mapping[Scope, Use]
Counted = tuple[Scope, str | None]


def view_of(scope: Scope, use: Use, origin: Origin, held: Sequence[tuple[str, Holder]], key: str | None) -> LimitView:
    """Return a limit as read. ``held``: the active jobs that it counts, with their keys, the first claimed first."""
    wait_of = structs.replace(use, active={}).wait
    of_key = [holder for each, holder in held if each == key]
    return LimitView(
        scope=scope,
        limit=use.limit,
        active=len(held),
        wait=(wait_of(None) or 0) / 1e6,
        holders=tuple(holder for _, holder in held[:MOST_HOLDERS]),
        of_key=None if key is None else KeyUse(key, len(of_key), (wait_of(key) or 0) / 1e6, tuple(of_key[:MOST_HOLDERS])),
        origin=origin,
    )


def is_limited(seat: CountedBy, uses: Iterable[Scope]) -> bool:
    """Return whether a limit counts this job."""
    known = uses if isinstance(uses, Mapping) else set(uses)
    return any(scope in known for scope in seat.scopes)


def room_for(seat: CountedBy, uses: Uses) -> int:
    """Return how many jobs of this task, queue and key all limits together allow."""
    return min((uses[scope].room(key) for scope, key in _counted(seat, uses)), default=UNLIMITED)


def wait_for(seat: CountedBy, uses: Uses) -> int | None:
    """Return the microseconds until the rates allow such a job to start, 0 if they do now; None while a limit's slots are taken."""
    waits = [uses[scope].wait(key) for scope, key in _counted(seat, uses)]
    known = [wait for wait in waits if wait is not None]
    return None if len(known) < len(waits) else max(known, default=0)


def seated(seats: Sequence[CountedBy], uses: Uses) -> list[bool]:
    """Return which of these jobs may be claimed: each takes a slot in all its scopes, and needs a free one in each.

    The first one may, if all its limits allow one job.
    """
    known, left, answer = dict[CountedBy, list[Counted]](), dict[Counted, int](), list[bool]()
    for seat in seats:
        if (wanted := known.get(seat)) is None:
            rooms = {(scope, key): uses[scope].room(key) for scope, key in _counted(seat, uses)}
            wanted = known[seat] = [each for each, room in rooms.items() if room < len(seats)]
            left = rooms | left
        for each in wanted:
            left[each] -= 1
        answer.append(all(left[each] >= 0 for each in wanted))
    return answer


def ready_after(seats: Sequence[CountedBy], uses: Uses) -> dict[Counted, int]:
    """Return the new ``ready_at`` of each rate that counts these jobs, which start now."""
    starts = Counter[Counted]()
    for seat, number in Counter(seats).items():
        starts.update(dict.fromkeys(_counted(seat, uses), number))
    found = {(scope, key): uses[scope].ready_after(key, number) for (scope, key), number in starts.items()}
    return {each: ready_at for each, ready_at in found.items() if ready_at is not None}


def _counted(seat: CountedBy, uses: Uses) -> list[Counted]:
    return [(scope, key) for scope in seat.scopes if scope in uses for key in (None, seat.key)]


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


def _wrong_counts(counts: Iterable[tuple[str, int | None, int]]) -> Iterator[str]:
    for name, number, least in counts:
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not least <= number < UNLIMITED):
            yield f"{name}={number!r} is not possible: use an integer from {least} on"


def _is_rate(rate: object) -> bool:
    found = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    try:
        return found is not None and int(found[1]) > 0 and _interval(str(rate)) not in (None, 0)
    except ValueError:  # its time is not a duration
        return False

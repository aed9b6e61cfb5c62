"""Tallies: counts and times of what happened, as plain numbers that a process adds up and sends on.

They cost so little that a worker may count every job: times are kept in lists, and put into buckets when the counts are taken. So the
cost of a job does not depend on how many jobs of its queue ended with it: with 1,000 queues most jobs are the only one of theirs.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import NewJob
from holdfast._core.metrics import COUNTED, MOST_VALUES, OTHER, SECONDS

Series = tuple[str, ...]
"""A metric's name, and the values of its labels."""
Ending = tuple[str, str, str, str, str]
"""How attempts ended: their queue, task and outcome, and the final state and reason of their jobs, or ""."""
MOST_TIMES = 4000
"""The waits, and the ended attempts, that are kept before they are put into buckets, so that a process whose counts are not taken does
not grow."""
FEW = 8
"""The number of values up to which they are cheaper to count one by one."""
UNCOUNTED = frozenset(("job.enqueued", "job.claimed", "job.started"))
"""Events of every job, which are not even made without a subscriber: other metrics count what they report."""
FAILURES = frozenset(("store.unavailable", "store.refused", "store.busy"))
FIELD_OF = {"job.lost": ("writes_refused", "task"), "lease.ended": ("leases_ended", "reason")}


class Distribution(Struct, gc=False):
    """How many values fell into each bucket, the last one beyond all bounds, and their sum. ``filled`` has the buckets that are not empty.

    The times of one queue fill few of the 17 buckets. Without the empty ones it takes a third of the time to make, add and send them.
    """

    filled: dict[int, int]
    total: float = 0.0

    @classmethod
    def empty(cls) -> "Distribution":
        """Return one without values; all metrics have as many buckets."""
        return cls({})

    @property
    def counts(self) -> list[int]:
        """The number of each bucket."""
        return [self.filled.get(bucket, 0) for bucket in range(len(SECONDS) + 1)]

    def observe(self, values: list[float], bounds: tuple[float, ...]) -> None:
        """Count each value in the bucket of the smallest bound that it does not pass. Many at once are cheap, and are sorted here."""
        self.total += max(0.0, sum(values))  # a clock that is behind must not let the sum of a counter shrink
        filled = self.filled
        if len(values) <= FEW:
            for value in values:
                bucket = bisect_left(bounds, value)
                filled[bucket] = filled.get(bucket, 0) + 1
            return
        values.sort()
        before = 0
        for bucket, bound in enumerate(bounds):
            upto = bisect_right(values, bound)
            if upto > before:
                filled[bucket] = filled.get(bucket, 0) + upto - before
            before = upto
            if before == len(values):
                return
        filled[len(bounds)] = filled.get(len(bounds), 0) + len(values) - before

    def add(self, other: "Distribution") -> None:
        """Add the values of another one."""
        filled = self.filled
        for bucket, number in other.filled.items():
            filled[bucket] = filled.get(bucket, 0) + number
        self.total += other.total

    def copy(self) -> "Distribution":
        """Return one with the same values, which goes on separately."""
        return Distribution(self.filled.copy(), self.total)


class TallyDelta(Struct, frozen=True):
    """What was counted since the last one was taken."""

    counts: tuple[tuple[Series, int], ...]
    spreads: tuple[tuple[Series, Distribution], ...]


class Ended(Struct, gc=False):
    """Attempts that ended in one way: how many, for how long the code of each ran, if it ran, and how long ago its job was enqueued."""

    number: int = 0
    run: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


class Tallies:
    """Counts, until they are taken. ``lock``: the threads of a process share one."""

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self._lock = lock
        self._counts: dict[Series, int] = {}
        self._spreads: dict[Series, Distribution] = {}
        self._ended: dict[Ending, Ended] = {}
        self._ended_number = 0
        self._waits = deque[tuple[str, str, float]]()
        self.waited = self._waits.append
        """Count the queue and task of a job, and for how long it had been due when its code began. A deque needs no lock."""
        self._own: TallyReader | None = None
        self._readers = list[TallyReader]()

    def count(self, metric: str, *labels: str, by: int = 1) -> None:
        """Count something that happened."""
        with self._lock:
            self._count((metric, *labels), by)

    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Count a time or a size."""
        with self._lock:
            self._spread((metric, *labels)).observe([value], COUNTED[metric].bounds)

    def enqueued(self, jobs: Iterable[NewJob]) -> None:
        """Count jobs that are in the store now."""
        with self._lock:
            for job in jobs:
                self._count(("jobs_enqueued", job.queue, job.task), 1)
                self._spread(("payload_bytes", job.task)).observe([len(job.payload)], COUNTED["payload_bytes"].bounds)

    def ended(self, ending: Ending, jobs: Sequence[UUID], seconds: Iterable[float | None], now: float) -> None:
        """Count attempts whose end is in the store ``now``. ``seconds``: how long the code of each ran, if it ran."""
        self.all_ended({ending: Ended(len(jobs), [each for each in seconds if each is not None], ages_of(jobs, now))})

    def all_ended(self, found: Mapping[Ending, Ended]) -> None:
        """Count attempts whose end is in the store. The caller does not use the lists any more."""
        with self._lock:
            for ending, new in found.items():
                self._ended_number += new.number
                if (known := self._ended.get(ending)) is None:
                    self._ended[ending] = new
                else:
                    known.number += new.number
                    known.run += new.run
                    known.whole += new.whole
            if self._ended_number >= MOST_TIMES:
                self._sort_ended()
            if len(self._waits) >= MOST_TIMES:
                self._sort_waits()

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Count an event, and what it reports about the store, a lease or a former owner."""
        if name in UNCOUNTED:
            return
        self.count("events", name)
        if name in FAILURES:
            self.count("store_failures", str(fields.get("operation")))
        elif (found := FIELD_OF.get(name)) is not None:
            metric, field = found
            self.count(metric, str(fields.get(field)))

    def add(self, delta: TallyDelta) -> None:
        """Add what another process counted."""
        with self._lock:
            for series, number in delta.counts:
                self._count(series, number)
            for series, spread in delta.spreads:
                self._spread(series).add(spread)

    def reader(self) -> "TallyReader":
        """Return one more reader, which gets all that is counted from now on: taking it takes nothing from others.

        The first one also gets what was counted before it.
        """
        with self._lock:
            return self._new_reader()

    def take(self, reader: "TallyReader | None" = None) -> TallyDelta | None:
        """Return what was counted since the last call, and forget it; None if there is nothing."""
        with self._lock:
            if reader is None and (reader := self._own) is None:
                reader = self._own = self._new_reader()
            self._collect()
            return reader.pop()

    def _new_reader(self) -> "TallyReader":
        self._collect()
        self._readers.append(found := TallyReader(self))
        return found

    def _collect(self) -> None:
        """Give all readers what was counted since the last time."""
        if not self._readers:
            return
        self._sort_ended()
        self._sort_waits()
        if self._counts or self._spreads:
            first, *others = self._readers
            for reader in others:
                reader.add(self._counts, self._spreads)
            first.adopt(self._counts, self._spreads)
            self._counts, self._spreads = {}, {}

    def _sort_waits(self) -> None:
        sorted_waits = defaultdict[tuple[str, str], list[float]](list)
        for _ in range(len(self._waits)):
            queue, task, seconds = self._waits.popleft()
            sorted_waits[queue, task].append(seconds)
        for (queue, task), waits in sorted_waits.items():
            self._spread(("job_wait_seconds", queue, task)).observe(waits, SECONDS)

    def _sort_ended(self) -> None:
        ended, self._ended, self._ended_number = self._ended, {}, 0
        for (queue, task, outcome, state, reason), each in ended.items():
            self._count(("attempts", queue, task, outcome), each.number)
            self._spread(("attempt_duration_seconds", queue, task, outcome)).observe(each.run, SECONDS)
            if state:
                self._count(("jobs_finished", queue, task, state, reason), each.number)
                self._spread(("job_total_seconds", queue, task)).observe(each.whole, SECONDS)

    def _count(self, series: Series, by: int) -> None:
        self._counts[series] = self._counts.get(series, 0) + by

    def _spread(self, series: Series) -> Distribution:
        found = self._spreads.get(series)
        if found is None:
            found = self._spreads[series] = Distribution.empty()
        return found


class TallyReader:
    """What was counted since this reader last took it. It does not grow with what is counted, only with the number of series."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._counts: dict[Series, int] = {}
        self._spreads: dict[Series, Distribution] = {}

    def take(self) -> TallyDelta | None:
        """Return what was counted since the last call, and forget it; None if there is nothing."""
        return self._tallies.take(self)

    def adopt(self, counts: dict[Series, int], spreads: dict[Series, Distribution]) -> None:
        """Add what was counted, which nothing else uses any more. A worker's only reader copies none of its thousands of series."""
        if self._counts or self._spreads:
            self.add(counts, spreads)
        else:
            self._counts, self._spreads = counts, spreads

    def add(self, counts: Mapping[Series, int], spreads: Mapping[Series, Distribution]) -> None:
        """Add what was counted."""
        for series, number in counts.items():
            self._counts[series] = self._counts.get(series, 0) + number
        for series, spread in spreads.items():
            if (known := self._spreads.get(series)) is None:
                self._spreads[series] = spread.copy()
            else:
                known.add(spread)

    def pop(self) -> TallyDelta | None:
        """Return what was added, and forget it."""
        counts, self._counts = self._counts, {}
        spreads, self._spreads = self._spreads, {}
        return TallyDelta(tuple(counts.items()), tuple(spreads.items())) if counts or spreads else None


class LabelValues:
    """The values that each label may show: the first 200, then ``other``; a value that is shown stays."""

    def __init__(self) -> None:
        self._shown: dict[str, set[str]] = {}

    def of(self, label: str, value: str) -> str:
        """Return the value, or ``other``.

        >>> LabelValues().of("task", "mail")
        'mail'
        """
        shown = self._shown.setdefault(label, set())
        if value in shown or len(shown) < MOST_VALUES:
            shown.add(value)
            return value
        return OTHER


class Totals:
    """What was counted since the process began, with few values of each label."""

    def __init__(self) -> None:
        self.values = LabelValues()
        self.counts: dict[Series, int] = {}
        self.spreads: dict[Series, Distribution] = {}

    def add(self, delta: TallyDelta | None) -> None:
        """Add what was taken; series whose labels are not shown are added up."""
        if delta is None:
            return
        for series, number in delta.counts:
            shown = self._shown(series)
            self.counts[shown] = self.counts.get(shown, 0) + number
        for series, spread in delta.spreads:
            self.spreads.setdefault(self._shown(series), Distribution.empty()).add(spread)

    def _shown(self, series: Series) -> Series:
        metric, *labels = series
        names = COUNTED[metric].labels
        return (metric, *(self.values.of(name, value) for name, value in zip(names, labels, strict=True)))


def ages_of(jobs: Iterable[UUID], now: float) -> list[float]:
    """Return the seconds since the ids of these jobs were made; ids that do not have a time are left out."""
    return [age for job in jobs if (age := age_of(job, now)) is not None]


def age_of(job: UUID, now: float) -> float | None:
    """Return the seconds since the id of a job was made, by the clock of the caller that made it.

    ``None`` for an id that does not have a time: those of schedules are computed from the tick.

    >>> round(age_of(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), 1688096060.0), 3), age_of(UUID(int=1), 0.0)
    (1.482, None)
    """
    head = job.int >> 76
    return now - (head >> 4) * 0.001 if head & 0xF == 7 else None

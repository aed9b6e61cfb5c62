"""The history of the last day: what each worker did in each minute, and how minutes add up to the steps of a chart."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.metrics import OTHER, SECONDS

HISTORY_RETENTION: Final = 86_400.0
"""Seconds for which minutes are kept."""
MINUTE: Final = 60.0
MOST_STEPS: Final = 1_440
"""The steps of one answer: the minutes of a day."""
MOST_MINUTES: Final = 20_000
"""The rows that one answer is made from; the newest ones, if there are more."""
MOST_DELETED: Final = 1_000
"""The old rows that one write deletes."""
MOST_TASKS: Final = 200
"""The tasks of one row; all further ones are added up as ``other``."""
COMPLETED: Final = "completed"
FAILED: Final = ("failed", "crashed", "stalled", "timed_out")
"""The outcomes of attempts that failed."""
_BUCKETS: Final = len(SECONDS) + 1
By = Literal["queue", "task"]


class TaskMinute(Struct, frozen=True, array_like=True, gc=False):
    """The attempts of one task in a queue. ``wait`` and ``run``: how many fell into each of the buckets of times, without those that are
    empty at the end. ``retried``: the failed ones that did not finish their job."""

    queue: str
    task: str
    outcomes: dict[str, int] = {}
    wait: tuple[int, ...] = ()
    run: tuple[int, ...] = ()
    rescued: int = 0
    retried: int = 0


class MinuteNote(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one worker did in a minute, or in the part of one that is ``seconds`` long. ``None``: its supervisor did not know.

    ``in_use``: the slots whose code ran, on the average. ``memory``: bytes. ``loop_lag``: the longest one, in seconds.
    """

    id: UUID
    worker: str
    seconds: float
    slots: int | None = None
    in_use: float | None = None
    memory: int | None = None
    loop_lag: float | None = None
    tasks: tuple[TaskMinute, ...] = ()


class Minute(Struct, frozen=True, gc=False):
    """A row of the history. ``at``: the end of its minute, on the store's clock."""

    at: datetime
    note: MinuteNote


class HistoryStep(Struct, frozen=True, kw_only=True):
    """What happened from ``at`` on. ``ended``: attempts per second, by outcome. ``started``: attempts per second. ``retried``: failed
    attempts per second that did not finish their job. ``rescued``: how many jobs were taken from workers.

    Times are in seconds, and ``None`` where nothing ended or started; they are read off buckets, so they are estimates. ``slots`` and
    ``in_use`` are averages over all workers.
    """

    at: datetime
    ended: dict[str, float] = {}
    started: float = 0.0
    retried: float = 0.0
    rescued: int = 0
    wait_p50: float | None = None
    wait_p99: float | None = None
    run_p50: float | None = None
    run_p99: float | None = None
    slots: float = 0.0
    in_use: float = 0.0

    @property
    def rate(self) -> float:
        """Attempts that ended per second."""
        return sum(self.ended.values())


class History(Struct, frozen=True, kw_only=True):
    """Steps of equal length, oldest first, and the ``total`` of all. ``groups``: those of each queue or task, if they were asked for.

    ``totals``: of
    each of them. ``looked_back_to``: before it there were more rows than one answer is made from; ``None``: all were read.
    """

    since: datetime = field(name="from")
    until: datetime = field(name="to")
    step: float
    steps: tuple[HistoryStep, ...]
    total: HistoryStep
    groups: dict[str, tuple[HistoryStep, ...]] = {}
    totals: dict[str, HistoryStep] = {}
    looked_back_to: datetime | None = None


class _Sum(Struct):
    """What was counted in one step, so far."""

    outcomes: dict[str, int] = field(default_factory=dict)
    wait: list[int] = field(default_factory=lambda: [0] * _BUCKETS)
    run: list[int] = field(default_factory=lambda: [0] * _BUCKETS)
    rescued: int = 0
    retried: int = 0
    slot_seconds: float = 0.0
    used_seconds: float = 0.0

    def add(self, task: TaskMinute) -> None:
        for outcome, number in task.outcomes.items():
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + number
        for mine, more in ((self.wait, task.wait), (self.run, task.run)):
            for bucket, number in enumerate(more[:_BUCKETS]):
                if number:
                    mine[bucket] += number
        self.rescued += task.rescued
        self.retried += task.retried

    def join(self, other: "_Sum") -> "_Sum":
        self.add(TaskMinute("", "", other.outcomes, tuple(other.wait), tuple(other.run), other.rescued, other.retried))
        self.slot_seconds += other.slot_seconds
        self.used_seconds += other.used_seconds
        return self

    def step(self, at: datetime, seconds: float) -> HistoryStep:
        return HistoryStep(
            at=at,
            ended={outcome: number / seconds for outcome, number in sorted(self.outcomes.items())},
            started=sum(self.wait) / seconds,
            retried=self.retried / seconds,
            rescued=self.rescued,
            wait_p50=quantile(self.wait, 0.5),
            wait_p99=quantile(self.wait, 0.99),
            run_p50=quantile(self.run, 0.5),
            run_p99=quantile(self.run, 0.99),
            slots=self.slot_seconds / seconds,
            in_use=self.used_seconds / seconds,
        )


def folded(
    minutes: Sequence[Minute],
    since: datetime,
    until: datetime,
    step: float,
    *,
    queue: str | None = None,
    task: str | None = None,
    by: By | None = None,
    most: int = MOST_MINUTES,
) -> History:
    """Add minutes, newest first, up to steps; only those of a queue or a task, if one is named. ``by``: also for each of these.

    A minute belongs to the step in which its middle lies. ``most``: that many minutes were asked for, so there may be older ones.
    """
    length = max(0, min(MOST_STEPS, round((until - since).total_seconds() / step)))
    sums, groups = [_Sum() for _ in range(length)], dict[str, list[_Sum]]()
    for minute in minutes:
        note = minute.note
        place = int((minute.at - timedelta(seconds=note.seconds / 2) - since).total_seconds() // step)
        if not 0 <= place < length:
            continue
        sums[place].slot_seconds += (note.slots or 0) * note.seconds
        sums[place].used_seconds += (note.in_use or 0.0) * note.seconds
        for each in note.tasks:
            if queue not in (None, each.queue) or task not in (None, each.task):
                continue
            sums[place].add(each)
            if by is not None:
                name = each.queue if by == "queue" else each.task
                if name not in groups:
                    groups[name] = [_Sum() for _ in range(length)]
                groups[name][place].add(each)
    return History(
        since=since,
        until=until,
        step=step,
        steps=_steps(sums, since, step),
        total=_total(sums, since, step),
        groups={name: _steps(found, since, step) for name, found in sorted(groups.items())},
        totals={name: _total(found, since, step) for name, found in groups.items()},
        looked_back_to=minutes[-1].at if len(minutes) >= most else None,
    )


def _steps(sums: Iterable[_Sum], since: datetime, step: float) -> tuple[HistoryStep, ...]:
    return tuple(each.step(since + timedelta(seconds=step * place), step) for place, each in enumerate(sums))


def _total(sums: Sequence[_Sum], since: datetime, step: float) -> HistoryStep:
    return reduce(_Sum.join, sums, _Sum()).step(since, step * max(1, len(sums)))


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the time that this share of the values does not exceed, by the bucket in which it lies; ``None`` without values.

    >>> quantile([0, 0, 3, 1], 0.5), quantile([], 0.5)
    (0.02, None)
    """
    total = sum(counts)
    if not total:
        return None
    wanted, before = share * total, 0
    for bucket, number in enumerate(counts):
        if number and before + number >= wanted:
            if bucket >= len(SECONDS):
                break
            low = SECONDS[bucket - 1] if bucket else 0.0
            return low + (SECONDS[bucket] - low) * (wanted - before) / number
        before += number
    return SECONDS[-1]


def aligned(at: datetime, step: float) -> datetime:
    """Return the last moment up to ``at`` at which a step begins; steps are counted from midnight, UTC.

    >>> aligned(datetime(2026, 11, 28, 14, 5, 52, tzinfo=UTC), 60.0).time()
    datetime.time(14, 5)
    """
    midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(seconds=(at - midnight).total_seconds() // step * step)


def trimmed(counts: Sequence[int]) -> tuple[int, ...]:
    """Return counts without the zeros at their end.

    >>> trimmed([0, 2, 0, 0])
    (0, 2)
    """
    end = len(counts)
    while end and not counts[end - 1]:
        end -= 1
    return tuple(counts[:end])


def bounded(tasks: Mapping[tuple[str, str], TaskMinute]) -> tuple[TaskMinute, ...]:
    """Return the counts of a row: the tasks with most attempts, and all others as one in each queue."""
    busiest = sorted(tasks.values(), key=lambda each: (-sum(each.outcomes.values()), each.queue, each.task))
    rest = dict[str, _Sum]()
    for each in busiest[MOST_TASKS:]:
        rest.setdefault(each.queue, _Sum()).add(each)
    others = (
        TaskMinute(queue, OTHER, each.outcomes, trimmed(each.wait), trimmed(each.run), each.rescued, each.retried)
        for queue, each in rest.items()
    )
    return (*busiest[:MOST_TASKS], *others)

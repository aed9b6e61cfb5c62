"""What the rules of lanes know at an instant: waiting jobs, active rows by scope, limits and the starts of their rates."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import PLACE_OF, Place, State
from holdfast._core.lanes import LANES, weight_of
from holdfast._core.limits import CountedBy, Limit, Scope
from holdfast._core.requests import ClaimKind, IsolatedJobs
from proof.checker.history import JobRow
from proof.checker.lane_rows import ClaimRow, QueueRow

Counted = tuple[Scope, str | None]
Lane = tuple[int, str, str]
"""Priority, queue and key."""


class Waiting(Struct, frozen=True):
    """A job that waits; instants are microseconds of the store's clock."""

    row: JobRow
    lane: Lane
    scopes: tuple[Scope, ...]
    due_at: int
    expires_at: int | None


class Rates:
    """When the rate of each scope and key is unused again, by the rule of ``_core/limits``; microseconds of the store's clock."""

    def __init__(self) -> None:
        self._ready_at: dict[Counted, int] = {}

    def is_allowed(self, counted: Counted, limit: Limit, now: int) -> bool:
        """Return whether one more job may start now."""
        interval = _interval(counted, limit)
        return interval is None or self._ready(counted, limit, interval, now) <= now + (limit.burst - 1) * interval

    def start(self, counted: Counted, limit: Limit, now: int) -> None:
        """Count a start of a job, of its key or of all."""
        interval = _interval(counted, limit)
        if interval is not None:
            self._ready_at[counted] = self._ready(counted, limit, interval, now) + interval

    def forget(self, scope: Scope) -> None:
        """Forget all starts of a scope."""
        self._ready_at = {counted: ready_at for counted, ready_at in self._ready_at.items() if counted[0] != scope}

    def forget_unused(self, until: int) -> None:
        """Forget the rates that were unused at that time: a store may have pruned them."""
        self._ready_at = {counted: ready_at for counted, ready_at in self._ready_at.items() if ready_at > until}

    def forget_all(self) -> None:
        """Forget all starts, as a store that fails over may."""
        self._ready_at.clear()

    def _ready(self, counted: Counted, limit: Limit, interval: int, now: int) -> int:
        ready = max(self._ready_at.get(counted, now), now)
        # A later time than a burst from now is from before the clock was set back: one job may start at once.
        return ready if ready <= now + limit.burst * interval else now + (limit.burst - 1) * interval


class LaneState:
    """The rows of a store by lane and scope. ``rates``: all starts; ``has_lost_rates``: a fail-over may have changed them."""

    def __init__(self) -> None:
        self.rows: dict[UUID, JobRow] = {}
        self.waiting: dict[UUID, Waiting] = {}
        self.active: Counter[Counted] = Counter()
        self.limits: dict[Scope, Limit] = {}
        self.settings: dict[str, QueueRow] = {}
        self.paused: set[str] = set()
        self.rates = Rates()
        self.has_lost_rates = False

    def see(self, job: UUID, after: JobRow | None) -> None:
        """Take over the new row of a job."""
        self._count(self.rows.pop(job, None), -1)
        self.waiting.pop(job, None)
        if after is None or after.is_finished:
            return
        self.rows[job] = after
        self._count(after, +1)
        if after.state is State.AVAILABLE:
            self.waiting[job] = _waiting(after)

    def full(self, row: JobRow) -> Iterator[tuple[Scope, str | None, int, int]]:
        """Return each limit with more active rows than it allows: its scope, the key that it counts, the rows, and the most of them."""
        for scope, key, limit in self.limits_of(row):
            most, active = limit.concurrency if key is None else limit.per_key, self.active[scope, key]
            if most is not None and active > most:
                yield scope, key, active, most

    def limits_of(self, row: JobRow) -> list[tuple[Scope, str | None, Limit]]:
        """Return the limits that count a job: each for all jobs, and for those of its key."""
        return [(scope, key, self.limits[scope]) for scope in scopes_of(row) if scope in self.limits for key in (None, row.lane)]

    def claimable(self, claim: ClaimRow, *, kind: ClaimKind | None = None) -> Iterator[tuple[UUID, Waiting]]:
        """Return the jobs that such a claim may take at its time; ``kind``: if it were of that kind."""
        is_limited, now = (kind or claim.kind) is ClaimKind.LIMITED, claim.at
        for job, waiting in self.waiting.items():
            row = waiting.row
            if waiting.due_at > now or row.task not in claim.tasks or row.queue in self.paused:
                continue
            is_wanted = claim.isolated is IsolatedJobs.INCLUDE or row.is_last_try is (claim.isolated is IsolatedJobs.ONLY)
            is_wanted = is_wanted and (claim.queues is None or row.queue in claim.queues)
            has_expired = row.attempt == 0 and waiting.expires_at is not None and waiting.expires_at <= now
            if not is_wanted or has_expired:
                continue
            limited = any(scope in self.limits for scope in waiting.scopes)
            if limited is is_limited and (not limited or self._has_room(waiting, now)):
                yield job, waiting

    def turn_of(self, lane: Lane, room: int) -> int:
        """Return how many jobs one turn of a lane has at most in a claim of that many."""
        _, queue, key = lane
        chosen = self.settings.get(queue, QueueRow(queue))
        return -(-room // LANES) * weight_of(chosen.weight, chosen.key_weights, key)

    def _has_room(self, waiting: Waiting, now: int) -> bool:
        for scope, key, limit in self.limits_of(waiting.row):
            most = limit.concurrency if key is None else limit.per_key
            if most is not None and self.active[scope, key] >= most:
                return False
            if self.has_lost_rates and _interval((scope, key), limit) is not None:
                return False
            if not self.rates.is_allowed((scope, key), limit, now):
                return False
        return True

    def _count(self, row: JobRow | None, number: int) -> None:
        if row is not None and PLACE_OF[row.state] is Place.ACTIVE:
            for scope in scopes_of(row):
                self.active[scope, None] += number
                self.active[scope, row.lane] += number


def scopes_of(row: JobRow) -> tuple[Scope, ...]:
    """Return the scopes whose limits count a job."""
    return CountedBy(row.task, row.queue, row.lane).scopes


def time_of(row: JobRow) -> int:
    """Return the time by the store's clock of the write that made a row."""
    return round((row.available_at - row.due_in) * 1e6)


def _interval(counted: Counted, limit: Limit) -> int | None:
    return limit.interval if counted[1] is None else limit.interval_per_key


def _waiting(row: JobRow) -> Waiting:
    expires_at = None if row.expires_in is None else round((row.available_at - row.due_in + row.expires_in) * 1e6)
    lane = (row.priority, row.queue, row.lane)
    return Waiting(row, lane, scopes_of(row), round(row.available_at * 1e6), expires_at)

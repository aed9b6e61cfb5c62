"""The two clocks of a job that is healthy as a process may be: does it move, and does it end in time.

They belong to the owner's supervisor, because only it can end code that does not stop. Others judge much later.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import RescueReason, Token


class TimedAttempt(Struct):
    """A running job with a limit; instants on the lease's clock. ``told``: what it was stopped for, and when. ``has_stood``:
    its progress clock did, and others, who go by the row's time, do not know. ``is_waiting``: its code has not started, or
    its worker, whose loop is blocked, has not said so yet."""

    token: Token
    progress_within: float | None
    timeout: float | None
    started: float
    moved: float
    told: tuple[RescueReason, float] | None = None
    has_stood: bool = False
    is_waiting: bool = False

    def exceeded(self, now: float) -> RescueReason | None:
        """Which limit has passed; the hard one first."""
        if self.is_waiting:
            return None
        if self.timeout is not None and now - self.started > self.timeout:
            return RescueReason.TIMED_OUT
        if self.progress_within is not None and now - self.moved > self.progress_within:
            return RescueReason.STALLED
        return None

    def passed(self) -> float:
        """When the first of its limits has passed or will."""
        ends = (since + limit for since, limit in ((self.started, self.timeout), (self.moved, self.progress_within)) if limit)
        return min(ends, default=float("inf"))


class Limits:
    """The jobs of one worker that have a limit."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._jobs: dict[UUID, TimedAttempt] = {}

    def begin(self, job: UUID, limited: TimedAttempt) -> None:
        """Its code has started."""
        self._jobs[job] = limited

    def wait(self, job: UUID, token: Token, progress_within: float) -> None:
        """Its code starts once there is a runner; until then its progress clock stands, and others are told so."""
        now = self._now()
        self._jobs[job] = TimedAttempt(token, progress_within, None, now, now, has_stood=True, is_waiting=True)

    def move(self, job: UUID, at: float) -> None:
        """It said so then."""
        limited = self._jobs.get(job)
        if limited is not None:
            limited.moved = max(limited.moved, at)

    def end(self, job: UUID, token: Token) -> None:
        """The code of that attempt has stopped."""
        limited = self._jobs.get(job)
        if limited is not None and limited.token == token:
            del self._jobs[job]

    def pause(self, seconds: float) -> None:
        """Nobody could have moved or said so: the progress clock did not run. The hard limit's did."""
        for limited in self._jobs.values():
            limited.moved = min(limited.moved + seconds, self._now())
            limited.has_stood = limited.progress_within is not None

    def paused(self) -> list[tuple[UUID, Token]]:
        """Jobs whose progress clock stood since the last time that others were told so."""
        return [(job, limited.token) for job, limited in self._jobs.items() if limited.has_stood]

    def acknowledge(self, jobs: Iterable[UUID]) -> None:
        """Others have been told."""
        for job in jobs:
            if job in self._jobs:
                self._jobs[job].has_stood = self._jobs[job].is_waiting

    def exceeded(self) -> list[tuple[UUID, Token, RescueReason]]:
        """Jobs that have just passed a limit; each is named once."""
        now, found = self._now(), []
        for job, limited in self._jobs.items():
            charge = None if limited.told else limited.exceeded(now)
            if charge is not None:
                limited.told = charge, now
                found.append((job, limited.token, charge))
        return found

    def unresponsive(self, patience: float) -> dict[UUID, RescueReason]:
        """Jobs whose code has not stopped, though told so longer ago than ``patience`` seconds."""
        now = self._now()
        return {
            job: limited.told[0]
            for job, limited in self._jobs.items()
            if limited.told is not None and now - limited.told[1] > patience
        }

    def beyond_deadline(self, patience: float) -> dict[UUID, RescueReason]:
        """Jobs whose code runs though their limit passed longer ago than ``patience`` seconds, whenever they were told so."""
        now = self._now()
        return {
            job: limited.told[0]
            for job, limited in self._jobs.items()
            if limited.told is not None and now - limited.passed() > patience
        }

    def kill_deadline(self, patience: float) -> float:
        """Until when code past its limit may run, ``patience`` seconds after it; infinity if there is none."""
        told = (limited.passed() for limited in self._jobs.values() if limited.told is not None)
        return min(told, default=float("inf")) + patience

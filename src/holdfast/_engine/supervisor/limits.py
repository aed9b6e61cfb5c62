"""The two limits of a running job, even in a healthy process: it must make progress, and it must end in time.

The supervisor of the job's worker enforces them, because only it can end code that does not stop. Others act much later.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import RescueReason, Token


class TimedAttempt(Struct):
    """A running job with a limit; all instants are on the lease's clock.

    ``moved``: when it last made progress, plus the pauses of its progress clock since. ``stop_requested``: the limit for which it
    was asked to stop, and when.
    ``has_stood``: its progress clock was paused, and that is not written to its row yet, by which other supervisors judge it.
    ``is_waiting``: its code has not started, or its worker has not reported the start yet because its event loop is blocked.
    """

    token: Token
    progress_within: float | None
    timeout: float | None
    started: float
    moved: float
    stop_requested: tuple[RescueReason, float] | None = None
    has_stood: bool = False
    is_waiting: bool = False

    def exceeded(self, now: float, reported_until: float) -> RescueReason | None:
        """Return which limit has passed, ``timeout`` before ``progress_within``; ``None`` if neither has.

        ``reported_until``: all progress made by then has arrived. Later progress may still wait in the worker.
        """
        if self.is_waiting:
            return None
        if self.timeout is not None and now - self.started > self.timeout:
            return RescueReason.TIMED_OUT
        if self.progress_within is not None and reported_until - self.moved > self.progress_within:
            return RescueReason.STALLED
        return None

    def passed(self) -> float:
        """Return when the first of its limits passed, or will pass; infinity without a limit."""
        ends = (since + limit for since, limit in ((self.started, self.timeout), (self.moved, self.progress_within)) if limit)
        return min(ends, default=float("inf"))


class Limits:
    """The jobs of one worker that have a limit."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._jobs: dict[UUID, TimedAttempt] = {}

    def begin(self, job: UUID, limited: TimedAttempt) -> None:
        """Start the clocks of a job whose code has started."""
        self._jobs[job] = limited

    def wait(self, job: UUID, token: Token, progress_within: float) -> None:
        """Record a job that waits for a runner: its progress clock is paused until its code starts, and is reported as paused."""
        now = self._now()
        self._jobs[job] = TimedAttempt(token, progress_within, None, now, now, has_stood=True, is_waiting=True)

    def move(self, job: UUID, at: float) -> None:
        """Record that the job made progress at that instant."""
        limited = self._jobs.get(job)
        if limited is not None:
            limited.moved = max(limited.moved, at)

    def end(self, job: UUID, token: Token) -> None:
        """Drop the limits of that attempt, because its code has stopped."""
        limited = self._jobs.get(job)
        if limited is not None and limited.token == token:
            del self._jobs[job]

    def pause(self, seconds: float) -> None:
        """Pause all progress clocks for the seconds just past, in which no job could report progress; ``timeout`` ran on."""
        for limited in self._jobs.values():
            limited.moved = min(limited.moved + seconds, self._now())
            limited.has_stood = limited.progress_within is not None

    def paused(self) -> list[tuple[UUID, Token]]:
        """Return the jobs whose progress clock was paused since that was last written to their rows."""
        return [(job, limited.token) for job, limited in self._jobs.items() if limited.has_stood]

    def acknowledge(self, jobs: Iterable[UUID]) -> None:
        """Record that the pauses of these jobs are written to their rows. The clock of a waiting job stays paused."""
        for job in jobs:
            if job in self._jobs:
                self._jobs[job].has_stood = self._jobs[job].is_waiting

    def is_in_doubt(self) -> bool:
        """Return whether a job has passed a limit unless a report of its progress is on its way."""
        now = self._now()
        return any(not limited.stop_requested and limited.exceeded(now, now) for limited in self._jobs.values())

    def exceeded(self, reported_until: float) -> list[tuple[UUID, Token, RescueReason]]:
        """Return the jobs that have just passed a limit, each of them once.

        ``reported_until``: all progress made by then has arrived. Later progress may still wait in the worker.
        """
        now, found = self._now(), []
        for job, limited in self._jobs.items():
            charge = None if limited.stop_requested else limited.exceeded(now, reported_until)
            if charge is not None:
                limited.stop_requested = charge, now
                found.append((job, limited.token, charge))
        return found

    def unresponsive(self, seconds: float) -> dict[UUID, RescueReason]:
        """Return the jobs whose code still runs more than ``seconds`` after it was asked to stop."""
        now = self._now()
        return {
            job: limited.stop_requested[0]
            for job, limited in self._jobs.items()
            if limited.stop_requested is not None and now - limited.stop_requested[1] > seconds
        }

    def beyond_deadline(self, seconds: float) -> dict[UUID, RescueReason]:
        """Return the jobs whose code still runs more than ``seconds`` after the limit, whenever it was asked to stop."""
        now = self._now()
        return {
            job: limited.stop_requested[0]
            for job, limited in self._jobs.items()
            if limited.stop_requested is not None and now - limited.passed() > seconds
        }

    def kill_deadline(self, seconds: float) -> float:
        """Return until when code past its limit may run, ``seconds`` after the limit; infinity if there is none."""
        stop_requested = (limited.passed() for limited in self._jobs.values() if limited.stop_requested is not None)
        return min(stop_requested, default=float("inf")) + seconds

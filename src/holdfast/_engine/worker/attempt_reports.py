"""Reports of a worker about its jobs that have a limit, from which its supervisor keeps their clocks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from holdfast._core.job import ActiveJob, Token
from holdfast._engine import messages
from holdfast._ports.host import SupervisorLink

REPORTED_EVERY = 0.05
"""Fraction of ``progress_within`` that passes between two reports of a job's progress."""


class AttemptReporter:
    """The reporter of when the code of such jobs begins, makes progress and stops; with ``tells_all``, of all jobs."""

    def __init__(self, link: SupervisorLink, now: Callable[[], float]) -> None:
        self._link, self._now = link, now
        self.tells_all = False
        self._reported: dict[tuple[UUID, Token], float] = {}
        self._unreported: dict[tuple[UUID, Token], float] = {}
        self._waits: list[ActiveJob] = []

    def set_code_running(self, is_running: bool) -> None:
        """Inform the guard whether user code runs: the guard kills only running code at its deadline."""
        self._link.set_code_running(is_running)

    def waiting(self, job: ActiveJob) -> None:
        """Report that the job waits for a runner: the worker may receive the runner's report of the start late."""
        if job.policy.progress_within is not None:
            self._send(messages.AttemptWaiting(job.id, job.token, job.policy.progress_within))

    def begun(self, job: ActiveJob, at: float) -> None:
        """Report when the first line of the job's handler ran, or is about to."""
        limits = job.policy
        if limits.timeout is not None or limits.progress_within is not None or self.tells_all:
            self._send(messages.AttemptStarted(job.id, job.token, at, limits.progress_within, limits.timeout))

    def overdue(self) -> None:
        """Ask the supervisor to judge the limits now: a runner is to end on time, and a watch passes only once in a while."""
        self._send(messages.AttemptOverdue())

    def moved(self, job: ActiveJob) -> None:
        """Report progress at once, because the store may not answer; but at most every ``REPORTED_EVERY`` of ``progress_within``."""
        within, now, key = job.policy.progress_within, self._now(), (job.id, job.token)
        if within is None:
            return
        if now - self._reported.get(key, float("-inf")) < within * REPORTED_EVERY:
            self._unreported[key] = now
            return
        self._reported[key] = now
        self._unreported.pop(key, None)
        self._send(messages.AttemptProgressed(job.id, now))

    @contextmanager
    def waiting_for_store(self, job: ActiveJob) -> Iterator[None]:
        """Count as progress, once a beat, that the job's code waits for the store: an outage must not look like code that stalls."""
        self.moved(job)
        self._waits.append(job)
        try:
            yield
        finally:
            self._waits.remove(job)

    def tell_latest(self) -> None:
        """Report progress that was not reported at once, or the job would be stopped too early; call it once a beat."""
        for waiting in self._waits:
            self.moved(waiting)
        for (job, _), at in self._unreported.items():
            self._send(messages.AttemptProgressed(job, at))
        self._unreported.clear()

    def stopped(self, job: ActiveJob) -> None:
        """Report that no code of the job runs any more."""
        if job.policy.timeout is not None or job.policy.progress_within is not None or self.tells_all:
            self._reported.pop((job.id, job.token), None)
            self._unreported.pop((job.id, job.token), None)
            self._send(messages.AttemptStopped(job.id, job.token))

    def _send(self, message: messages.Message) -> None:
        self._link.channel.send(messages.encode(message))

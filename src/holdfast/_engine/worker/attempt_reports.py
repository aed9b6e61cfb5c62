"""Reports of a worker about its jobs that have a limit, from which its supervisor keeps their clocks."""

from collections.abc import Callable
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

    def set_code_running(self, is_running: bool) -> None:
        """Inform the guard whether user code runs: the guard kills only running code at its deadline."""
        self._link.set_code_running(is_running)

    def waiting(self, hold: ActiveJob) -> None:
        """Report that the job waits for a runner: the worker may receive the runner's report of the start late."""
        if hold.policy.progress_within is not None:
            self._send(messages.AttemptWaiting(hold.id, hold.token, hold.policy.progress_within))

    def begun(self, hold: ActiveJob) -> None:
        """Report that the first line of the job's handler is about to run."""
        limits = hold.policy
        if self.tells_all or _is_limited(hold):
            self._send(messages.AttemptStarted(hold.id, hold.token, self._now(), limits.progress_within, limits.timeout))

    def moved(self, hold: ActiveJob) -> None:
        """Report progress at once, because the store may not answer; but at most every ``TOLD_EVERY`` of ``progress_within``."""
        within, now, key = hold.policy.progress_within, self._now(), (hold.id, hold.token)
        if within is None:
            return
        if now - self._reported.get(key, float("-inf")) < within * REPORTED_EVERY:
            self._unreported[key] = now
            return
        self._reported[key] = now
        self._unreported.pop(key, None)
        self._send(messages.AttemptProgressed(hold.id, now))

    def tell_latest(self) -> None:
        """Report progress that was not reported at once, or the job would be stopped too early; call it once a beat."""
        for (job, _), at in self._unreported.items():
            self._send(messages.AttemptProgressed(job, at))
        self._unreported.clear()

    def stopped(self, hold: ActiveJob) -> None:
        """Report that no code of the job runs any more."""
        if self.tells_all or _is_limited(hold):
            self._reported.pop((hold.id, hold.token), None)
            self._unreported.pop((hold.id, hold.token), None)
            self._send(messages.AttemptStopped(hold.id, hold.token))

    def _send(self, message: messages.Message) -> None:
        self._link.channel.send(messages.encode(message))


def _is_limited(hold: ActiveJob) -> bool:
    return hold.policy.progress_within is not None or hold.policy.timeout is not None

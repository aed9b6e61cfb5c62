"""What a worker says of its jobs that have a limit, so that its supervisor can keep their clocks."""

from collections.abc import Callable
from uuid import UUID

from holdfast._core.job import ActiveJob, Token
from holdfast._engine import messages
from holdfast._ports.host import SupervisorLink

TOLD_EVERY = 0.05
"""Part of ``progress_within`` between two words that a job moves."""


class AttemptReporter:
    """Says when their code begins, moves and stops, and nothing of other jobs, unless told to (``tells_all``)."""

    def __init__(self, link: SupervisorLink, now: Callable[[], float]) -> None:
        self._link, self._now = link, now
        self.tells_all = False
        self._told: dict[tuple[UUID, Token], float] = {}
        self._untold: dict[tuple[UUID, Token], float] = {}

    def set_code_running(self, is_running: bool) -> None:
        """Tell the guard whether user code runs: only running code is killed at its deadline."""
        self._link.set_code_running(is_running)

    def waiting(self, hold: ActiveJob) -> None:
        """It waits for a runner, whose first word the worker may hear late."""
        if hold.policy.progress_within is not None:
            self._send(messages.AttemptWaiting(hold.id, hold.token, hold.policy.progress_within))

    def begun(self, hold: ActiveJob) -> None:
        """Its first line is about to run."""
        limits = hold.policy
        if self.tells_all or _is_limited(hold):
            self._send(messages.AttemptStarted(hold.id, hold.token, self._now(), limits.progress_within, limits.timeout))

    def moved(self, hold: ActiveJob) -> None:
        """Told when it is said, because the store may be silent; often enough, not each time."""
        within, now, key = hold.policy.progress_within, self._now(), (hold.id, hold.token)
        if within is None:
            return
        if now - self._told.get(key, float("-inf")) < within * TOLD_EVERY:
            self._untold[key] = now
            return
        self._told[key] = now
        self._untold.pop(key, None)
        self._send(messages.AttemptProgressed(hold.id, now))

    def tell_latest(self) -> None:
        """Once a beat: a last word that was not told at once counts too, or its job would be judged too early."""
        for (job, _), at in self._untold.items():
            self._send(messages.AttemptProgressed(job, at))
        self._untold.clear()

    def stopped(self, hold: ActiveJob) -> None:
        """Nothing of it runs any more."""
        if self.tells_all or _is_limited(hold):
            self._told.pop((hold.id, hold.token), None)
            self._untold.pop((hold.id, hold.token), None)
            self._send(messages.AttemptStopped(hold.id, hold.token))

    def _send(self, message: messages.Message) -> None:
        self._link.channel.send(messages.encode(message))


def _is_limited(hold: ActiveJob) -> bool:
    return hold.policy.progress_within is not None or hold.policy.timeout is not None

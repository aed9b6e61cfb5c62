"""The worker's side of its lease: until when the worker may act, and whether it has lost the lease."""

from collections.abc import Callable
from uuid import UUID


class WorkerLease:
    """The worker's lease and its deadline, which the supervisor's beats extend. A worker past it stops without being asked."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.id, self.worker = UUID(int=0), ""
        self.deadline = float("-inf")
        self.is_gone = False
        self.answered = float("-inf")
        """The time at which the store last answered this worker's own connection."""

    def grant(self, lease: UUID, worker: str, deadline: float) -> None:
        """Take over the lease that the supervisor has opened for this worker."""
        self.id, self.worker = lease, worker
        self.renew(deadline)

    def renew(self, deadline: float) -> None:
        """Extend the deadline after a beat that the store has answered."""
        self.deadline = max(self.deadline, deadline)

    def lose(self) -> None:
        """End the right to act; it never comes back."""
        self.is_gone = True

    def may_act(self) -> bool:
        """Return whether code may be started or go on now."""
        return not self.is_gone and self.now() < self.deadline

    def remaining(self) -> float:
        """Return the seconds until the deadline; negative when past it."""
        return self.deadline - self.now()

    def store_answered(self) -> None:
        """Record that the store has answered this worker's own connection."""
        self.answered = self.now()

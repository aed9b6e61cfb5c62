"""The worker's side of its lease: until when it may act, and whether it still may at all."""

from collections.abc import Callable
from uuid import UUID


class WorkerLease:
    """The deadline that the supervisor's heartbeats have earned. A worker past it stops without being asked."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.id, self.worker = UUID(int=0), ""
        self.deadline = float("-inf")
        self.is_gone = False
        self.answered = float("-inf")
        """When the store last answered this worker's own connection."""

    def grant(self, lease: UUID, worker: str, deadline: float) -> None:
        """Begin to hold the lease that the supervisor has opened."""
        self.id, self.worker = lease, worker
        self.renew(deadline)

    def renew(self, deadline: float) -> None:
        """Move the deadline: the store has answered a heartbeat."""
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
        """Note that the worker's own connection works."""
        self.answered = self.now()

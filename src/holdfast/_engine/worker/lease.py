"""The worker's side of its lease: until when it may act, and whether it still may at all."""

from collections.abc import Callable


class WorkerLease:
    """Knows the deadline that the supervisor's beats earned. Needs no message to stop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.deadline = float("-inf")
        self.is_gone = False
        self.answered = float("-inf")

    def renew(self, deadline: float) -> None:
        """A beat was answered."""
        self.deadline = max(self.deadline, deadline)

    def lose(self) -> None:
        """The lease has ended; it never comes back."""
        self.is_gone = True

    def may_act(self) -> bool:
        """Whether code may be started or go on now."""
        return not self.is_gone and self.now() < self.deadline

    def remaining(self) -> float:
        """Seconds until the deadline; negative when past it."""
        return self.deadline - self.now()

    def store_answered(self) -> None:
        """The worker's own connection works."""
        self.answered = self.now()

"""Rows that another session of the same database has locked: the only delay for which the checker allows."""

from proof.checker.history import Event
from proof.checker.verdicts import CheckContext, Seers


class Locks:
    """Record until when a job's row was locked: that job cannot move before. All others keep their bounds."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context

    def seers(self) -> Seers:
        """Return the events that these rules read."""
        return {"row.lock": self._see_lock, "row.unlock": self._see_unlock}

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    def _see_lock(self, event: Event) -> None:
        assert event.job is not None
        self._context.locked[event.job] += 1

    def _see_unlock(self, event: Event) -> None:
        assert event.job is not None
        self._context.locked[event.job] -= 1
        self._context.unlocked_at[event.job] = event.time

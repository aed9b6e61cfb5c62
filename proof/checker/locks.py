"""Rows that another session of the same database has locked: what the checker allows for, and nothing else."""

from holdfast.testing.history import Event
from proof.checker.verdicts import Ledger, Seers


class Locks:
    """Notes until when a job's row was locked: that job cannot move before. All others keep their bounds."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def seers(self) -> Seers:
        """Which events it looks at."""
        return {"row.lock": self._see_lock, "row.unlock": self._see_unlock}

    def finish(self) -> None:
        """Nothing is left to say."""

    def _see_lock(self, event: Event) -> None:
        assert event.job is not None
        self._ledger.locked[event.job] += 1

    def _see_unlock(self, event: Event) -> None:
        assert event.job is not None
        self._ledger.locked[event.job] -= 1
        self._ledger.unlocked_at[event.job] = event.time

"""A check that the store's clock and the local clock agree on how much time passes: if not, every lease may look expired."""

from uuid import UUID

from holdfast._core.answers import BeatAnswer
from holdfast._core.timing import LeaseTiming


class ClockCheck:
    """A comparison of the two clocks between two beats of the same leases."""

    def __init__(self) -> None:
        self._last: tuple[frozenset[UUID], float, float] | None = None

    def forget(self) -> None:
        """Drop the last beat, because the answer of one was lost: when that one reached the store is unknown."""
        self._last = None

    def step(
        self, answer: BeatAnswer, timing: LeaseTiming, *, leases: frozenset[UUID], sent: float, now: float
    ) -> tuple[float, float] | None:
        """Return the seconds that passed at the store and here, if they differ by more than the margin."""
        last, self._last = self._last, (leases, sent, now) if answer.alive == leases else None
        if last is None or last[0] != leases or answer.alive != leases or answer.elapsed is None:
            return None
        # Each beat reached the store at some moment between its sending and its answer.
        own = min(max(answer.elapsed, sent - last[2]), now - last[1])
        return (answer.elapsed, own) if timing.is_clock_step(store=answer.elapsed, own=own) else None

"""What a process has noticed about a store in a bucket, each once, until it is taken."""

from collections import deque
from typing import Final

from holdfast._core.store_notices import ClockCorrected, Crowded, DamagedObject, StoreNotice
from holdfast.stores.objects.limits import Limits

CROWDED: Final = 0.8
"""The part of a limit from which on a store is crowded."""
ROOMY: Final = 0.7
"""The part of a limit below which a crowded store has to be before it can be noticed as crowded again: merges let sizes go up and down."""
MOST_UNTAKEN: Final = 1000


class Notices:
    """The notices of one process. The thread of the store adds them, and others take them."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._found = limits, deque[StoreNotice](maxlen=MOST_UNTAKEN)
        self._crowded, self._damaged = set[str](), set[str]()

    def measure(self, jobs: int, run_bytes: int) -> None:
        """Notice which limits a store of this size has come near to."""
        for limit, used, most in (("jobs", jobs, self._limits.jobs), ("run_bytes", run_bytes, self._limits.run_bytes)):
            if used >= CROWDED * most and limit not in self._crowded:
                self._crowded.add(limit)
                self._found.append(Crowded(limit, used, most))
            elif used < ROOMY * most:
                self._crowded.discard(limit)

    def damage(self, key: str, problem: str) -> None:
        """Notice an object that is missing or cannot be read; each try to read it fails, and is noticed once."""
        if key not in self._damaged:
            self._damaged.add(key)
            self._found.append(DamagedObject(key, problem))

    def correct(self, seconds: float) -> None:
        """Notice that the wall clock is corrected by other seconds than before."""
        self._found.append(ClockCorrected(seconds))

    def take(self) -> tuple[StoreNotice, ...]:
        """Return all notices, and forget them."""
        return tuple(self._found.popleft() for _ in range(len(self._found)))

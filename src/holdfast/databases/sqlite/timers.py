"""What has to be done at its time unless somebody calls it off before: by one thread for all, because a transaction that started
a timer of its own waited longer for that thread than for its rows.
"""

import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

from holdfast._forks import Forked, Lock, register
from holdfast._system.clock import SystemClock

AGAIN = 0.1
"""Seconds after which one that could not ring is tried again."""


class Timer:
    """One of them."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """It is not done any more, unless it has begun. Repeatable."""
        self._action = None

    def fire(self) -> None:
        """Do it, in a thread of its own: it may have to wait, and the next one must not."""
        if (action := self._action) is not None:
            threading.Thread(target=action, name="holdfast-alarm", daemon=True).start()


class Timers(Forked):
    """Those of a process; a forked child has none, because what they end is its parent's."""

    _changed: threading.Condition
    _is_running: bool
    _waiting: list[tuple[float, int, Timer]]

    def __init__(self) -> None:
        self._clock, self._numbers = SystemClock(), count()  # of what a transaction keeps others from, nobody may fake
        self._forget()
        register(self)

    def set(self, seconds: float, action: Callable[[], object]) -> Timer:
        """From now."""
        alarm = Timer(action)
        entry = (self._clock.monotonic() + seconds, next(self._numbers), alarm)
        with self._changed:
            heappush(self._waiting, entry)
            if not self._is_running:
                threading.Thread(target=self._run, name="holdfast-alarms", daemon=True).start()
                self._is_running = True
            elif self._waiting[0] is entry:
                self._changed.notify()
        return alarm

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._changed,)

    def after_fork_in_child(self) -> None:
        """After it, in the child."""
        self._forget()

    def _forget(self) -> None:
        self._changed, self._is_running, self._waiting = threading.Condition(), False, []

    def _run(self) -> None:
        with self._changed:
            while True:
                now = self._clock.monotonic()
                while self._waiting and self._waiting[0][0] <= now:
                    _, number, alarm = heappop(self._waiting)
                    try:
                        alarm.fire()
                    except RuntimeError:  # this process may start no thread just now: others end
                        heappush(self._waiting, (now + AGAIN, number, alarm))
                    del alarm  # what it ends is not kept alive while nothing rings
                self._changed.wait(self._waiting[0][0] - now if self._waiting else None)

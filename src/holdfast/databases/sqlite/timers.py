"""Timers of open transactions, served by one thread: a transaction that started a separate timer thread waited longer for that
thread than for its rows.
"""

import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

from holdfast._forks import Forked, Lock, register
from holdfast._system.clock import SystemClock

AGAIN = 0.1
"""Seconds after which a timer whose thread could not start is tried again."""


class Timer:
    """An action to run at a given time, unless it is cancelled first."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def cancel(self) -> None:
        """Cancel the action, unless it has begun. Repeatable."""
        self._action = None

    def fire(self) -> None:
        """Run the action in a separate thread: it may have to wait, and the next timer must not."""
        if (action := self._action) is not None:
            threading.Thread(target=action, name="holdfast-alarm", daemon=True).start()


class Timers(Forked):
    """The timers of a process. A forked child starts with none: the transactions they end belong to its parent."""

    _changed: threading.Condition
    _is_running: bool
    _waiting: list[tuple[float, int, Timer]]

    def __init__(self) -> None:
        self._clock, self._numbers = SystemClock(), count()  # real time, even under a fake clock: others wait for real
        self._forget()
        register(self)

    def set(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Have an action run in this many seconds, and return its timer."""
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
                    except RuntimeError:  # the process may not start a thread now: retry, others will have ended
                        heappush(self._waiting, (now + AGAIN, number, alarm))
                    del alarm  # keep no transaction alive while this thread waits
                self._changed.wait(self._waiting[0][0] - now if self._waiting else None)

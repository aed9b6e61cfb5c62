"""Steps that run beside each other, each of them repeatedly, until all are stopped."""

import threading
from collections.abc import Callable

STEP_LIMIT = 300.0
"""Seconds in which a running step must end, once all are asked to stop."""


PAUSE = 0.5
"""Seconds after a step that met a tolerated error."""


class Lanes:
    """Threads that repeat steps; the first error that is not ``tolerated`` ends all of them."""

    def __init__(self, tolerated: tuple[type[Exception], ...] = ()) -> None:
        self._tolerated = tolerated
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def open(self, step: Callable[[], float]) -> None:
        """Repeat a step from now on; it returns the seconds until its next run."""

        def run() -> None:
            pause = 0.0
            while not self._is_over.wait(pause):
                try:
                    pause = step()
                except self._tolerated:
                    pause = PAUSE
                except BaseException as error:
                    self._errors.append(error)
                    self._is_over.set()

        thread = threading.Thread(target=run, name=step.__name__)
        self._threads.append(thread)
        thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for that many seconds; return whether all steps are stopped."""
        return self._is_over.wait(seconds)

    def close(self) -> None:
        """Stop all steps, and raise the first error of any."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(STEP_LIMIT)
            assert not thread.is_alive(), f"{thread.name} does not end"
        if self._errors:
            raise self._errors[0]

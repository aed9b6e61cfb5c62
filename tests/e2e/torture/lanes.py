"""Things that go on beside each other, each again and again, until all of them are over."""

import threading
from collections.abc import Callable

STEP_PATIENCE = 300.0
"""Seconds in which a step that has begun must end, once all are asked to."""


class Lanes:
    """Threads; the first error of one of them ends all."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []

    def open(self, step: Callable[[], float]) -> None:
        """Run that from now on, each time as many seconds after the last as it returned."""

        def run() -> None:
            pause = 0.0
            while not self._is_over.wait(pause):
                try:
                    pause = step()
                except BaseException as error:
                    self._errors.append(error)
                    self._is_over.set()

        thread = threading.Thread(target=run, name=step.__name__)
        self._threads.append(thread)
        thread.start()

    def wait(self, seconds: float) -> bool:
        """Let them; whether it is over."""
        return self._is_over.wait(seconds)

    def close(self) -> None:
        """No more of it; the first error of all."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(STEP_PATIENCE)
            assert not thread.is_alive(), f"{thread.name} does not end"
        if self._errors:
            raise self._errors[0]

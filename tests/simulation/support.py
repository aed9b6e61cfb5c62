"""A small virtual world for tests of the simulator itself."""

from collections.abc import Callable, Coroutine
from typing import Any

from proof.simulator.hosts import Machine, SimClock
from proof.simulator.loop import VirtualLoop


class Stage:
    """A loop and one machine on it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualLoop(seed)
        self.clock = SimClock(self.loop)
        self.machine = Machine(self.loop, "m", self.clock)


def on_stage(play: Callable[[Stage], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    """Run a coroutine to its end in virtual time, and close all that still runs."""
    stage = Stage(seed)
    try:
        stage.loop.run_until_complete(play(stage))
    finally:
        stage.loop.dispose(stage.machine.processes)

"""Retry store verbs while the store is unreachable; every verb is idempotent."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast._engine.events import EventName, Events, failure_of_store
from holdfast._ports.clock import Clock, Randomness
from holdfast.errors import StoreDamaged, StoreUnavailable

GIVE_UP = 30.0
PAUSES = (0.05, 2.0)

Answered = TypeVar("Answered")


class Retrier:
    """Calls a verb until the store answers; raises ``StoreUnavailable`` after ``give_up`` seconds."""

    def __init__(self, clock: Clock, chance: Randomness, events: Events, *, give_up: float = GIVE_UP) -> None:
        self._clock = clock
        self._chance = chance
        self._events = events
        self._give_up = give_up

    async def call(self, operation: str, verb: Callable[[], Awaitable[Answered]]) -> Answered:
        """Call the verb until it answers, and return the answer. Every call must send the same id, so that the store applies it once."""
        started, pause, failures = self._clock.monotonic(), PAUSES[0], 0
        while True:
            sent = self._clock.monotonic()
            try:
                answer = await verb()
            except StoreUnavailable as error:
                failures += 1
                if failures == 1:
                    self._events.emit(failure_of_store(error), operation=operation, error=str(error))
                if isinstance(error, StoreDamaged) or self._clock.monotonic() - started + pause > self._give_up:
                    raise
            else:
                if self._events.tallies is not None:
                    self._events.count_call(operation, self._clock.monotonic() - sent)
                if failures:
                    self._events.emit(EventName.STORE_RECOVERED, operation=operation, failures=failures)
                return answer
            await self._clock.sleep(pause * (0.75 + 0.25 * self._chance.jitter()))
            pause = min(pause * 2, PAUSES[1])

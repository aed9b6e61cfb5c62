"""The transports of simulated processes: hints with faults, or a queue whose deliveries have faults."""

import contextvars
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast._ports.transport import Hint
from proof.simulator.loop import PROCESS, Process
from proof.simulator.plans import Plan
from proof.simulator.queue import FaultyQueue, Mishaps

if TYPE_CHECKING:
    from proof.simulator.world import World


class Bus:
    """Hints between simulated processes: lost, repeated, late."""

    deliveries = None

    def __init__(self, world: "World", process: Process) -> None:
        self._world = world
        self._process = process

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send the hints to the subscribers; each may lose them."""
        world = self._world
        for hint in hints:
            for process, context, wake, numbers in world.subscribers:
                number, delay = numbers.random(), numbers.random() ** 4 * world.plan.settings.timing.beat
                for _ in range(0 if number < world.plan.hint_loss else 2 if number > 0.95 else 1):
                    if not process.is_dead:
                        world.loop.call_later(delay, wake, hint, context=context)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Subscribe to the hints that arrive."""
        self._world.subscribers = [each for each in self._world.subscribers if not each[0].is_dead]
        process = PROCESS.get()
        assert process is not None
        numbers = self._world.loop.stream(f"hints to {process.title}")
        self._world.subscribers.append((process, contextvars.copy_context(), wake, numbers))

    async def close(self) -> None:
        """Remove the subscriptions of this process."""
        self._world.subscribers = [each for each in self._world.subscribers if each[0] is not self._process]


def queue_of(plan: Plan) -> FaultyQueue:
    """Return the queue of a plan; it draws separate numbers, so that all other draws are the same without it."""
    numbers, all_settings = random.Random(plan.chaos), plan.all_settings
    mishaps = Mishaps(plan.hint_loss, double=0.2, swap=0.3, lateness=plan.settings.timing.beat)
    is_kept, longest = numbers.random() < 0.5, max(each.timing.ttl + each.recovery_interval for each in all_settings)
    return FaultyQueue(numbers, mishaps, ack_wait=1.1 * longest, acks_on_finish=is_kept)

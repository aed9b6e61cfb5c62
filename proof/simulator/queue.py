"""A queue of deliveries with faults, in memory: it loses, doubles, delays and reorders messages, and sometimes forgets all."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from itertools import count
from uuid import UUID

from msgspec import Struct

from holdfast._core.answers import DueJob
from holdfast._ports.transport import ClaimSource, Delivery, Hint

RECEIVE_TIMEOUT = 3.0
"""Seconds for which a receiver waits before it asks again."""


class Mishaps(Struct, frozen=True):
    """The rates of faults each time a message is sent, and the seconds within which it arrives."""

    loss: float = 0.0
    double: float = 0.0
    swap: float = 0.0
    lateness: float = 0.0


class _Message(Struct, eq=False):
    number: int
    job: UUID
    queue: str
    via: ClaimSource
    rescued: str
    times: int = 0


class FaultyQueue:
    """The queue that processes share. ``ack_wait``: the seconds after which an unacknowledged message is delivered again."""

    def __init__(self, numbers: random.Random, mishaps: Mishaps, *, ack_wait: float, acks_on_finish: bool = False) -> None:
        self.numbers, self.mishaps = numbers, mishaps
        self.ack_wait, self.acks_on_finish = ack_wait, acks_on_finish
        self.waiting: list[_Message] = []
        self.unacknowledged: dict[int, _Message] = {}
        self.listeners: list[tuple[Callable[[Hint], None], Context]] = []
        self.sent = 0
        self._republished: set[tuple[UUID, int]] = set()
        self._receivers: list[asyncio.Future[None]] = []
        self._numbers = count(1)

    def forget(self) -> None:
        """Forget everything, as a server that lost its disk."""
        self.waiting.clear()
        self.unacknowledged.clear()
        self._republished.clear()

    def put(self, job: UUID, queue: str, via: ClaimSource, rescued: str = "") -> None:
        """Take a message, with the mishaps of this queue."""
        self.sent += 1
        for _ in range(self._copies()):
            message = _Message(next(self._numbers), job, queue, via, rescued)
            self._later(lambda message=message: self._arrive(message))  # type: ignore[misc]

    def wake(self, hint: Hint) -> None:
        """Send a hint to all listeners, with the mishaps of this queue."""
        for wake, context in self.listeners:
            for _ in range(self._copies()):
                self._later(lambda wake=wake: wake(hint), context)  # type: ignore[misc]

    def republish(self, due: DueJob) -> None:
        """Take a message about one wait of a job once, from any supervisor."""
        if (due.job, due.claim_number) not in self._republished:
            self._republished.add((due.job, due.claim_number))
            self.put(due.job, due.queue, ClaimSource.SWEEP)

    def take(self, queues: Sequence[str] | None, most: int) -> tuple[Delivery, ...]:
        """Deliver messages; unacknowledged ones are delivered again."""
        chosen = [each for each in self.waiting if queues is None or each.queue in queues][:most]
        self.waiting = [each for each in self.waiting if each not in chosen]
        for message in chosen:
            message.times += 1
            self.unacknowledged[message.number] = message
            asyncio.get_running_loop().call_later(self.ack_wait, self._redeliver, message, message.times, context=Context())
        return tuple(Delivery(each.job, each.queue, _via(each), each.rescued, each.number) for each in chosen)

    def acknowledge(self, number: int) -> None:
        """Forget a message, unless its acknowledgement gets lost."""
        if self.numbers.random() >= self.mishaps.loss:
            self._later(lambda: self.unacknowledged.pop(number, None))

    def lose_receiver(self, job: UUID, queue: str) -> None:
        """Hand a message of a job to a receiver that dies with it."""
        self.waiting.insert(0, _Message(next(self._numbers), job, queue, ClaimSource.DELIVERY, ""))
        self.take([queue], 1)

    async def until_come(self) -> None:
        """Wait until a message may have arrived."""
        receiver = asyncio.get_running_loop().create_future()
        self._receivers.append(receiver)
        await receiver

    def _arrive(self, message: _Message) -> None:
        is_swapped = self.numbers.random() < self.mishaps.swap
        place = self.numbers.randint(0, len(self.waiting)) if is_swapped else len(self.waiting)
        self.waiting.insert(place, message)
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            if not receiver.done():
                receiver.set_result(None)

    def _redeliver(self, message: _Message, times: int) -> None:
        if self.unacknowledged.get(message.number) is message and message.times == times:
            del self.unacknowledged[message.number]
            self._arrive(message)

    def _copies(self) -> int:
        lot = self.numbers.random()
        return 0 if lot < self.mishaps.loss else 2 if lot < self.mishaps.loss + self.mishaps.double else 1

    def _later(self, act: Callable[[], object], context: Context | None = None) -> None:
        delay = self.numbers.random() ** 3 * self.mishaps.lateness
        asyncio.get_running_loop().call_later(delay, act, context=context or Context())


class FaultyTransport:
    """The queue as one process uses it. ``is_gone``: whether that process has ended. ``sleep``: the sleep of its clock."""

    def __init__(self, queue: FaultyQueue, sleep: Callable[[float], Awaitable[None]], is_gone: Callable[[], bool]) -> None:
        self._queue, self._sleep, self._is_gone = queue, sleep, is_gone
        self._ours: list[tuple[Callable[[Hint], None], Context]] = []

    @property
    def deliveries(self) -> "FaultyTransport":
        """The kind of deliveries: each job goes to one worker."""
        return self

    @property
    def acks_on_finish(self) -> bool:
        """Whether the queue is configured to acknowledge when a job finishes."""
        return self._queue.acks_on_finish

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Publish each job of a queue to one worker, and all else to all processes."""
        for hint in () if self._is_gone() else hints:
            if not (hint.queue and hint.ids):
                self._queue.wake(hint)
            for job in hint.ids if hint.queue else ():
                self._queue.put(job, hint.queue, ClaimSource.DELIVERY, hint.rescued)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Subscribe to the hints for all processes."""
        self._ours.append((wake, copy_context()))
        self._queue.listeners.append(self._ours[-1])

    async def fetch(self, queues: Sequence[str] | None, most: int) -> Sequence[Delivery]:
        """Return messages; wait for the first one for a while."""
        if most and not (found := self._queue.take(queues, most)):
            come = asyncio.ensure_future(self._queue.until_come())
            timeout = asyncio.ensure_future(self._sleep(RECEIVE_TIMEOUT))
            try:
                await asyncio.wait({come, timeout}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                come.cancel()
                timeout.cancel()
            found = self._queue.take(queues, most)
        return found if most else ()

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge each message separately."""
        for delivery in deliveries:
            self._queue.acknowledge(delivery.receipt)

    async def is_drained(self, queues: Sequence[str] | None) -> bool:
        """Return whether no message of these queues waits."""
        return not any(queues is None or each.queue in queues for each in self._queue.waiting)

    async def problem(self) -> str:
        """Return that none is known."""
        return ""

    async def republish(self, jobs: Sequence[DueJob]) -> None:
        """Publish a message for each wait of a job once."""
        for due in jobs:
            self._queue.republish(due)

    async def close(self) -> None:
        """Stop listening to the queue."""
        while self._ours:
            self._queue.listeners.remove(self._ours.pop())


def _via(message: _Message) -> ClaimSource:
    return ClaimSource.REDELIVERY if message.times > 1 else message.via

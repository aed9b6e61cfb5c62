"""Deliveries to this worker: jobs to claim, and messages to acknowledge, whether or not a claim gets the job."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from uuid import UUID

from holdfast._engine.service import Signal
from holdfast._ports.transport import ClaimSource, Deliveries, Delivery, Hint


class Inbox:
    """The deliveries of one worker; it fetches no more than it has free slots.

    A message is acknowledged once the store has answered the claim of its job, even if nothing was claimed. Where messages are
    acknowledged on finish, that of a claimed job waits until the job has ended or has another owner.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        publish: Callable[[Sequence[Hint]], Awaitable[None]],
        *,
        queues: Sequence[str] | None,
        free: Callable[[], int],
        wake: Signal,
        pause: float,
    ) -> None:
        self._deliveries, self._queues, self._free = deliveries, queues, free
        self._wake, self._publish, self._pause = wake, publish, pause
        self._waiting: list[Delivery] = []
        self._kept: dict[UUID, list[Delivery]] = {}

    @property
    def has_more(self) -> bool:
        """Whether any delivered job waits to be claimed."""
        return bool(self._waiting)

    async def step(self) -> float:
        """Fetch one delivery for each free slot, at most; return the seconds until the next fetch."""
        free = max(0, self._free() - len(self._waiting))
        fetched = await self._deliveries.fetch(self._queues, free)
        self._waiting += fetched
        await self._republish_surplus()
        if fetched:  # for those that wait already, the exchange itself knows when to ask again
            self._wake.set()
        return 0.0 if free else self._pause

    def next(self, most: int) -> dict[UUID, ClaimSource]:
        """Return the jobs to claim now, those delivered first, and how each came here."""
        found: dict[UUID, ClaimSource] = {}
        for delivery in self._waiting:
            if len(found) < most:
                found.setdefault(delivery.job, delivery.via)
        return found

    async def claimed(self, asked: Collection[UUID], taken: Collection[UUID]) -> None:
        """Acknowledge the jobs whose claim the store has answered; keep those in ``taken`` that are acknowledged on finish."""
        answered = [each for each in self._waiting if each.job in asked]
        self._waiting = [each for each in self._waiting if each.job not in asked]
        kept = [each for each in answered if self._deliveries.acks_on_finish and each.job in taken]
        for each in kept:
            self._kept.setdefault(each.job, []).append(each)
        await self._deliveries.acknowledge([each for each in answered if each not in kept] if kept else answered)

    async def finished(self, jobs: Iterable[UUID]) -> None:
        """Acknowledge the jobs that have ended or have another owner now, if their messages were kept until then."""
        if self._kept:
            done = [each for job in jobs for each in self._kept.pop(job, ())]
            if done:
                await self._deliveries.acknowledge(done)

    async def _republish_surplus(self) -> None:
        """Publish jobs whose slot was taken before they came, for a worker that has a free slot.

        Each goes out as a new message, so that a redelivery still means that a worker has failed.
        """
        surplus = len(self._waiting) - max(0, self._free())
        if surplus > 0:
            late, self._waiting = self._waiting[-surplus:], self._waiting[:-surplus]
            await self._publish([Hint(each.queue, (each.job,), each.rescued) for each in late])
            await self._deliveries.acknowledge(late)

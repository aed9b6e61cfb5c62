"""What was delivered to this worker: jobs to claim, and messages to acknowledge, whatever the claims say."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from uuid import UUID

from holdfast._engine.service import Signal
from holdfast._ports.transport import ClaimSource, Deliveries, Delivery, Hint


class Inbox:
    """Fetches no more than there is room for. A message is acknowledged once the store has answered the claim of its job, also
    if nothing was claimed, or, where messages last until the finish, when the job is no longer here."""

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
        """Whether anything waits to be claimed."""
        return bool(self._waiting)

    async def step(self) -> float:
        """Fetch what there is room for; seconds until it is worth it again."""
        free = max(0, self._free() - len(self._waiting))
        fetched = await self._deliveries.fetch(self._queues, free)
        self._waiting += fetched
        await self._republish_surplus()
        if fetched:  # for those that wait already, the exchange itself knows when to ask again
            self._wake.set()
        return 0.0 if free else self._pause

    def next(self, most: int) -> dict[UUID, ClaimSource]:
        """The jobs to claim now, those that came first, and what brought each here."""
        found: dict[UUID, ClaimSource] = {}
        for delivery in self._waiting:
            if len(found) < most:
                found.setdefault(delivery.job, delivery.via)
        return found

    async def claimed(self, asked: Collection[UUID], taken: Collection[UUID]) -> None:
        """The store has answered a claim of these jobs with those."""
        answered = [each for each in self._waiting if each.job in asked]
        self._waiting = [each for each in self._waiting if each.job not in asked]
        kept = [each for each in answered if self._deliveries.acks_on_finish and each.job in taken]
        for each in kept:
            self._kept.setdefault(each.job, []).append(each)
        await self._deliveries.acknowledge([each for each in answered if each not in kept] if kept else answered)

    async def finished(self, jobs: Iterable[UUID]) -> None:
        """These have ended, or are somebody else's."""
        if self._kept:
            done = [each for job in jobs for each in self._kept.pop(job, ())]
            if done:
                await self._deliveries.acknowledge(done)

    async def _republish_surplus(self) -> None:
        """What came after its slot was taken goes to somebody who has one: by a message of its own, so that its coming again
        still means that a worker has failed."""
        surplus = len(self._waiting) - max(0, self._free())
        if surplus > 0:
            late, self._waiting = self._waiting[-surplus:], self._waiting[:-surplus]
            await self._publish([Hint(each.queue, (each.job,), each.rescued) for each in late])
            await self._deliveries.acknowledge(late)

"""Holdfast's store without the engine: one caller that settles and claims in one call, as a worker does."""

from __future__ import annotations

from typing import Self

from bench.figures import rate_of
from bench.mongo.ours import HoldfastOnMongo
from bench.mongo.site import Site
from bench.objects.queues import HoldfastQueue
from holdfast.opening import open_store
from holdfast.settings import Settings


class BareStore:
    """The store of a fresh database."""

    def __init__(self, site: Site, ours: HoldfastOnMongo) -> None:
        self._site, self._ours = site, ours
        self.place = ours.place
        self.queue = HoldfastQueue(open_store(Settings.of(ours.place.url)))

    @classmethod
    async def at(cls, site: Site) -> Self:
        """Open a fresh database."""
        return cls(site, await HoldfastOnMongo.at(site, "store"))

    async def fill(self, count: int) -> None:
        """Enqueue this number of jobs."""
        await self._ours.enqueue_batches(count, min(count, 1000))

    async def drain_rate(self, count: int, limit: int) -> float:
        """Return the jobs a second that it claims and settles."""
        worker = await self.queue.worker(limit)

        async def drain() -> None:
            while await worker.exchange():
                pass

        return await rate_of(count, drain())

    async def close(self) -> None:
        """Close it, and remove what is in the database."""
        await self.queue.close()
        await self._ours.close()
        self._site.clear(self._ours.place)

"""Holdfast on MongoDB, through its front door."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Self

from bench.figures import rate_of
from bench.mongo.site import Document, Site
from bench.peers import Command, Place
from bench.peers.holdfast import Holdfast


class HoldfastOnMongo(Holdfast):
    """A database. ``processes``: those of its worker."""

    processes = 1

    def __init__(self, site: Site, place: Place) -> None:
        super().__init__(place, place.url)
        database = site.database(place)
        self.jobs, self._leases = database["holdfast.jobs"], database["holdfast.leases"]

    @classmethod
    def settings(cls) -> str:
        return cls.about(f"pymongo {version('pymongo')}")

    @classmethod
    async def at(cls, site: Site, name: str = "holdfast") -> Self:
        """Open it in a fresh database."""
        return await cls(site, site.place(name)).prepare()

    async def enqueue_rate(self, count: int, callers: int) -> float:
        """Return the jobs a second that callers enqueue, each one by one."""
        return await rate_of(count, self.enqueue_together(count, callers))

    async def enqueue_batches(self, count: int, size: int, payload: int | str = 0) -> float:
        """Return the jobs a second that are enqueued in batches of a size."""

        async def act() -> None:
            for start in range(0, count, size):
                await self._noop.aenqueue_many([{"n": payload}] * min(size, count - start))

        return await rate_of(count, act())

    async def pause(self) -> None:
        """Let workers start without beginning a job."""
        await self._app.queues.apause("default")

    async def resume(self) -> None:
        """Let the workers that have started claim."""
        await self._app.queues.aresume("default")

    def worker(self, reports: Path | None = None) -> Command:
        command = super().worker(reports)
        return Command([*command.arguments, "--processes", str(self.processes)], command.environment)

    def is_up(self) -> bool:
        """Return whether all worker processes have a lease."""
        return bool(self._leases.count_documents({"ended_at": {"$exists": False}}) == self.processes)

    def waiting(self) -> int:
        return int(self.jobs.count_documents(_due(), hint="waiting"))

    def first(self) -> object:
        return self.jobs.find_one(_due(), sort=[("available_at", 1)])["_id"]

    def has_begun(self, first: object) -> bool:
        return "line" not in self.jobs.find_one({"_id": first}, {"line": 1})

    def is_drained(self) -> bool:
        return not (self._has(_due(), "waiting") or self._has({"active": {"$exists": True}}, "active"))

    def _has(self, which: Document, index: str) -> bool:
        return self.jobs.find_one(which, {"_id": 1}, hint=index) is not None


def _due() -> Document:
    """Return the filter of the jobs that workers run now, and not of those beside them."""
    return {"line": {"$regex": "^-noop\\0"}, "available_at": {"$lte": datetime.now(UTC)}}

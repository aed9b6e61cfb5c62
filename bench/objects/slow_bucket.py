"""A bucket in memory that answers as late as a real one, and counts what it is paid for."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from msgspec import Struct

from holdfast._core.bucket_url import BucketUrl
from holdfast._ports.bucket import Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.memory_bucket import MemoryBucket


class Link(Struct, frozen=True):
    """The way to a bucket. ``latency``: seconds of a write without its body; a read takes 0.6 of it. ``bandwidth``: bytes a second.
    ``jitter``: the part by which a call is faster or slower, at most. ``lost``: the part of all writes that land without an answer."""

    latency: float
    bandwidth: float = 80e6
    jitter: float = 0.2
    lost: float = 0.0

    def seconds(self, *, size: int, is_read: bool) -> float:
        """Return how long one call takes."""
        part = 0.6 if is_read else 1.0
        return part * self.latency * random.uniform(1 - self.jitter, 1 + self.jitter) + size / self.bandwidth


class SlowBucket:
    """The objects of one name, for one client of them. Half of a call passes before its condition is judged, half after it."""

    def __init__(self, name: str, link: Link) -> None:
        self._bucket, self._link = MemoryBucket(BucketUrl.of(f"memory-object://{name}"), SystemClock()), link
        self.calls: Counter[str] = Counter()

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        self.calls["GET"] += 1
        await asyncio.sleep(self._link.seconds(size=0, is_read=True) / 2)
        found = await self._bucket.get(key, unless)
        await asyncio.sleep(self._link.seconds(size=len(found.body) if isinstance(found, Found) else 0, is_read=True) / 2)
        return found

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        self.calls["PUT"] += 1
        await asyncio.sleep(self._link.seconds(size=2 * len(body), is_read=False) / 2)
        try:
            etag = await self._bucket.put(key, body, match)
        finally:
            await asyncio.sleep(self._link.seconds(size=0, is_read=False) / 2)
        if random.random() < self._link.lost:
            raise BucketUnavailable(f"PUT {key}: no answer", BucketProblem.SERVER)
        return etag

    async def delete(self, key: str) -> None:
        self.calls["DELETE"] += 1
        await self._bucket.delete(key)

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        self.calls["LIST"] += 1
        return await self._bucket.list(folder)

    async def close(self) -> None:
        pass

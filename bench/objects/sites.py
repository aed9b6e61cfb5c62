"""The queues of the race, each on a separate bucket."""

from __future__ import annotations

from itertools import count
from uuid import uuid4

from bench.objects.by_hand import OneObject
from bench.objects.queues import HoldfastQueue, Queue
from bench.objects.slow_bucket import Link, SlowBucket
from holdfast._ports.bucket import Found
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.head import KEY, read
from holdfast.stores.objects.store import ObjectStore

NAMES = ("holdfast", "broker by hand", "no broker, by hand")
_numbers = count()


class Site:
    """One queue's bucket in memory. ``calls`` of each client of it are in ``buckets``."""

    def __init__(self, link: Link) -> None:
        self._name, self._link = f"bench-{next(_numbers)}", link
        self.buckets: list[SlowBucket] = []

    async def prepare(self) -> None:
        """Create a store of Holdfast."""
        await create(SlowBucket(self._name, Link(0.0)), uuid4())

    def bucket(self) -> SlowBucket:
        """Return one more client."""
        self.buckets.append(SlowBucket(self._name, self._link))
        return self.buckets[-1]

    def open(self, name: str) -> Queue:
        """Open one process's queue of a kind."""
        bucket = self.bucket()
        if name != "holdfast":
            return OneObject(bucket, is_only_writer=name == "broker by hand")
        url = f"memory-object://{self._name}"
        return HoldfastQueue(ObjectStore(url, clock=SystemClock(), chance=SystemRandomness(), bucket=bucket))

    @property
    def writes(self) -> int:
        """The writes so far, of which each costs the same, refused ones too."""
        return sum(each.calls["PUT"] for each in self.buckets)

    @property
    def reads(self) -> int:
        """The reads so far."""
        return sum(each.calls["GET"] for each in self.buckets)

    async def version(self) -> int:
        """Return the number of commits of a store of Holdfast."""
        found = await SlowBucket(self._name, Link(0.0)).get(KEY)
        assert isinstance(found, Found)
        return read(found.body).version

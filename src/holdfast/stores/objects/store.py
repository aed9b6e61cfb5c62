"""The store whose jobs are in a bucket. Every process that opens it writes to the bucket itself, unless a broker leads."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib.metadata import version
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatAnswer, Capabilities, Check
from holdfast._core.book.verbs import BookVerbs
from holdfast._core.bucket_url import BucketUrl
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import State
from holdfast._core.requests import BeatNote
from holdfast._forks import Forked, register
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.leading import Seat
from holdfast.databases.buckets.opening import open_bucket
from holdfast.databases.buckets.probe import probe
from holdfast.databases.loop_thread import LoopThread
from holdfast.errors import ConfigurationError
from holdfast.stores.objects.committer import Request
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.electing_committer import ElectingCommitter
from holdfast.stores.objects.election import HEARTBEAT
from holdfast.stores.objects.head import Leader
from holdfast.stores.objects.pieces import FULL

MOST_JOBS = 200_000
"""The jobs, finished ones among them, of which a check warns at half. Each takes about 2 KB of memory, and is read at the start."""


class ObjectStore(BookVerbs, Forked):
    """Jobs in one bucket below one prefix. A loop in a separate thread serves the calls of all threads and loops of the process.

    ``bucket``: another one than that of the URL, for tests. ``full``: the bytes of newest changes beyond which they are flushed.
    """

    def __init__(self, url: str, *, clock: Clock, chance: Randomness, bucket: Bucket | None = None, full: int = FULL) -> None:
        self._url, self._clock, self._chance, self._full = url, clock, chance, full
        self._bucket, self._large = bucket or open_bucket(url, clock), bucket or open_bucket(url, clock)
        self._thread = LoopThread("holdfast-objects")
        self._start()
        register(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("objects", "none")

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        """Renew the leases; report no elapsed time, because there is no clock that could have stepped."""
        return structs.replace(await super().beat(leases, draining=draining, notes=notes), elapsed=None)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self._committer.take_flow_changes()

    async def migrate(self) -> tuple[int, int]:
        await probe(self._url, clock=self._clock, chance=self._chance)
        return await self._thread.run(create(self._bucket, self._chance.uuid4()))

    async def check(self) -> tuple[Check, ...]:
        try:
            await probe(self._url, clock=self._clock, chance=self._chance)
        except ConfigurationError as error:
            return (Check("error", "conditions", str(error), "move the jobs to a server that passes before more are lost"),)
        server = BucketUrl.of(self._url).server
        kept = Check("ok", "conditions", f"{server} keeps the conditions of writes, also of 16 writers at once")
        return (kept, _size(await self.counts()))

    @property
    def seat(self) -> Seat:
        return self._committer.seat

    async def stand(self, url: str) -> None:
        if BucketUrl.of(self._url).interval > HEARTBEAT:
            raise ConfigurationError([f"a broker writes at least every {HEARTBEAT:g} s: lower interval= in the bucket's URL"])
        await probe(self._url, clock=self._clock, chance=self._chance)
        await self._thread.run(self._committer.stand(Leader(self._chance.uuid4(), url, version("holdfast"))))

    async def resign(self) -> None:
        await self._thread.run(self._committer.resign())

    async def close(self) -> None:
        await self._thread.run(self._committer.close())
        await self._bucket.close()
        await self._large.close()
        self._thread.close()

    def after_fork_in_child(self) -> None:
        """Start with an empty book in the child: that of the parent may have been in the middle of a change."""
        self._start()

    def _start(self) -> None:
        url = BucketUrl.of(self._url)
        self._committer = ElectingCommitter(
            self._bucket,
            url.public,
            large=self._large,
            clock=self._clock,
            chance=self._chance,
            interval=url.interval,
            full=self._full,
        )

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        request = Request(verb, arguments, keywords, self._clock.monotonic(), Future())
        self._thread.call(self._committer.add, request)
        return await asyncio.wrap_future(request.answer)


def _size(counts: Mapping[tuple[str, State], int]) -> Check:
    jobs = sum(counts.values())
    if jobs <= MOST_JOBS // 2:
        return Check("ok", "size", f"{jobs} jobs; up to {MOST_JOBS} fit into the memory of every process that opens the store")
    remedy = "shorten the retention of tasks, or use a PostgreSQL store"
    return Check("warning", "size", f"{jobs} jobs, and every process that opens the store keeps all of them in memory", remedy)

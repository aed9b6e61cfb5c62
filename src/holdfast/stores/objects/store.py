"""The store whose jobs are in a bucket. Every process that opens it writes to the bucket itself, unless a broker leads."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatAnswer, Capabilities, Check, Vitals
from holdfast._core.book.book import Book
from holdfast._core.book.verbs import BookVerbs
from holdfast._core.bucket_url import BucketUrl
from holdfast._core.error_groups import ErrorList, grouped
from holdfast._core.flow_changes import FlowChange
from holdfast._core.job import State
from holdfast._core.record import JobRecord
from holdfast._core.release import VERSION
from holdfast._core.requests import BeatNote, JobFilter
from holdfast._core.store_notices import StoreNotice
from holdfast._core.write_budget import WriteBudget
from holdfast._forks import Forked, register
from holdfast._ports.backup import Backup
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.leading import Standing
from holdfast._ports.upkeep import Compaction, Inspection, Verification
from holdfast.databases.buckets.opening import open_bucket, open_copy
from holdfast.databases.buckets.probe import probe
from holdfast.databases.loop_thread import LoopThread
from holdfast.errors import ConfigurationError
from holdfast.stores.objects.archives import Archived, Archives, Jobs
from holdfast.stores.objects.bodies import INLINE, Bodies, is_named
from holdfast.stores.objects.committer import Request
from holdfast.stores.objects.compaction import Compacting
from holdfast.stores.objects.copies import back_up, restore
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.electing_committer import ElectingCommitter
from holdfast.stores.objects.election import HEARTBEAT
from holdfast.stores.objects.findings import findings_of
from holdfast.stores.objects.head import FORMAT, Leader
from holdfast.stores.objects.inspection import inspect, read_head, verify
from holdfast.stores.objects.limits import LIMITS, Limits
from holdfast.stores.objects.pauses import Pauses
from holdfast.stores.objects.tidying import SIZES, Sizes
from holdfast.stores.objects.wall_clock import bucket_time


class ObjectStore(BookVerbs, Forked):
    """Jobs in one bucket below one prefix. A loop in a separate thread serves the calls of all threads and loops of the process.

    ``bucket``: another one than that of the URL, for tests; ``new_book`` makes another book. ``sizes``: those from which on parts of it
    become separate objects. ``limits``: the sizes from which on it takes no new jobs. ``inline``: the most bytes of a payload, result or
    checkpoint that its row has in it.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        chance: Randomness,
        bucket: Bucket | None = None,
        sizes: Sizes = SIZES,
        new_book: Callable[[], Book] = Book,
        limits: Limits = LIMITS,
        inline: int = INLINE,
    ) -> None:
        self._limits, self._inline = limits, inline
        self._open_connection = (lambda: open_bucket(url, clock)) if bucket is None else (lambda: bucket)
        self._url, self._clock, self._chance, self._sizes, self._new_book = url, clock, chance, sizes, new_book
        self._name = BucketUrl.of(url).public
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

    def take_notices(self) -> tuple[StoreNotice, ...]:
        return self._committer.notices.take()

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
        content = await self.inspect()
        _, head = await self._thread.run(read_head(self._bucket, self._name))
        bucket_now = await self._thread.run(bucket_time(self._bucket, self._chance))
        return (
            kept,
            *findings_of(head, content.unfinished + content.finished, self._limits, now=self._now(), bucket_now=bucket_now),
        )

    async def inspect(self) -> Inspection:
        return await self._thread.run(inspect(self._large, self._name))

    async def verify(self) -> Verification:
        return await self._thread.run(verify(self._large, self._name, self._now()))

    async def compact(self) -> Compaction:
        return await self._thread.run(Compacting(self._large, self._name, self._clock, self._chance).run())

    async def back_up(self, place: str) -> Backup:
        target, name = open_copy(place, self._clock)
        try:
            return await self._thread.run(back_up(self._large, self._name, target, name))
        finally:
            await target.close()

    async def restore(self, place: str, *, is_forced: bool = False) -> Backup:
        source, name = open_copy(place, self._clock)
        try:
            await probe(self._url, clock=self._clock, chance=self._chance)
            new = self._chance.uuid4()
            return await self._thread.run(restore(self._large, self._name, source, name, store=new, is_forced=is_forced))
        finally:
            await source.close()

    async def vitals(self) -> Vitals:
        return structs.replace(await super().vitals(), schema_version=FORMAT)

    @property
    def standing(self) -> Standing:
        return self._committer.standing

    async def stand(self, url: str) -> None:
        if BucketUrl.of(self._url).pace > HEARTBEAT:
            remedy = "lower interval=, or allow more writes, in the bucket's URL"
            raise ConfigurationError([f"a broker writes at least every {HEARTBEAT:g} s: {remedy}"])
        await probe(self._url, clock=self._clock, chance=self._chance)
        await self._thread.run(self._committer.stand(Leader(self._chance.uuid4(), url, VERSION)))

    async def resign(self) -> None:
        await self._thread.run(self._committer.resign())

    async def close(self) -> None:
        await self._thread.run(self._committer.close())
        await self._thread.run(self._bodies.close())
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
            self._name,
            large=self._large,
            clock=self._clock,
            chance=self._chance,
            pauses=Pauses(self._clock, self._chance, url.interval, [WriteBudget(*each) for each in url.writes]),
            sizes=self._sizes,
            new_book=self._new_book,
            limits=self._limits,
        )
        notices = self._committer.notices
        self._bodies = Bodies(self._open_connection, self._clock, self._chance, notices, inline=self._inline)
        self._archives = Archives(self._bodies, notices)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall(), UTC)

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        body_at = None
        if self._bodies.are_large((arguments, keywords)):
            body_at = self._clock.boottime()
            arguments, keywords = await self._thread.run(self._bodies.put_apart((arguments, keywords)))
        answer: Any
        if verb == "list":
            answer = await self._listed(*arguments, **keywords)
        elif verb == "errors":
            answer = await self._grouped(*arguments, **keywords)
        else:
            answer = await self._commit(verb, arguments, keywords, body_at)
        return await self._thread.run(self._bodies.fetch(answer)) if is_named(answer) else answer

    async def _listed(self, which: JobFilter) -> tuple[JobRecord, ...]:
        first = structs.replace(which, skip=0, limit=which.skip + which.limit)
        whole = await self._commit("list_whole", (first,), {})
        rows = await self._thread.run(self._archives.listed(whole, first)) if whole.archives else whole.rows
        return tuple(rows[which.skip :])

    async def _grouped(self, look: int, limit: int) -> ErrorList:
        return grouped(await self._listed(JobFilter(state=State.FAILED, limit=look)), look, limit)

    async def _commit(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any], body_at: float | None = None) -> Any:
        """Return the answer of a commit. A call that needs archives waits apart until they are read, so that no other call waits."""
        read = dict[str, Jobs]()
        while True:
            request = Request(verb, arguments, keywords, self._clock.monotonic(), Future(), body_at, read)
            self._thread.call(self._committer.add, request)
            try:
                return await asyncio.wrap_future(request.answer)
            except Archived as needed:
                read = {**read, **await self._thread.run(self._archives.read(verb, needed.archives))}

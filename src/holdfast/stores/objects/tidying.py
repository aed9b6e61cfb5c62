"""What a process does beside its commits: it flushes the tail, merges runs, archives jobs, and deletes what nothing names."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from msgspec import Struct

from holdfast._core.book.book import Book
from holdfast._core.book.table import RowChange
from holdfast._ports.bucket import Bucket, BucketUnavailable
from holdfast._ports.clock import Clock, Randomness
from holdfast.stores.objects.archives import JOBS, archive_of, key_of
from holdfast.stores.objects.head import Dropped, Head
from holdfast.stores.objects.notices import Notices
from holdfast.stores.objects.orphans import Orphans
from holdfast.stores.objects.pieces import FULL, Damaged, NewRun, collect, flush, merge, mergeable


class Sizes(Struct, frozen=True):
    """``full``: the bytes of newest changes beyond which they are flushed. ``archive``: the jobs of an archive."""

    full: int = FULL
    archive: int = JOBS


SIZES = Sizes()


class Tidying:
    """The tidying of one process. ``new_run`` and ``collected``: what the next commit adds to the head, and removes from its garbage.

    ``archive``: takes the arguments of a call of the verb ``archive``, and the time since boot at which its object was about to be written;
    returns its answer. ``is_ending``: no step begins any more.
    """

    def __init__(
        self,
        bucket: Bucket,
        clock: Clock,
        chance: Randomness,
        notices: Notices,
        sizes: Sizes,
        archive: Callable[[tuple[Any, ...], float], "Future[bool]"],
    ) -> None:
        self._bucket, self._clock, self._chance, self._notices, self._sizes = bucket, clock, chance, notices, sizes
        self._orphans, self._archive = Orphans(bucket, clock, chance), archive
        self.new_run: NewRun | None = None
        self.collected: tuple[Dropped, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._archived: Future[bool] | None = None
        self.is_ending = False

    @property
    def is_busy(self) -> bool:
        """Whether a step is being taken."""
        return self._task is not None

    def begin(self, head: Head, book: Book, now: datetime) -> None:
        """Take the next step, unless the last one has not ended. ``book``: as of this head."""
        if self._task is None and not self.is_ending:
            rows = [*book.contents()] if self._orphans.needs_rows else []
            # until the last archive is named, or not, its jobs are in the book
            old = book.archivable(now, self._sizes.archive) if self._archived is None or self._archived.done() else []
            self._task = asyncio.get_running_loop().create_task(self._tidy(head, rows, old, now))

    async def finish(self) -> None:
        """Return when no step is being taken."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def has_written(self, new_run: NewRun | None, collected: tuple[Dropped, ...]) -> None:
        """Forget what a commit has put into the head, unless there is more by now."""
        if self.new_run is new_run:
            self.new_run = None
        if self.collected is collected:
            self.collected = ()

    async def _tidy(self, head: Head, rows: Sequence[RowChange], old: Sequence[RowChange], now: datetime) -> None:
        try:
            nonce = self._chance.uuid4()
            if head.tail_size > self._sizes.full:
                self.new_run = await flush(self._bucket, head, nonce)
            elif runs := mergeable(head.runs):
                self.new_run = await merge(self._bucket, head, runs, nonce)
            if old:
                await self._put_into_archive(old)
            self.collected = await collect(self._bucket, head, now)
            await self._orphans.search(rows)
        except Damaged as error:
            self._notices.damage(error.key, error.what)
        except BucketUnavailable:
            pass  # the next commit tries again
        finally:
            self._task = None

    async def _put_into_archive(self, rows: Sequence[RowChange]) -> None:
        archive, content = await asyncio.to_thread(archive_of, rows)
        key, written_at = key_of(archive, self._chance), self._clock.boottime()
        await self._bucket.put(key, content)
        if not self.is_ending:
            self._archived = self._archive((key, archive, rows), written_at)

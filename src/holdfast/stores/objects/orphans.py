"""The end of bodies that no row names: their jobs were deleted, or their call failed after it had written them."""

import asyncio
from collections.abc import Sequence

from holdfast._core.book.table import RowChange
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Clock, Randomness
from holdfast.stores.objects.bodies import BODIES, OUR_BODY, keys_in
from holdfast.stores.objects.pieces import KEPT
from holdfast.stores.objects.wall_clock import bucket_time

FIRST, EVERY = 3600.0, 24 * 3600.0
"""The seconds after the start of a process, and after each search, until it lists all bodies."""


class Orphans:
    """The search of one process. A body that it finds in a list is judged by rows of a later commit: it may be named only then."""

    def __init__(self, bucket: Bucket, clock: Clock, chance: Randomness) -> None:
        self._bucket, self._clock, self._chance = bucket, clock, chance
        self._due_at = clock.monotonic() + FIRST
        self._suspects: frozenset[str] = frozenset()

    @property
    def needs_rows(self) -> bool:
        """Whether the next step judges what the last one has found."""
        return bool(self._suspects)

    async def search(self, rows: Sequence[RowChange]) -> None:
        """Take the next step. ``rows``: all of them, as of a commit after the step before, if it needs them."""
        if self._suspects:
            suspects, self._suspects = self._suspects, frozenset()
            named = await asyncio.to_thread(keys_in, (row for _, _, row in rows))
            for key in sorted(suspects - named):
                await self._bucket.delete(key)
        elif self._clock.monotonic() >= self._due_at:
            self._due_at = self._clock.monotonic() + EVERY
            self._suspects = await old_bodies(self._bucket, self._chance)


async def old_bodies(bucket: Bucket, chance: Randomness) -> frozenset[str]:
    """Return the keys of bodies that were written long ago: a call that wrote one has ended."""
    listed = await bucket.list(BODIES)
    latest = await bucket_time(bucket, chance) if listed else None
    return frozenset(each.key for each in listed if latest and latest - each.modified > KEPT and OUR_BODY.fullmatch(each.key))

"""The end of bodies and archives that no row names: their jobs were deleted, or the call that wrote them failed."""

from collections.abc import Sequence

from holdfast._core.book.table import RowChange
from holdfast._ports.bucket import Bucket
from holdfast._ports.clock import Clock, Randomness
from holdfast.stores.objects.archives import OUR_ARCHIVE, PAST, named_in
from holdfast.stores.objects.bodies import BODIES, OUR_BODY
from holdfast.stores.objects.pieces import KEPT
from holdfast.stores.objects.wall_clock import bucket_time

FIRST, EVERY = 3600.0, 24 * 3600.0
"""The seconds after the start of a process, and after each search, until it lists all objects."""
GRACE = 3600.0
"""The seconds for which an object is kept that a search has found: a backup, or a list of jobs, may still read it."""


class Orphans:
    """The search of one process. An object that it finds in a list is judged by rows of a later commit: it may be named only then."""

    def __init__(self, bucket: Bucket, clock: Clock, chance: Randomness) -> None:
        self._bucket, self._clock, self._chance = bucket, clock, chance
        self._due_at = clock.monotonic() + FIRST
        self._suspects = self._condemned = frozenset[str]()

    @property
    def needs_rows(self) -> bool:
        """Whether the next step judges what the last one has found."""
        return bool(self._suspects)

    async def search(self, rows: Sequence[RowChange]) -> None:
        """Take the next step. ``rows``: all of them, as of a commit after the step before, if it needs them."""
        if self._suspects:
            suspects, self._suspects = self._suspects, frozenset()
            unnamed = suspects - await named_in(self._bucket, rows)
            for key in sorted(unnamed & self._condemned):
                await self._bucket.delete(key)
            self._condemned = unnamed - self._condemned
            if self._condemned:
                self._due_at = self._clock.monotonic() + GRACE
        elif self._clock.monotonic() >= self._due_at:
            self._due_at = self._clock.monotonic() + EVERY
            self._suspects = await old_objects(self._bucket, self._chance)


async def old_objects(bucket: Bucket, chance: Randomness) -> frozenset[str]:
    """Return the keys of bodies and archives that were written long ago: a call that wrote one has ended."""
    bodies, archives = await bucket.list(BODIES), await bucket.list(PAST)
    listed = [each for each in bodies if OUR_BODY.fullmatch(each.key)] + [
        each for each in archives if OUR_ARCHIVE.fullmatch(each.key)
    ]
    if not listed:
        return frozenset()
    latest = await bucket_time(bucket, chance)
    return frozenset(each.key for each in listed if latest - each.modified > KEPT)

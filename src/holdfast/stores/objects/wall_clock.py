"""The wall clock of this process, corrected where it differs from the bucket's: by it jobs are due for all processes."""

from datetime import UTC, datetime, timedelta

from holdfast._ports.bucket import Bucket, Found
from holdfast._ports.clock import Clock, Randomness
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.head import Head
from holdfast.stores.objects.notices import Notices

TOLERATED = 5.0
"""The seconds by which the clock may differ. The time of a bucket has whole seconds, and calls take some."""
EVERY = 600.0
"""The seconds after which the clocks are compared again."""
_MOST_APART = timedelta(0, 2 * TOLERATED)
"""By how much two clocks may differ. A commit from later than that is by a clock that was wrong."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WallClock:
    """The time of this process, plus a correction."""

    def __init__(self, bucket: Bucket, clock: Clock, chance: Randomness, notices: Notices) -> None:
        self._bucket, self._clock, self._chance, self._notices = bucket, clock, chance, notices
        self._correction = self._noticed = 0.0
        self._compared_at = float("-inf")

    @property
    def is_unsure(self) -> bool:
        """Whether the clocks must be compared before the next write."""
        return self._clock.monotonic() - self._compared_at > EVERY

    def now(self, head: Head) -> datetime:
        """Return the corrected time, not before the last commit of a process whose clock is ahead: rates are counted by it."""
        now = _EPOCH + timedelta(0, 0, round((self._clock.wall() + self._correction) * 1e6))
        last = head.tail[-1].at if head.tail else now
        return last if now < last <= now + _MOST_APART else now

    async def compare(self) -> None:
        """Compare the clocks. ``StoreUnavailable``: the bucket gave no answer."""
        sent = self._clock.wall()
        there, answered = (await bucket_time(self._bucket, self._chance)).timestamp(), self._clock.wall()
        is_near = sent - TOLERATED <= there <= answered + TOLERATED
        self._correction = 0.0 if is_near else there - (sent if there < sent else answered)
        self._compared_at = self._clock.monotonic()
        if abs(self._correction - self._noticed) > TOLERATED:
            self._noticed = self._correction
            self._notices.correct(self._correction)


async def bucket_time(bucket: Bucket, chance: Randomness) -> datetime:
    """Return the time on the bucket's clock, which an object shows that is written for this."""
    key = f"probe/{chance.uuid4()}"
    await bucket.put(key, b"")
    try:
        found = await bucket.get(key)
    finally:
        await bucket.delete(key)
    if not isinstance(found, Found):
        raise StoreUnavailable("an object that was just written is absent: remove the cache between Holdfast and the bucket")
    return found.modified

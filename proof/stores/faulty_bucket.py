"""A bucket in memory whose calls end as calls to real ones do, as a seed decides: refused, lost, cut, late, stale, half."""

from random import Random

from holdfast._ports.bucket import UNCHANGED, Absent, Bucket, BucketProblem, BucketUnavailable, Found, Listed, Unchanged

Late = tuple[str, bytes, str | Absent | None]


class FaultyBucket:
    """Passes calls on, but for a part of them. ``writes`` and ``reads``: the part that goes wrong.

    Of the writes that go wrong, some are refused although their condition holds, some happen without an answer, some do not happen, and
    some happen after later calls. Of such reads, some have no answer, some return an object that is older than one that was read
    before, and some a part of one.
    """

    def __init__(self, bucket: Bucket, chance: Random, *, writes: float, reads: float) -> None:
        self._bucket, self._chance, self._writes, self._reads = bucket, chance, writes, reads
        self._late = list[Late]()
        self._read = dict[str, tuple[Found, Found | None]]()
        self.faults = dict[str, int]()

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        """Read an object, or what a cache or a gateway makes of it."""
        await self._catch_up()
        fault = self._fault(self._reads, "no answer", "stale", "half")
        if fault == "no answer":
            raise BucketUnavailable(f"GET {key}: reset", BucketProblem.UNREACHABLE)
        found = await self._bucket.get(key)
        if not isinstance(found, Found):
            return found
        newest, older = self._read.get(key) or (None, None)
        # A process can recognise an object as stale only if it has read a later one: the probe refuses other servers.
        if fault == "stale" and older is not None and older.etag != unless:
            return older
        if fault == "half" and key == "head.json":
            return Found(found.body[: len(found.body) // 2], found.etag, found.modified)
        if newest is None or newest.etag != found.etag:
            self._read[key] = found, newest
        return UNCHANGED if found.etag == unless else found

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        """Write an object, or not."""
        await self._catch_up()
        fault = self._fault(self._writes, "refused", "lost", "cut", "late")
        if fault == "refused":
            raise BucketUnavailable(f"PUT {key}: the condition failed", BucketProblem.CONDITION)
        if fault == "cut":
            raise BucketUnavailable(f"PUT {key}: reset", BucketProblem.SERVER)
        if fault == "late":
            self._late.append((key, body, match))
            raise BucketUnavailable(f"PUT {key}: no answer in time", BucketProblem.UNREACHABLE)
        etag = await self._bucket.put(key, body, match)
        if fault == "lost":
            raise BucketUnavailable(f"PUT {key}: reset", BucketProblem.SERVER)
        return etag

    async def delete(self, key: str) -> None:
        """Delete an object: no call of this kind goes wrong."""
        await self._bucket.delete(key)

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        """Return all objects below a folder."""
        return await self._bucket.list(folder)

    async def close(self) -> None:
        """Close the bucket behind it."""
        await self._bucket.close()

    async def _catch_up(self) -> None:
        """Let some of the late writes happen now, if their condition still holds."""
        for each in [*self._late]:
            if self._chance.random() < 0.5:
                self._late.remove(each)
                try:
                    await self._bucket.put(*each)
                except BucketUnavailable:
                    continue

    def _fault(self, part: float, *kinds: str) -> str | None:
        if self._chance.random() >= part:
            return None
        kind = self._chance.choice(kinds)
        self.faults[kind] = self.faults.get(kind, 0) + 1
        return kind

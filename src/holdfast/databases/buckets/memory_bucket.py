"""A bucket in the memory of this process, for tests and demonstrations: those of one name share their objects."""

from collections import defaultdict
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock

from msgspec import Struct

from holdfast._core.bucket_url import BucketUrl
from holdfast._ports.bucket import ABSENT, UNCHANGED, Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged
from holdfast._ports.clock import Clock


class _Objects(Struct):
    """The objects of one name, and the lock that makes a condition and its write one step."""

    found: dict[str, Found] = {}
    lock: Lock = Lock()


_SHARED: defaultdict[str, _Objects] = defaultdict(lambda: _Objects({}, Lock()))


class MemoryBucket:
    """Objects by key, with the ETags and the answers of the others; they last as long as the process."""

    def __init__(self, url: BucketUrl, clock: Clock) -> None:
        self._url, self._clock, self._shared = url, clock, _SHARED[url.bucket]

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        found = self._shared.found.get(key)
        if found is None:
            return ABSENT
        return UNCHANGED if found.etag == unless else found

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        with self._shared.lock:
            found = self._shared.found.get(key)
            if match is not None and match != (ABSENT if found is None else found.etag):
                problem = f"{self._url.public}: PUT {key}: the condition failed: read the object to learn which write is in it"
                raise BucketUnavailable(problem, BucketProblem.CONDITION)
            # As on S3, the same bytes have the same ETag.
            new = Found(bytes(body), f'"{sha256(body).hexdigest()[:32]}"', datetime.fromtimestamp(self._clock.wall(), UTC))
            self._shared.found[key] = new
        return new.etag

    async def delete(self, key: str) -> None:
        with self._shared.lock:
            self._shared.found.pop(key, None)

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        with self._shared.lock:
            found = sorted(self._shared.found.items())
        below = f"{folder}/" if folder else ""
        return tuple(Listed(key, len(each.body), each.modified) for key, each in found if key.startswith(below))

    async def close(self) -> None:
        pass

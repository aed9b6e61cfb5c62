"""The probe: does this server keep its conditions? A store on a server that does not would lose jobs and run them twice.

Servers that check a condition and then act pass every test of one caller, so that 16 writers on 16 connections race as well.
"""

import asyncio
import contextlib
from functools import partial
from typing import NoReturn

from holdfast._core.bucket_url import BucketUrl
from holdfast._ports.bucket import ABSENT, Absent, Bucket, BucketProblem, BucketUnavailable, Found
from holdfast._ports.clock import Clock, Randomness
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import ConfigurationError

WRITERS = 16
ROUNDS = 3
_TRIES = 5
_PAUSE = 1.0  # seconds after a 429
_OF_SETTINGS = (BucketProblem.DENIED, BucketProblem.NO_BUCKET, BucketProblem.REGION)
_WRITES = "use a server whose conditional writes are atomic, such as Amazon S3, or a newer release of this one"
_READS = "remove the cache between Holdfast and the bucket, or use a server that reads what was written"


async def probe(url: str, *, clock: Clock, chance: Randomness) -> None:
    """Test the conditions of the server of a bucket on keys of the probe's own, and delete them.

    ``ConfigurationError``: the server fails a test, or the settings do not fit the bucket. ``StoreUnavailable``: it gave no answer.
    """
    buckets = [open_bucket(url, clock)]
    try:
        await _Probe(url, buckets, clock, f"probe/{chance.uuid4()}").run()
    except BucketUnavailable as error:
        if error.problem in _OF_SETTINGS:
            raise ConfigurationError([str(error)]) from None
        raise
    finally:
        for bucket in buckets:
            await bucket.close()


class _Probe:
    """One run of all tests."""

    def __init__(self, url: str, buckets: list[Bucket], clock: Clock, folder: str) -> None:
        self._url, self._clock, self._folder = BucketUrl.of(url), clock, folder
        self._bucket, self._writers = buckets[0], buckets
        self._open = partial(open_bucket, url, clock)

    async def run(self) -> None:
        """Run the tests, and delete their objects also after a failure."""
        try:
            await self._test_conditions()
            await self._test_race()
        except BaseException:
            with contextlib.suppress(BucketUnavailable):
                await self._clean_up()
            raise
        await self._clean_up()

    async def _test_conditions(self) -> None:
        key, other, absent = (f"{self._folder}/{name}" for name in ("one", "two", "none"))
        first = await self._create(key, b"first")
        foreign = await self._create(other, b"other")
        await self._read("read after write", key, b"first")
        await self._refuse("create twice", key, ABSENT, b"first")
        await self._refuse("wrong ETag", key, foreign, b"first")
        await self._pause()
        second = await self._write_surely("right ETag", key, b"second", first)
        await self._read("read after write", key, b"second", unless=first)
        await self._refuse("previous ETag", key, first, b"second")
        await self._refuse("condition on an absent key", absent, second, None)

    async def _test_race(self) -> None:
        key = f"{self._folder}/race"
        etag, decided = await self._create(key, b"start"), 0
        self._writers += [self._open() for _ in range(WRITERS - 1)]
        await asyncio.gather(*(writer.get(key) for writer in self._writers))  # connects all of them
        for number in range(2 * ROUNDS):
            await self._pause()
            lost = await self._race(key, etag, b"%d" % number)
            decided += len(lost) < WRITERS
            if decided == ROUNDS:
                return
            if len(lost) == WRITERS:  # such as on a server that is slower than its settings say
                await self._clock.sleep(_PAUSE)
            etag = await self._etag_of(key)
        raise lost[0]

    async def _race(self, key: str, etag: str, label: bytes) -> list[BucketUnavailable]:
        """Let all writers write at once on one ETag, and return the errors of those that lost."""
        bodies = [b"%b %d" % (label, place) for place in range(WRITERS)]
        calls = [writer.put(key, body, etag) for writer, body in zip(self._writers, bodies, strict=True)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        won = [body for body, answer in zip(bodies, answers, strict=True) if isinstance(answer, str)]
        if len(won) > 1:
            self._fail("race", f"{len(won)} of {WRITERS} writers won with one ETag", _WRITES)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, BucketUnavailable):
                raise answer
        if won:
            await self._read("read after write", key, won[0])
        return [answer for answer in answers if isinstance(answer, BucketUnavailable)]

    async def _create(self, key: str, body: bytes) -> str:
        return await self._write_surely("create", key, body, ABSENT)

    async def _write_surely(self, test: str, key: str, body: bytes, match: str | Absent) -> str:
        """Write with a condition that holds, several times if the server refuses: it may have answered 409, which asks for another try."""
        for _ in range(_TRIES):
            if (etag := await self._write(key, body, match)) is not None:
                return etag
            found = await self._bucket.get(key)
            if isinstance(found, Found) and found.body == body:  # the refused write was done
                return found.etag
        return self._fail(test, "it refused a write whose condition held", _WRITES)

    async def _write(self, key: str, body: bytes, match: str | Absent) -> str | None:
        """Write as slowly as the server asks; ``None`` if it reports that the condition failed."""
        for _ in range(_TRIES):
            try:
                return await self._bucket.put(key, body, match)
            except BucketUnavailable as error:
                if error.problem is BucketProblem.CONDITION:
                    return None
                if error.problem is not BucketProblem.THROTTLED:
                    raise
                throttled = error
            await self._clock.sleep(max(self._url.interval, _PAUSE))
        raise throttled

    async def _refuse(self, test: str, key: str, match: str | Absent, kept: bytes | None) -> None:
        """Write with a condition that does not hold: it must be refused, and what was there must be there still."""
        await self._pause()
        if await self._write(key, b"wrong", match) is not None:
            self._fail(test, "it accepted a write whose condition did not hold", _WRITES)
        found = await self._bucket.get(key)
        if (found.body if isinstance(found, Found) else None) != kept:
            self._fail(test, "it reported that the condition failed, and wrote", _WRITES)

    async def _read(self, test: str, key: str, body: bytes, unless: str | None = None) -> None:
        found = await self._bucket.get(key, unless)
        if not isinstance(found, Found) or found.body != body:
            self._fail(test, "a read did not return the write before it", _READS)

    async def _etag_of(self, key: str) -> str:
        found = await self._bucket.get(key)
        if not isinstance(found, Found):
            self._fail("read after write", "an object disappeared", _READS)
        return found.etag

    async def _pause(self) -> None:
        if self._url.interval:
            await self._clock.sleep(self._url.interval)

    async def _clean_up(self) -> None:
        for name in ("one", "two", "none", "race"):
            await self._bucket.delete(f"{self._folder}/{name}")

    def _fail(self, test: str, what: str, remedy: str) -> NoReturn:
        raise ConfigurationError([f"{self._url.public}: {self._url.server} fails the test '{test}': {what}: {remedy}"])

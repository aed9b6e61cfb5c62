"""Large payloads, results and checkpoints as objects beside the head: a commit names them, and other processes need not read them."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

from holdfast._core.apart import is_apart, name_apart, place_of
from holdfast._ports.bucket import ABSENT, Absent, Bucket, BucketUnavailable, Found, Unchanged
from holdfast._ports.clock import Clock, Randomness
from holdfast.stores.objects.carriers import bytes_in, replaced
from holdfast.stores.objects.notices import Notices

BODIES = "bodies"
"""The folder of the bodies."""
OUR_BODY = re.compile(rf"{BODIES}/[0-9a-f]{{32}}\.bin")
"""The keys of bodies. What else is in their folder is not deleted: it may belong to another program."""
FRESH = 3600.0
"""The seconds after which no commit names a body for the first time: others might delete it, because no row names it."""
INLINE = 2048
"""The most bytes that a row has in it. More would be written again with each change of the row."""
_KEPT = 64 * 1024 * 1024
"""The bytes of objects that a process keeps in memory, the last used ones."""
_MOST = 16 * 1024 * 1024
"""The bytes beyond which the bodies of one call begin another object: each is written and read whole."""
_AT_ONCE = 8
"""The calls that a process makes at once: a claim may need the bodies of a hundred jobs."""
_LONGEST_WAIT = 10.0
_PAUSE = 0.2

Answer = TypeVar("Answer")


class Bodies:
    """The bodies of one store. ``open_connection`` opens another connection, because the calls of one wait for each other."""

    def __init__(
        self, open_connection: Callable[[], Bucket], clock: Clock, chance: Randomness, notices: Notices, *, inline: int = INLINE
    ) -> None:
        self._open, self._clock, self._chance, self._notices, self._inline = open_connection, clock, chance, notices, inline
        self._turns, self._idle = asyncio.Semaphore(_AT_ONCE), list[Bucket]()
        self._kept = OrderedDict[str, bytes]()

    def are_large(self, value: Any) -> bool:
        """Return whether bytes in a value belong apart."""
        return bool(_found(value, self._is_large))

    async def put_apart(self, value: Any) -> Any:
        """Write the large bytes in a value together, and return the value with their names. They are durable before they are named."""
        names = dict[bytes, bytes]()
        for group in _groups(_found(value, self._is_large)):
            key, offset = f"{BODIES}/{self._chance.uuid4().hex}.bin", 0
            for body in group:
                names[body] = name_apart(body, key, offset)
                offset += len(body)
            await self._write(key, b"".join(group))
        return replaced(value, lambda data: names.get(data, data))

    async def fetch(self, answer: Any) -> Any:
        """Return an answer with the bytes that it names; or with the problem, as text, if their object is missing or damaged."""
        keys = sorted({place_of(name).key for name in _found(answer, is_apart)})
        objects = dict(zip(keys, await asyncio.gather(*map(self.object_of, keys)), strict=True))

        def body_of(data: bytes) -> bytes:
            if not is_apart(data):
                return data
            place = place_of(data)
            whole = objects[place.key]
            body = None if whole is None else place.part_of(whole)
            if body is None:
                problem = "is missing in the bucket" if whole is None else "has other bytes than were written"
                self._notices.damage(place.key, problem)
                return f"{place.key} {problem}".encode()
            return body

        return replaced(answer, body_of)

    async def object_of(self, key: str) -> bytes | None:
        """Return an object, from memory if it was used lately; ``None`` if it is missing."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        found: Found | Absent | Unchanged = await self._insist(lambda bucket: bucket.get(key))
        if found is ABSENT:
            return None
        assert isinstance(found, Found)
        self._keep(key, found.body)
        return found.body

    def forget(self, key: str) -> None:
        """Read an object again when it is next used."""
        self._kept.pop(key, None)

    async def close(self) -> None:
        """End the connections, which open again with the next call."""
        while self._idle:
            await self._idle.pop().close()

    def _is_large(self, data: bytes) -> bool:
        return len(data) > self._inline or is_apart(data)

    async def _write(self, key: str, whole: bytes) -> None:
        await self._insist(lambda bucket: bucket.put(key, whole))
        self._keep(key, whole)

    def _keep(self, key: str, body: bytes) -> None:
        self._kept[key] = body
        while sum(map(len, self._kept.values())) > _KEPT and len(self._kept) > 1:
            self._kept.popitem(last=False)

    async def _insist(self, call: Callable[[Bucket], Awaitable[Answer]]) -> Answer:
        """Return the answer of a call that may be repeated. ``StoreUnavailable``: there was none for a while."""
        deadline = self._clock.monotonic() + _LONGEST_WAIT
        async with self._turns:
            bucket = self._idle.pop() if self._idle else self._open()
            try:
                while True:
                    try:
                        return await call(bucket)
                    except BucketUnavailable:
                        if self._clock.monotonic() + _PAUSE > deadline:
                            raise
                    await self._clock.sleep(_PAUSE)
            finally:
                self._idle.append(bucket)


def is_named(answer: Any) -> bool:
    """Return whether an answer names bytes that are apart."""
    return bool(_found(answer, is_apart))


def keys_in(rows: Iterable[Any]) -> set[str]:
    """Return the keys of the bodies that rows name."""
    return {place_of(name).key for row in rows for name in _found(row, is_apart)}


def _groups(bodies: list[bytes]) -> Iterator[list[bytes]]:
    group, size = list[bytes](), 0
    for body in bodies:
        if group and size + len(body) > _MOST:
            yield group
            group, size = [], 0
        group.append(body)
        size += len(body)
    yield group


def _found(value: Any, is_wanted: Callable[[bytes], bool]) -> list[bytes]:
    return [*dict.fromkeys(each for each in bytes_in(value) if is_wanted(each))]

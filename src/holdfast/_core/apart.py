"""Bytes that are stored apart from the row that has them. The row has their name: their digest, and where they are."""

import re
from hashlib import sha256

from msgspec import Struct

_MARK = b"\0apart "
_IDENTITY = len(_MARK) + 64
_NAME = re.compile(re.escape(_MARK) + rb"([0-9a-f]{64}) (\S+) (\d+) (\d+)")


class Place(Struct, frozen=True):
    """Where such bytes are: the key of an object, and the part of it. ``digest``: by which a damaged object is noticed."""

    digest: str
    key: str
    offset: int
    size: int

    def part_of(self, whole: bytes) -> bytes | None:
        """Return the bytes out of the object; ``None`` if it is damaged."""
        part = whole[self.offset : self.offset + self.size]
        return part if sha256(part).hexdigest() == self.digest else None


def name_apart(data: bytes, key: str, offset: int) -> bytes:
    """Return the name of bytes that are stored at this place.

    >>> place_of(name_apart(b"12345", "bodies/0.bin", 7)).part_of(b"before 12345 after")
    b'12345'
    """
    return _MARK + f"{sha256(data).hexdigest()} {key} {offset} {len(data)}".encode()


def is_apart(data: bytes) -> bool:
    """Return whether this is such a name. Bytes of a user that look like one must be stored apart, too."""
    return data.startswith(_MARK) and _NAME.fullmatch(data) is not None


def place_of(name: bytes) -> Place:
    """Return the place in a name."""
    digest, key, offset, size = name.removeprefix(_MARK).decode().split(" ")
    return Place(digest, key, int(offset), int(size))


def are_equal(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two are equal, or name equal bytes: their places differ if they are stored twice."""
    if one is None or other is None or not (is_apart(one) or is_apart(other)):
        return one == other
    return _identity_of(one) == _identity_of(other)


def _identity_of(data: bytes) -> bytes:
    return (data if is_apart(data) else name_apart(data, "", 0))[:_IDENTITY]

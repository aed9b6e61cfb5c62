"""Cursors of lists: the position, bound to the filter it was made for, and signed so that no sender can make one."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import sha256
from typing import Final
from uuid import UUID

from holdfast.errors import InvalidCursor

_POSITION: Final = 16
_SEAL: Final = 16


class Cursors:
    """Makes and reads cursors. Every process that serves the same store accepts them, also after a restart.

    >>> cursors = Cursors("sqlite:///jobs.db")
    >>> text = cursors.make(UUID(int=7), "state=failed")
    >>> cursors.read(text, "state=failed").int
    7
    """

    def __init__(self, store: str) -> None:
        self._key = sha256(f"holdfast cursors\0{store}".encode()).digest()

    def make(self, position: UUID, which: str) -> str:
        """Return the cursor after this job in the list of this filter."""
        return urlsafe_b64encode(position.bytes + self._seal(position.bytes, which)).decode().rstrip("=")

    def read(self, text: str, which: str) -> UUID:
        """Return the position. Raises ``InvalidCursor`` for one of another filter, or for text that is none."""
        try:
            found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except (Error, ValueError):
            found = b""
        position, seal = found[:_POSITION], found[_POSITION:]
        if len(position) != _POSITION or not hmac.compare_digest(seal, self._seal(position, which)):
            raise InvalidCursor(["cursor: it is not the `next` of a page of this filter: start without one"])
        return UUID(bytes=position)

    def _seal(self, position: bytes, which: str) -> bytes:
        return hmac.new(self._key, position + which.encode(), sha256).digest()[:_SEAL]

"""Limits on what a server reads and on how much it does at once."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.requests import ClientDisconnect, Request

BODY_TIMEOUT: Final = 10.0
"""Seconds for the body of a request: a sender that is slower occupies a connection without using it."""
DISCARDED: Final = 4
"""How many times the limit a body may have to be read to its end."""
MOST_REQUESTS: Final = 1000
"""Requests in flight, beyond which a broker asks the senders to come again."""


MOST_SENDERS: Final = 10_000


class Rates:
    """How many requests a second each sender may make, at least one; a second's worth may come at once. ``now``: a monotonic clock.

    A generic cell rate algorithm (ITU-T I.371).
    """

    def __init__(self, per_second: int, now: Callable[[], float]) -> None:
        self._apart, self._now = 1.0 / per_second, now
        self._due_at: dict[str, float] = {}

    def accepts(self, sender: str) -> bool:
        """Return whether the sender may make a request now, and count it if so."""
        now = self._now()
        due_at = max(self._due_at.get(sender, now), now)
        is_accepted = due_at + self._apart <= now + 1.0
        if is_accepted:
            if len(self._due_at) >= MOST_SENDERS:
                self._due_at = {name: at for name, at in self._due_at.items() if at > now}
            self._due_at[sender] = due_at + self._apart
        return is_accepted


class BodyTooLarge(Exception):
    """A request has more bytes than its limit."""


async def read_body(request: Request, most: int) -> bytes:
    """Read the body of a request. Raises ``BodyTooLarge``, and ``ClientDisconnect`` for a slow sender.

    A body that is somewhat too large is read to its end, without keeping it: a sender does not see the answer before.
    """
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > DISCARDED * most:
        raise BodyTooLarge
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                size += len(part)
                if size > DISCARDED * most:
                    break
                if size <= most:
                    parts.append(part)
    except TimeoutError:
        raise ClientDisconnect from None
    if size > most:
        raise BodyTooLarge
    return b"".join(parts)

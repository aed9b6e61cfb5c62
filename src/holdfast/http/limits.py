"""Limits on what a server reads and on how much it does at once."""

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect, Request

BODY_TIMEOUT: Final = 10.0
"""Seconds for the body of a request: a sender that is slower occupies a connection without using it."""
MOST_REQUESTS: Final = 1000
"""Requests in flight, beyond which a broker asks the senders to come again."""


class BodyTooLarge(Exception):
    """A request has more bytes than its limit."""


async def read_body(request: Request, most: int) -> bytes:
    """Read the body of a request. Raises ``BodyTooLarge`` as soon as that is known, and ``ClientDisconnect`` for a slow sender."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise BodyTooLarge
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > most:
                    raise BodyTooLarge
    except TimeoutError:
        raise ClientDisconnect from None
    return b"".join(parts)

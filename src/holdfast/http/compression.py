"""gzip for pages and answers. Streams of events stay as they are: a compressor would hold each event back."""

from collections.abc import Callable
from typing import Final

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

LEAST: Final = 1000
"""Bytes from which it is worth it."""
LEVEL: Final = 5
"""Half of the time of the highest level, for a few percent more bytes."""


class Compressed:
    """An application whose answers are compressed for clients that accept it. ``leaves``: whether a path stays uncompressed.

    Pages with a form stay so: each has the token of a session beside words from its address. An attacker who chooses such words, has the
    page sent many times and sees its length could guess the token (BREACH). The cookie of the session is ``SameSite=Strict``, so no
    other site can have it sent; leaving these few small pages alone makes that certain.
    """

    def __init__(self, app: ASGIApp, leaves: Callable[[str], bool]) -> None:
        self._plain, self._leaves = app, leaves
        self._zipped = GZipMiddleware(app, minimum_size=LEAST, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have one request answered, compressed or not."""
        path = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", "")).rstrip("/"))
        await (self._plain if self._leaves(path) else self._zipped)(scope, receive, send)

"""A browser without scripts: it asks the dashboard for a page, and takes it apart."""

import asyncio
from html.parser import HTMLParser
from typing import Any, NamedTuple

from holdfast.dashboard import Dashboard

OWN = (b"host", b"localhost:8400")


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


class Elements(HTMLParser):
    """The elements of a page, each with its attributes, and all of its text."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self) -> list[str]:
        """Return the addresses of all links, pictures, styles and scripts."""
        return [value for _, attrs in self.found for name in ("href", "src", "action") if (value := attrs.get(name))]


async def ask(
    dashboard: Dashboard,
    path: str,
    *,
    method: str = "GET",
    headers: tuple[tuple[bytes, bytes], ...] = (OWN,),
    peer: str = "127.0.0.1",
    root: str = "",
    body: bytes = b"",
) -> Reply:
    """Send one request as a server would."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": root + where,
        "raw_path": (root + where).encode(),
        "query_string": query.encode(),
        "root_path": root,
        "headers": list(headers),
        "client": (peer, 40_000),
        "server": ("127.0.0.1", 8400),
    }
    await dashboard(scope, receive, send)
    begun, *rest = sent
    named = {name.decode(): value.decode() for name, value in begun["headers"]}
    return Reply(begun["status"], named, b"".join(part.get("body", b"") for part in rest).decode())


def get(dashboard: Dashboard, path: str, **more: Any) -> Reply:
    """Send one request in a separate event loop."""
    return asyncio.run(ask(dashboard, path, **more))

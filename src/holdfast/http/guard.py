"""Which requests a page that knows no users may answer: those of this machine, to its own address."""

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast._core.listen_address import is_loopback

_NAMES: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
_OF_PROXIES: Final = ("forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip")

Headers = Sequence[tuple[bytes, bytes]]
"""The headers of an ASGI scope: their names are in lower case."""


def refusal(peer: str | None, headers: Headers) -> str | None:
    """Return why a request is refused, as a sentence with its remedy; ``None``: it may be answered.

    A proxy that passes requests on adds a header. A page on another site that reaches this address by another name (DNS rebinding)
    has that name in ``Host``. A browser marks what a page of another site loads without its user.

    >>> refusal("127.0.0.1", [(b"host", b"localhost:8400")])
    >>> refusal("10.0.0.7", [(b"host", b"localhost:8400")])
    'It came from 10.0.0.7, which is another machine. Forward the port to yours: ssh -L 8400:127.0.0.1:8400 HOST.'
    """
    if not _is_own(peer):
        origin = "an unknown address" if peer is None else f"{peer}, which is another machine"
        return f"It came from {origin}. Forward the port to yours: ssh -L 8400:127.0.0.1:8400 HOST."
    for name, _ in headers:
        header = name.decode("latin-1")
        if header in _OF_PROXIES or header.startswith("x-forwarded-"):
            return f"A proxy passed it on (the header {header}). Ask this machine's own address, such as http://localhost:8400."
    given = dict(headers)
    if given.get(b"sec-fetch-site") == b"cross-site" and given.get(b"sec-fetch-mode") != b"navigate":
        return "A page of another site asked for it in the background. Open it in a tab."
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if len(hosts) != 1 or _name_of(hosts[0]) not in _NAMES:
        asked = ", ".join(hosts) or "none"
        return f"Its Host is {asked}, which is not a name of this machine. Use localhost, 127.0.0.1 or [::1]."
    return None


def foreign(headers: Mapping[str, str]) -> str | None:
    """Return why a change is refused that a page of another site has sent; ``None``: a page of this address sent it, or a program.

    >>> foreign({"host": "localhost:8400", "origin": "http://localhost:8400", "sec-fetch-site": "same-origin"})
    >>> foreign({"host": "localhost:8400", "origin": "https://evil.example"})
    'It comes from https://evil.example, and not from localhost:8400.'
    """
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and (not host or origin.partition("://")[2].lower() != host.lower()):
        return f"It comes from {origin}, and not from {host or 'here'}."
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return f"A page of another site sent it ({headers['sec-fetch-site']})."
    return None


def _is_own(peer: str | None) -> bool:
    """Return whether the other end of the connection is on this machine; a socket for both families has a prefix before addresses."""
    return peer is not None and is_loopback(peer.removeprefix("::ffff:"))


def _name_of(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()

"""The URL of a PostgreSQL database, as libpq defines it: checked, and never shown with its password.

It is read without any driver, so that a wrong URL is reported as a problem of the settings.
"""

from typing import Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from msgspec import Struct

from holdfast._core.schemes import POSTGRES

CONNECT_TIMEOUT = 10.0

_LOOKS = "postgresql://user:password@host:5432/database, more hosts after commas, options such as sslmode=require after a ?"
_OURS = frozenset({"connect_timeout", "pooler"})
# The store does itself, or not at all, what libpq does with these options; the driver would send them to the server as settings.
_LEFT_OUT = frozenset({"channel_binding", "client_encoding", "gssencmode", "keepalives", "keepalives_idle", "sslcompression"})
_LEFT_OUT |= {"keepalives_interval", "keepalives_count", "tcp_user_timeout", "load_balance_hosts", "fallback_application_name"}


class PostgresUrl(Struct, frozen=True):
    """A checked URL. ``url``: for the driver. ``public``: for people. ``is_pooled``: each transaction may have another server
    connection."""

    url: str
    public: str
    is_pooled: bool = False
    connect_timeout: float = CONNECT_TIMEOUT

    @classmethod
    def of(cls, url: str, pooler: str | None = None) -> Self:
        """Parse a URL in which ``problems_of_location`` finds no problem.

        >>> PostgresUrl.of("postgresql://jobs:secret@db/shop?pooler=transaction")
        PostgresUrl(url='postgresql://jobs:secret@db/shop', public='postgresql://jobs@db/shop?…', is_pooled=True, connect_timeout=10.0)
        """
        parts = urlsplit(url)
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        kept = {name: value for name, value in asked.items() if name not in _OURS | _LEFT_OUT}
        if "," in parts.netloc.rpartition("@")[2] or "," in asked.get("host", ""):
            kept.setdefault("target_session_attrs", "primary")
        query = f"?{urlencode(kept, quote_via=quote)}" if kept else ""
        return cls(
            f"{parts.scheme}://{parts.netloc}{parts.path}{query}",
            public_url(url),
            asked.get("pooler", pooler) == "transaction",
            float(asked.get("connect_timeout") or 0) or CONNECT_TIMEOUT,
        )


def problems_of_location(url: str, pooler: str | None = None) -> list[str]:
    """Return what is wrong with a URL, naming the remedy and no password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return [f"the store's URL cannot be read; write {_LOOKS}"]
    if "@" in parts.netloc.rpartition("@")[0] + parts.path + parts.query + parts.fragment:
        # The checks below would show a part of the password.
        return ["the store's URL: in a user or password write @ as %40, / as %2F, ? as %3F and # as %23"]
    public = public_url(url)
    if parts.scheme not in POSTGRES or not url.startswith(f"{parts.scheme}://") or parts.fragment:
        return [f"{public!r}: write {_LOOKS}"]
    found = []
    for host in parts.netloc.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if ":" in host.rpartition("]")[2] and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            found.append(f"{public!r}: its port is no number from 1 to 65535")
    try:
        asked = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
    except ValueError:
        return [*found, f"{public!r}: write options as name=value, & between"]
    if (seconds := asked.get("connect_timeout")) and not (seconds.isascii() and seconds.isdigit()):
        found.append(f"{public!r}: connect_timeout is a number of seconds, 0 for {CONNECT_TIMEOUT:g}")
    if (mode := asked.get("pooler", pooler)) not in (None, "transaction"):
        found.append(f"pooler={mode!r}: use 'transaction' behind a pooler in that mode, else leave it out")
    return found


def public_url(url: str) -> str:
    """Return the URL without its secrets: a password, a token instead of a user, and all options.

    With a second @, or one among the options, no rule decides where a secret ends; then only the scheme is shown.

    >>> public_url("postgresql://jobs:secret@db/shop?password=secret")
    'postgresql://jobs@db/shop?…'
    >>> public_url("postgresql://jobs:sec@ret@db/shop")
    'postgresql://…'
    """
    scheme, found, rest = url.partition("://")
    if not found:
        name, colon, _ = url.partition(":")
        return f"{name}{colon}…" if colon else url
    before, asked, options = rest.partition("?")
    if rest.count("@") > 1 or "@" in options:
        return f"{scheme}{found}…"
    who, at, place = before.rpartition("@")
    user, colon, _ = who.partition(":")
    is_token = user and not colon and scheme not in POSTGRES
    return f"{scheme}{found}{'…' if is_token else user}{at}{place.partition('#')[0]}{'?…' if asked else ''}"

"""The address of a transport, as users write it in ``transport=``: checked, and never shown with its password."""

import re
from typing import Literal, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

from holdfast._core import postgres_url as location
from holdfast._core.durations import seconds
from holdfast._core.schemes import BROKERS, MONGO, POSTGRES
from holdfast._core.timing import LeaseTiming

ACK_WAIT = 600.0
SCHEMES = ("nats", "tls")
CHANGES = "mongodb+changes"
SUPPORTED = (
    "use None for what fits the store, 'poll', 'nats://host:4222', 'postgres' with a postgresql:// store, "
    "or 'mongodb+changes' with a mongodb:// store; "
    "options follow a ?, for example 'nats://host:4222?ack=finish&ack_wait=10m'"
)

_OPTIONS = ("ack", "ack_wait", "replicas", "stream")
_STREAM = re.compile(r"[A-Za-z0-9_-]{1,100}")
_PORT = re.compile(r"[0-9]{1,5}")


class TransportUrl(Struct, frozen=True, kw_only=True):
    """The settings of a transport. ``servers``: URLs without user and password. ``token``: used instead of a user.

    ``ack``: a message is acknowledged once its job is claimed, or when it is finished. ``ack_wait``: seconds after which an
    unacknowledged message is delivered again. ``stream``: its name, if the user chose one.
    """

    kind: Literal["poll", "postgres", "mongodb+changes", "nats"]
    servers: tuple[str, ...] = ()
    user: str | None = None
    password: str | None = None
    token: str | None = None
    ack: Literal["claim", "finish"] = "claim"
    ack_wait: float = ACK_WAIT
    replicas: int = 1
    stream: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse an address in which ``problems_of_address`` finds no problem.

        >>> TransportUrl.of("nats://a:4222,b?ack_wait=5m").servers
        ('nats://a:4222', 'nats://b:4222')
        """
        if text in ("poll", "postgres", CHANGES):
            return cls(kind=text)  # type: ignore[arg-type]
        parts = urlsplit(text)
        asked = dict(parse_qsl(parts.query))
        name, password = _secrets(parts)
        return cls(
            kind="nats",
            servers=tuple(f"{parts.scheme}://{host}" for host in _hosts(parts)),
            user=None if password is None else name,
            password=password,
            token=name if password is None else None,
            ack=asked.get("ack", "claim"),  # type: ignore[arg-type]
            ack_wait=seconds(asked["ack_wait"]) if "ack_wait" in asked else ACK_WAIT,
            replicas=int(asked.get("replicas", 1)),
            stream=asked.get("stream"),
        )

    @property
    def public(self) -> str:
        """The servers or the kind, without secrets, for people."""
        return ",".join(self.servers) or self.kind


def listens(url: str, address: TransportUrl | None, pooler: str | None) -> bool:
    """Return whether hints use LISTEN; a pooler in transaction mode offers no separate connection to listen on."""
    if address is not None:
        return address.kind == "postgres"
    return url.partition("://")[0] in POSTGRES and not location.PostgresUrl.of(url, pooler).is_pooled


def tails(url: str, address: TransportUrl | None) -> bool:
    """Return whether hints go through a collection of the store's database on MongoDB."""
    return (address is None or address.kind == CHANGES) and url.partition("://")[0] in MONGO


def server_of_hints(url: str, transport: str | None, pooler: str | None) -> str:
    """Return the server that carries hints, for people; an empty string if none does.

    >>> server_of_hints("sqlite:///jobs.db", "nats://me:secret@a:4222", None)
    'NATS at nats://a:4222'
    """
    address = None if transport is None else TransportUrl.of(transport)
    if address is not None and address.kind == "nats":
        return f"NATS at {address.public}"
    if address is None and url.partition("://")[0] in BROKERS:
        return f"the broker at {url}"
    if tails(url, address):
        return f"MongoDB at {location.public_url(url)}"
    return f"LISTEN at {location.public_url(url)}" if listens(url, address, pooler) else ""


def problems_of_address(
    text: object, timing: LeaseTiming, recovery_interval: float, *, store: str, pooler: str | None
) -> list[str]:
    """Return what is wrong with ``transport=`` for this store's URL, each with its remedy and without a password."""
    if text is None or text == "poll":
        return []
    if text == "postgres":
        return _problems_of_listening(store, pooler)
    if text == CHANGES:
        is_mongo = store.partition("://")[0] in MONGO
        return [] if is_mongo else [f"transport={CHANGES!r} needs a mongodb:// store; {SUPPORTED}"]
    if not isinstance(text, str):
        return [f"transport={text!r}: no such transport; {SUPPORTED}"]
    try:
        parts = urlsplit(text)
    except ValueError:
        return [f"transport: its URL cannot be read; {SUPPORTED}"]
    if parts.scheme not in SCHEMES or not text.startswith(f"{parts.scheme}://"):
        return [f"transport={_public(text)!r}: no such transport; {SUPPORTED}"]
    if "@" in parts.netloc.partition("@")[2].partition(",")[0] + parts.path + parts.query + parts.fragment:
        # The checks below would show a part of the password.
        return ["transport: in a user or password write @ as %40, / as %2F, ? as %3F and # as %23"]
    found = [*_problems_of_place(parts), *_problems_of_options(parts.query)]
    if not found:
        wait, least = TransportUrl.of(text).ack_wait, timing.ttl + recovery_interval
        if wait <= least:
            found.append(
                f"transport: ack_wait > ttl + recovery_interval is broken: ack_wait={wait:g}s, ttl + recovery_interval={least:g}s;"
                " the store recovers a job before the queue delivers it again: raise ack_wait, or lower ttl"
            )
    return found


def _problems_of_listening(store: str, pooler: str | None) -> list[str]:
    if not store.startswith(tuple(f"{scheme}://" for scheme in POSTGRES)):
        return [f"transport='postgres' needs a postgresql:// store; {SUPPORTED}"]
    if pooler == "transaction" or "pooler=transaction" in store.partition("?")[2]:
        return ["transport='postgres': a pooler in transaction mode cannot LISTEN; use None, 'poll' or 'nats://host:4222'"]
    return []


def _problems_of_place(parts: SplitResult) -> list[str]:
    users = {host.rpartition("@")[0] for host in parts.netloc.split(",") if "@" in host}
    found = []
    if len(users) > 1:
        found.append("transport: one user for all servers: write it before the first one, nats://user:password@a:4222,b:4222")
    if parts.path.strip("/") or parts.fragment:
        found.append("transport: nothing but options follows the servers, after a ?")
    for host in _hosts(parts):
        name, _, port = host.rpartition(":")
        if not name or not (_PORT.fullmatch(port) and 0 < int(port) < 65536):
            shown = "what follows a comma" if users else repr(host)  # a comma in a password would make a server of it
            found.append(f"transport: {shown} is no server: write host:port, commas between several, and a comma itself as %2C")
    return found


def _problems_of_options(query: str) -> list[str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        return ["transport: write options as name=value, & between, for example ?ack=finish&ack_wait=10m"]
    found, asked = [], dict(pairs)
    found += [f"transport: there is no option {name!r}; use {', '.join(_OPTIONS)}" for name in asked if name not in _OPTIONS]
    if len(asked) < len(pairs):
        found.append("transport: an option is given twice; give each once")
    if asked.get("ack", "claim") not in ("claim", "finish"):
        found.append(f"transport: ack={asked['ack']!r}: use claim (once the job is claimed) or finish (when it has ended)")
    if not asked.get("replicas", "1").isdecimal() or not 1 <= int(asked.get("replicas", "1")) <= 5:
        found.append(f"transport: replicas={asked['replicas']!r}: use a whole number from 1 to 5")
    if not _STREAM.fullmatch(asked.get("stream", "-")):
        found.append(f"transport: stream={asked['stream']!r}: use 1 to 100 letters, digits, _ and -")
    try:
        seconds(asked.get("ack_wait", ACK_WAIT))
    except ValueError as error:
        found.append(f"transport: ack_wait: {error}")
    return found


def _hosts(parts: SplitResult) -> list[str]:
    hosts = [host.rpartition("@")[2] for host in parts.netloc.split(",")]
    return [host if ":" in host.rpartition("]")[2] else f"{host}:4222" for host in hosts]


def _secrets(parts: SplitResult) -> tuple[str | None, str | None]:
    """Return the user or token, and the password."""
    who = next((host.rpartition("@")[0] for host in parts.netloc.split(",") if "@" in host), None)
    if who is None:
        return None, None
    name, colon, password = who.partition(":")
    return unquote(name), unquote(password) if colon else None


def _public(text: str) -> str:
    """Return the text without possible secrets; a user without a password is a token."""
    scheme, found, rest = text.partition("://")
    if rest.count("@") > 1 or "@" in rest.partition("?")[2]:
        return f"{scheme}://…"
    if not found:
        return text.rpartition("@")[2].partition("?")[0]
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"

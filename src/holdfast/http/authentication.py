"""Ready-made authenticators: a password, a token, the header of a trusted proxy, and a link that is good for one browser."""

from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Collection, Sequence
from hmac import compare_digest
from ipaddress import ip_address, ip_network
from typing import Final

from starlette.requests import Request

from holdfast.errors import ConfigurationError
from holdfast.http.guard import refusal
from holdfast.http.identity import LOCAL, Authenticate, Identity, Role
from holdfast.http.sessions import Sessions


def bearer(find: Callable[[str], Identity | None]) -> Authenticate:
    """Recognise senders by the token in ``Authorization: Bearer …``. ``find`` returns whose it is.

    >>> known = bearer({"s3cret": Identity("deploy", ["operator"])}.get)
    """

    def authenticate(request: Request) -> Identity | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return find(token.strip()) if scheme.lower() == "bearer" and token.strip() else None

    return _Challenging(authenticate, "Bearer")


def basic(verify: Callable[[str, str], Identity | None]) -> Authenticate:
    """Have the browser ask for a name and a password. ``verify`` returns who that is, and compares in constant time. Use it with TLS only.

    >>> known = basic(lambda name, password: Identity(name, ["viewer"]) if password == "s3cret" else None)
    """

    def authenticate(request: Request) -> Identity | None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            name, colon, password = b64decode(given, validate=True).decode().partition(":")
        except (Error, ValueError):
            return None
        return verify(name, password) if colon else None

    return _Challenging(authenticate, 'Basic realm="Holdfast", charset="UTF-8"')


def by_token(find: Callable[[str], Identity | None]) -> Authenticate:
    """Recognise a token from ``Authorization: Bearer …``, or as the password that a browser asks for; any name goes with it."""
    ways = (bearer(find), basic(lambda _, token: find(token)))
    return _Challenging(lambda request: ways[0](request) or ways[1](request), str(getattr(ways[1], "challenge", "")))


def header(
    name: str, *, trusted: Sequence[str], roles: Collection[Role | str] | Callable[[str], Collection[Role | str]] = (Role.VIEWER,)
) -> Authenticate:
    """Take the user's name from a header that a proxy of a trusted network sets. ``roles``: of all users, or a function of the name.

    The proxy must remove that header from what users send. Raises ``ConfigurationError`` for a network that cannot be read.

    >>> known = header("X-User", trusted=["10.0.0.0/8"], roles=lambda name: ["admin"] if name == "anna" else ["viewer"])
    """
    try:
        networks = [ip_network(each) for each in trusted]
    except ValueError as error:
        raise ConfigurationError([f"trusted: {error}: write addresses or networks, such as 10.0.0.0/8"]) from None
    if not networks:
        raise ConfigurationError(["trusted: name the addresses of your proxy, such as ['10.0.0.0/8']"])
    roles_of = roles if callable(roles) else lambda _: roles

    def authenticate(request: Request) -> Identity | None:
        users = request.headers.getlist(name)
        try:
            peer = ip_address((request.client.host if request.client else "").removeprefix("::ffff:"))
        except ValueError:
            return None
        is_trusted = any(peer in network for network in networks)
        return Identity(users[0], roles_of(users[0])) if is_trusted and len(users) == 1 and users[0] else None

    return authenticate


class OneTimeLink:
    """Recognise the one browser that opened a link with this token; on this machine only."""

    is_local: Final = True
    challenge: Final = "Bearer"

    def __init__(self, token: str, sessions: Sessions) -> None:
        self._token: str | None = token
        self._sessions, self._entered = sessions, set[str]()

    def __call__(self, request: Request) -> Identity | None:
        session, peer = self._sessions.of(request), None if request.client is None else request.client.host
        return LOCAL if session in self._entered and refusal(peer, request.headers.raw) is None else None

    def enter(self, token: str) -> str | None:
        """Return a session for the token, which is used up then; ``None`` for another token, and the second time."""
        if self._token is None or not compare_digest(self._token.encode(), token.encode()):
            return None
        self._token, session = None, self._sessions.new()
        self._entered.add(session)
        return session


class _Challenging:
    """An authenticator that states which scheme it expects."""

    def __init__(self, authenticate: Authenticate, challenge: str) -> None:
        self._authenticate, self.challenge = authenticate, challenge

    def __call__(self, request: Request) -> Identity | None:
        return self._authenticate(request)

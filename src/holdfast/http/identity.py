"""The sender of a request, and its roles."""

from collections.abc import Callable
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from msgspec import Struct
from starlette.datastructures import Address
from starlette.requests import Request


class Role(StrEnum):
    """What a token is for. ``PRODUCER`` enqueues and reads its jobs, ``WORKER`` runs jobs and recovers them, ``VIEWER`` reads,
    ``OPERATOR`` also steers jobs and queues, ``ADMIN`` may do everything."""

    PRODUCER = "producer"
    WORKER = "worker"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Identity(Struct, frozen=True):
    """The sender of a request, as an authenticator recognised it."""

    name: str
    roles: frozenset[Role]

    def has(self, roles: frozenset[Role]) -> bool:
        """Return whether it has one of these roles, or may do everything."""
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)


Authenticate = Callable[[Request], Identity | None]
"""An authenticator: it returns who sends a request, or None for a request that it does not recognise."""
LOCAL: Final = Identity("local", frozenset((Role.ADMIN,)))
"""Every process of this machine, where nothing else can connect."""
_NAMES = frozenset(("localhost", "127.0.0.1", "[::1]"))
_OF_OTHERS = ("origin", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def local(request: Request) -> Identity | None:
    """Recognise requests of programs on this machine to its own address.

    Not those of a page in a browser, which reaches this address by another name or names its origin. Nor those that a proxy passes on.
    """
    host = request.headers.get("host", "")
    is_named = (host if host.endswith("]") else host.rpartition(":")[0] or host) in _NAMES
    is_passed_on = any(name in request.headers for name in _OF_OTHERS)
    return LOCAL if is_named and not is_passed_on and _is_loopback(request.client) else None


def _is_loopback(client: Address | None) -> bool:
    try:
        return client is not None and ip_address(client.host).is_loopback
    except ValueError:
        return False

"""The sender of a request, and its roles."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct
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


def local(request: Request) -> Identity | None:
    """Recognise requests to this machine's own address. A page of a browser reaches it by another name, and is refused."""
    host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
    return LOCAL if host in ("localhost", "127.0.0.1", "[::1]") and "origin" not in request.headers else None

"""The sender of a request, and its roles."""

from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs
from starlette.requests import Request

from holdfast.errors import ConfigurationError
from holdfast.http.guard import refusal


class Role(StrEnum):
    """What a token is for. ``PRODUCER`` enqueues and reads its jobs, ``WORKER`` runs jobs and recovers them, ``VIEWER`` reads,
    ``OPERATOR`` also steers jobs and queues, ``ADMIN`` may do everything."""

    PRODUCER = "producer"
    WORKER = "worker"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Identity(Struct, frozen=True):
    """The sender of a request, as an authenticator recognised it.

    >>> Identity("anna", ["operator"]).roles
    frozenset({<Role.OPERATOR: 'operator'>})
    """

    name: str
    roles: Collection[Role | str]

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.roles) - set(Role)):
            raise ConfigurationError([f"roles: {unknown[0]!r} is not a role: use {', '.join(Role)}"])
        structs.force_setattr(self, "roles", frozenset(Role(each) for each in self.roles))

    def has(self, roles: frozenset[Role]) -> bool:
        """Return whether it has one of these roles, or may do everything."""
        return Role.ADMIN in self.roles or not roles.isdisjoint(self.roles)


Authenticate = Callable[[Request], Identity | None]
"""An authenticator: it returns who sends a request, or None for a request that it does not recognise."""
LOCAL: Final = Identity("local", frozenset((Role.ADMIN,)))
"""Every process of this machine, where nothing else can connect."""


def local(request: Request) -> Identity | None:
    """Recognise requests of programs on this machine to its own address.

    Not those of a page in a browser, which reaches this address by another name or names its origin. Nor those that a proxy passes on.
    """
    peer = None if request.client is None else request.client.host
    is_own = "origin" not in request.headers and refusal(peer, request.headers.raw) is None
    return LOCAL if is_own else None

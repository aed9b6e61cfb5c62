"""What a sender may do: each action belongs to the least role that may take it."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from holdfast.http.identity import Identity, Role


class Action(StrEnum):
    """What a request does, as ``authorize`` is asked about it."""

    READ = "read"
    READ_PAYLOAD = "payload.read"
    ENQUEUE = "enqueue"
    CANCEL = "cancel"
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    PAUSE = "pause"
    RESUME = "resume"
    RUN = "run"
    DRAIN = "drain"
    RECOVER = "recover"
    REVEAL = "reveal"
    STOP = "stop"
    DELETE = "delete"
    PURGE = "purge"
    RESET = "reset"


READS: Final = frozenset((Action.READ, Action.READ_PAYLOAD))
_ADMIN: Final = frozenset((Action.DELETE, Action.PURGE, Action.RESET))
_OPERATOR: Final = frozenset((Role.OPERATOR,))
_MAKES: Final = frozenset((Role.PRODUCER, Role.OPERATOR))
ROLES: Final[Mapping[Action, frozenset[Role]]] = {
    **dict.fromkeys(Action, _OPERATOR),
    **dict.fromkeys(_ADMIN, frozenset((Role.ADMIN,))),
    Action.READ: frozenset((Role.VIEWER, Role.OPERATOR)),
    Action.READ_PAYLOAD: frozenset((Role.PRODUCER, Role.WORKER, Role.OPERATOR)),
    Action.ENQUEUE: _MAKES,
    Action.CANCEL: _MAKES,
}
"""The roles that may take each action; an admin may take all."""

Authorize = Callable[[Identity, str, str], bool]
"""A function of the sender, the action and the path of what it is about: it may refuse what a role allows, and nothing more."""


def any_target(_: Identity, action: str, target: str) -> bool:
    """Allow everything that the role allows."""
    del action, target
    return True

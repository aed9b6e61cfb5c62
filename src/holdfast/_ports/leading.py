"""The port to a store of which one broker at a time is the only writer."""

from typing import Protocol

from msgspec import Struct

from holdfast.errors import StoreUnavailable

LEADER_HEADER = "Holdfast-Leader"
"""The header of a broker that does not lead: the URL of the one that does."""
VERSION_HEADER = "Holdfast-Version"
"""The header of a leading broker: the newest epoch and version that it knows."""
MISDIRECTED = 421


class Seat(Struct, frozen=True):
    """What a broker knows of the leadership. ``leader``: the URL of the broker that leads; ``None``: none does. ``version``: as a
    header, for clients that have seen a later one."""

    is_leading: bool
    leader: str | None
    version: str


class Refused(StoreUnavailable):
    """The call has changed nothing, and will not: it may be sent again, elsewhere."""


class Misdirected(Refused):
    """Another process leads the store, or none does. ``leader``: its URL."""

    def __init__(self, message: str, leader: str | None) -> None:
        super().__init__(message)
        self.leader = leader


class Electing(Protocol):
    """What a store has whose brokers elect one of them."""

    @property
    def seat(self) -> Seat:
        """What this process knows of the leadership, without a look."""
        ...

    async def stand(self, url: str) -> None:
        """Stand for election from now on; return once this broker leads or follows. ``url``: where clients reach it."""
        ...

    async def resign(self) -> None:
        """Refuse new calls, finish those that have begun, and hand the leadership to the next one that looks."""
        ...

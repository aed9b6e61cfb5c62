"""How idle workers learn that work may have come. A hint may be dropped, repeated, reordered or late; polling runs underneath."""

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from msgspec import Struct


class Hint(Struct, frozen=True):
    """Ids only: jobs of this queue may be due, or these jobs changed. Without a queue it is meant for everybody."""

    queue: str = ""
    ids: tuple[UUID, ...] = ()


class Transport(Protocol):
    """Carries hints between processes; never owns anything and never raises into its caller."""

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Tell listeners, as well as it goes; returns whether or not anybody heard it."""
        ...

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """From now on call ``wake`` in the running loop for each hint that arrives."""
        ...

    async def close(self) -> None:
        """Stop listening and leave nothing behind."""
        ...

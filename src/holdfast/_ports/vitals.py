"""The optional part of the store port that answers how a store is kept: cheap enough to be asked every few seconds."""

from typing import Protocol

from holdfast._core.answers import Vitals


class HasVitals(Protocol):
    """The verb for it."""

    async def vitals(self) -> Vitals:
        """Return how the store is kept, from a bounded number of rows."""
        ...

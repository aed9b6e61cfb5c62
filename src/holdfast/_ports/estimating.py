"""The optional verb of a store that knows from statistics about how many jobs have finished."""

from typing import Protocol

from holdfast._core.job import State


class Estimates(Protocol):
    """The verb for stores that keep such statistics anyway."""

    async def estimates(self) -> dict[State, int]:
        """Return about how many jobs have completed, failed and were cancelled, without a look at jobs.

        A state of which the store knows nothing is missing.
        """
        ...

"""Worlds without chance: streams that always return the middle and the first, and a loop that runs callbacks in order."""

import random
from collections.abc import Sequence
from typing import Any, TypeVar
from zlib import crc32

from proof.simulator.loop import PROCESS, Handle, VirtualLoop

T = TypeVar("T")


class Steady(random.Random):
    """The middle of every range, the first of every choice; ids are the stream's purpose and a number."""

    def __init__(self, purpose: str) -> None:
        super().__init__(0)
        self._purpose = crc32(purpose.encode())
        self._count = 0

    def random(self) -> float:
        """Return the middle of the range, always."""
        return 0.5

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        """Return the first element, always."""
        return seq[0]

    def getrandbits(self, k: int, /) -> int:
        """Return another number each time, also than other streams return."""
        self._count += 1
        # The count comes first, because reports show the first part of an id.
        return (self._count << 104 | (self._purpose + self._count) % 2**32) & ((1 << k) - 1)


class SteadyLoop(VirtualLoop):
    """A loop that runs callbacks in their order. ``swaps``: which process runs first instead, at the n-th moment with several.

    ``moments``: how many processes could run, at each of these moments.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.swaps: dict[int, int] = {}
        self.moments: list[int] = []

    def stream(self, purpose: str) -> random.Random:
        """Return a stream without chance."""
        return Steady(purpose)

    def _interleaved(self, batch: list[Handle]) -> list[Handle]:
        owners: list[Any] = [handle.context.get(PROCESS) for handle in batch]
        if owners.count(owners[0]) == len(owners):
            return batch
        several = list(dict.fromkeys(owners))
        self.moments.append(len(several))
        place = self.swaps.get(len(self.moments), 0)
        first = several[min(place, len(several) - 1)]
        order = sorted(range(len(batch)), key=lambda each: owners[each] is not first) if place else range(len(batch))
        return [batch[each] for each in order]

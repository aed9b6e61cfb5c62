"""A store without a clock, as object storage is: whoever asks times the changes that he sees himself."""

from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatAnswer
from holdfast._ports.clock import Clock
from holdfast.stores.memory import MemoryStore


class Clockless(MemoryStore):
    """Leases and limits are judged by the asker's monotonic time since he first saw them so: put it before a memory store, and
    tell it whose clock is whose. What is due is told by the time that the service writes on its answers."""

    clock_of: Callable[[str], Clock]
    caller: str

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._first_seen: dict[tuple[str, UUID, int], int] = {}

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False) -> BeatAnswer:
        """There is no clock that could have stepped."""
        return structs.replace(await super().beat(leases, draining=draining), elapsed=None)

    def _passed(self, what: UUID, since: int) -> int:
        now = round(self.clock_of(self.caller).monotonic() * 1e6)
        return now - self._first_seen.setdefault((self.caller, what, since), now)

"""A store without a clock, as object storage is: each caller times the changes that it sees itself."""

from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatAnswer
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment, micros
from holdfast._core.requests import BeatNote
from holdfast._ports.clock import Clock
from holdfast.stores.memory import MemoryStore


class Sighted(Moment, frozen=True):
    """The moment of a call. ``look``: return for how long its caller has seen a stamp."""

    look: Callable[[UUID, int], int]

    def elapsed(self, what: UUID, since: int) -> int:
        return self.look(what, since)


class Clockless(MemoryStore):
    """A memory store that judges leases and limits by the caller's monotonic time since that caller first saw them so.

    ``clock_of`` returns the clock of a caller. What is due is judged by the time that the service writes on its answers.
    """

    clock_of: Callable[[str], Clock]
    caller: str

    def __init__(self, clock: Clock, book: Book | None = None) -> None:
        super().__init__(clock, book)
        self._first_seen: dict[tuple[str, UUID, int], int] = {}

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        """Renew the leases; report no elapsed time, because there is no clock that could have stepped."""
        return structs.replace(await super().beat(leases, draining=draining, notes=notes), elapsed=None)

    def moment(self) -> Moment:
        now = super().moment()
        return Sighted(now.wall, now.stamp, self._passed)

    def _passed(self, what: UUID, since: int) -> int:
        now = micros(self.clock_of(self.caller).monotonic())
        return now - self._first_seen.setdefault((self.caller, what, since), now)

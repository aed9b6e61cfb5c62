"""For how long this process has seen a stamp. There is no clock that all processes of a bucket share."""

from collections.abc import Callable
from uuid import UUID

from holdfast._core.book.moment import Moment, micros
from holdfast._ports.clock import Clock

Stamped = tuple[UUID, int]
"""The id of a lease or a job, and the stamp that its newest beat, start or movement got."""

_MOST = 100_000


class Sighted(Moment, frozen=True):
    """The moment of a verb. ``first``: the first stamp of its write. What has such a stamp is not in the bucket yet: another process may
    write it there later with an equal one. ``look``: returns for how many microseconds a stamp has been seen. ``listen``: returns a
    string that changes with every beat from memory."""

    first: int
    look: Callable[[UUID, int], int]
    listen: Callable[[UUID], str]

    def elapsed(self, what: UUID, since: int) -> int:
        return 0 if since >= self.first else self.look(what, since)

    def heard(self, lease: UUID) -> str:
        return self.listen(lease)


class Sightings:
    """When this process first saw each stamp of a lease or a job, on its monotonic clock; and the beats that a leader has answered from
    memory, each of which makes the stamp of its lease a new one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen, self._seen_before = dict[Stamped, int](), dict[Stamped, int]()
        self._heard = dict[UUID, int]()
        self._begun = 0

    def elapsed(self, what: UUID, since: int) -> int:
        """Return the microseconds since this stamp was first seen, which may be now."""
        now, stamped = micros(self._clock.monotonic()), (what, since)
        if stamped not in self._seen:
            if len(self._seen) >= _MOST:  # stamps that no judge has asked about for so long are gone
                self._seen, self._seen_before = {}, self._seen
            self._seen[stamped] = self._seen_before.get(stamped, now)
        return now - self._seen[stamped]

    def hear(self, lease: UUID, since: int) -> None:
        """Note a beat: the stamp counts as first seen now."""
        self._seen[lease, since] = micros(self._clock.monotonic())
        self._heard[lease] = self._heard.get(lease, 0) + 1
        if len(self._heard) > _MOST:
            self.forget()

    def heard(self, lease: UUID) -> str:
        """Return a string that changes with every beat noted here, and when all is forgotten."""
        return f":{self._begun}:{self._heard.get(lease, 0)}"

    def forget(self) -> None:
        """Start again: no process could beat while the bucket gave no answers, or another one was the judge."""
        self._seen, self._seen_before, self._heard = {}, {}, {}
        self._begun += 1

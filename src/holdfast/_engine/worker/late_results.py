"""Results that came after their job was lost: they are kept on the record of the attempt that produced them."""

from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import ActiveJob
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import AttemptNote
from holdfast._engine.error_text import described
from holdfast._engine.events import EventName, Events
from holdfast._engine.service import is_refusal
from holdfast._engine.worker.refused_outcomes import PAUSES
from holdfast._ports.clock import Randomness
from holdfast._ports.store import Ownership
from holdfast.errors import StoreBusy

MOST_REFUSED = 100
"""Number of refused notes that are kept; beyond it the oldest is dropped, because each may be 256 KiB long."""


class LateResult(Struct):
    """A note, how often the store has refused it in a write without others, and when it may be sent again."""

    note: AttemptNote
    refusals: int = 0
    until: float = 0.0


class LateResults:
    """The notes of one worker. A note that the store refuses is sent separately, less and less often, and delays no other."""

    def __init__(self, store: Ownership, now: Callable[[], float], chance: Randomness, events: Events) -> None:
        self._store, self._now, self._chance, self._events = store, now, chance, events
        self._waiting: list[LateResult] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_refused_only(self) -> bool:
        """Whether the store has refused all notes that are left."""
        return all(each.refusals for each in self._waiting)

    def add(self, job: ActiveJob, outcome: Transition | None) -> None:
        """Keep the result or error with which an attempt ended, if it has one."""
        if outcome is not None and (outcome.result is not None or outcome.error is not None):
            if self._events.tallies is not None:
                self._events.tallies.count("late_results", job.task)
            self._waiting.append(
                LateResult(AttemptNote(job=job.id, token=job.token, late_result=outcome.result, error=outcome.error))
            )

    async def deliver(self) -> None:
        """Write all notes that are due; raise the store's error in an outage."""
        due = [each for each in self._waiting if each.until <= self._now()]
        fresh, single = [each for each in due if not each.refusals], [each for each in due if each.refusals]
        if len(fresh) > 1 and await self._write(fresh):
            fresh = []
        for each in [*fresh, *single]:
            if not await self._write([each]):
                each.until = self._now() + PAUSES.delay(each.refusals, jitter=self._chance.jitter())
                each.refusals += 1
        dropped = [each for each in self._waiting if each.refusals][:-MOST_REFUSED]
        self._waiting = [each for each in self._waiting if not any(each is one for one in dropped)]

    async def _write(self, some: Sequence[LateResult]) -> bool:
        """Write the notes and return whether the store accepted them; those of locked rows are sent with the next delivery."""
        locked = frozenset[UUID]()
        try:
            await self._store.annotate(tuple(each.note for each in some))
        except StoreBusy as error:
            if not error.jobs:
                raise
            locked = error.jobs
        except Exception as error:
            if not is_refusal(error):
                raise
            if len(some) == 1:
                fields = {"job": some[0].note.job, "error": described(error), "failures": some[0].refusals + 1}
                self._events.emit(EventName.STORE_REFUSED, operation="annotate", **fields)
            return False
        written = [each for each in some if each.note.job not in locked]
        self._waiting = [each for each in self._waiting if not any(each is one for one in written)]
        return True

    def remaining(self) -> float:
        """Return the seconds until a refused note is due; infinity without any."""
        return max(0.0, min((each.until for each in self._waiting if each.refusals), default=float("inf")) - self._now())

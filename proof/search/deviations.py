"""The deviations of a small world: at which call of its store or moment of its loop, and what happens there."""

from enum import StrEnum
from typing import Self

from msgspec import Struct


class What(StrEnum):
    """The event at a call of the store: to the call, to its sender, or beside it."""

    REFUSED = "refused"  # an error; nothing was applied
    ANSWER_LOST = "answer-lost"  # applied, then an error
    WRONG = "wrong"  # applied, then an error that no store promises
    LATE = "late"  # an error now, applied later
    TWICE = "twice"  # applied and answered, then applied again
    HELD = "held"  # it reaches the store later; the sender waits
    ANSWER_HELD = "answer-held"  # applied; the answer comes later
    CRASH_BEFORE = "crash-before"  # the sender dies, nothing was applied
    CRASH_AFTER = "crash-after"  # applied, the sender dies before the answer
    CRASH_SENT = "crash-sent"  # the sender dies, its call arrives later
    CREW_CRASH_BEFORE = "crew-crash-before"  # a supervisor dies together with its worker
    CREW_CRASH_AFTER = "crew-crash-after"
    POWER_LOST = "power-lost"  # applied, then the sender's whole machine loses power; later it boots again
    FREEZE_BEFORE = "freeze-before"  # only the sender is frozen, and sends the call when it thaws
    FREEZE_AFTER = "freeze-after"  # applied, the sender is frozen before the answer
    CREW_FREEZE_BEFORE = "crew-freeze-before"  # a supervisor is frozen together with its worker
    CREW_FREEZE_AFTER = "crew-freeze-after"
    CUT_OFF = "cut-off"  # from this call on, no call of the crew reaches the store
    OUTAGE = "outage"  # from this call on no process reaches the store
    RELEASE_BEFORE = "release-before"  # all that is held, frozen or cut off goes on, before the call is applied
    RELEASE_AFTER = "release-after"  # and after it
    CANCEL = "cancel"  # an operator asks for it, for the first job that exists
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    DELETE = "delete"
    PAUSE_FLOW = "pause-flow"  # an operator asks for it, for the workflow of the script
    CANCEL_FLOW = "cancel-flow"
    RETRY_FLOW = "retry-flow"
    SIGNAL = "signal"  # the first job is sent the signal that it waits for
    SWAP = "swap"  # not at a call: at a moment at which several processes can run, another one than the first runs


class Until(StrEnum):
    """The condition until which a call or process is held."""

    NOTHING = ""
    NEXT = "next"  # until the next call of another process has been applied
    TAKEN = "taken"  # until a job has another owner
    DONE = "done"  # until all work is done


class Deviation(Struct, frozen=True):
    """One deviation from the plain run. ``at``: the number of the call among those of all processes, or of the moment.

    ``first``: the process that runs first at that moment.
    """

    at: int
    what: What
    until: Until = Until.NOTHING
    first: int = 0

    def __str__(self) -> str:
        last = str(self.first) if self.what is What.SWAP else self.until.value
        return ":".join(part for part in (str(self.at), self.what.value, last) if part)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the deviation that ``str`` wrote as this string."""
        at, what, last = (*text.split(":"), "")[:3]
        is_swap = what == What.SWAP.value
        return cls(int(at), What(what), Until.NOTHING if is_swap else Until(last), int(last) if is_swap else 0)

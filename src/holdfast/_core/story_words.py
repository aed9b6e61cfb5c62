"""The sentences of a story: closed tables, one row for each way in which an attempt or a job ends or waits."""

from enum import StrEnum

from msgspec import Struct

from holdfast._core.job import AttemptOutcome, HeldFor, Reason, RescueReason


class Kind(StrEnum):
    """What one entry of a story reports: a closed list."""

    ENQUEUED = "enqueued"
    NOT_KEPT = "not_kept"
    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"
    FAILED = "failed"
    KILLED = "killed"
    CRASHED = "crashed"
    SILENT = "silent"
    CLOSED = "closed"
    UNRESPONSIVE = "unresponsive"
    STALLED = "stalled"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    RELEASED = "released"
    SNOOZED = "snoozed"
    RESCUED = "rescued"
    LATE_RESULT = "late_result"
    EXPIRED = "expired"
    HELD = "held"
    BLOCKED = "blocked"
    CLAIMED = "claimed"
    WAITING = "waiting"


class Words(Struct, frozen=True):
    """How an attempt ended: as an entry begins, and as a clause after "attempt 2". ``tally``: after a number of attempts;
    ``note``: beside a drawing.

    ``shows_error``: the entry goes on with the attempt's error. ``is_rescue``: the job was taken from its worker.
    """

    entry: str
    clause: str
    tally: str
    note: str
    shows_error: bool = False
    is_rescue: bool = False


ENDINGS = {
    Kind.COMPLETED: Words("Completed", "completed", "completed", "completed"),
    Kind.FAILED: Words("Failed", "failed", "failed", "failed", shows_error=True),
    Kind.KILLED: Words("Killed", "was killed", "killed", "killed", is_rescue=True),
    Kind.CRASHED: Words(
        "Lost: its process ended while it ran", "lost its process", "lost with their process", "process ended", is_rescue=True
    ),
    Kind.SILENT: Words(
        "Lost: its worker stopped renewing its lease, and the lease ran out",
        "was lost when the lease of its worker ran out",
        "lost because a lease ran out",
        "lease ran out",
        is_rescue=True,
    ),
    Kind.CLOSED: Words(
        "Lost: its worker gave up its lease while it ran",
        "was lost when its worker gave up its lease",
        "lost because a worker gave up its lease",
        "lease given up",
        is_rescue=True,
    ),
    Kind.UNRESPONSIVE: Words(
        "Unresponsive: its code did not stop, so its worker was killed",
        "did not stop when asked and was killed with its worker",
        "unresponsive",
        "unresponsive, killed",
        is_rescue=True,
    ),
    Kind.STALLED: Words("Stalled", "stalled", "stalled", "stalled", shows_error=True),
    Kind.TIMED_OUT: Words("Timed out", "timed out", "timed out", "timed out", shows_error=True),
    Kind.CANCELLED: Words("Stopped, because the job was cancelled", "was cancelled", "cancelled", "cancelled"),
    Kind.RELEASED: Words(
        "Released: its worker stopped before its code had finished", "was released by its worker", "released", "released"
    ),
    Kind.SNOOZED: Words("Snoozed: the handler asked to go on later", "snoozed", "snoozed", "snoozed"),
}

KIND_OF = {
    AttemptOutcome.COMPLETED: Kind.COMPLETED,
    AttemptOutcome.FAILED: Kind.FAILED,
    AttemptOutcome.CRASHED: Kind.CRASHED,
    AttemptOutcome.STALLED: Kind.STALLED,
    AttemptOutcome.TIMED_OUT: Kind.TIMED_OUT,
    AttemptOutcome.CANCELLED: Kind.CANCELLED,
    AttemptOutcome.RELEASED: Kind.RELEASED,
    AttemptOutcome.SNOOZED: Kind.SNOOZED,
}

CRASH_KIND_OF = {
    RescueReason.CRASHED: Kind.CRASHED,
    RescueReason.EXPIRED: Kind.SILENT,
    RescueReason.CLOSED: Kind.CLOSED,
    RescueReason.RELEASED: Kind.CRASHED,
    RescueReason.UNRESPONSIVE: Kind.UNRESPONSIVE,
    RescueReason.STALLED: Kind.STALLED,
    RescueReason.TIMED_OUT: Kind.TIMED_OUT,
}
"""What a crash was, by the reason of the rescue that followed it."""

OUTCOMES_OF = {
    RescueReason.CRASHED: {AttemptOutcome.CRASHED, AttemptOutcome.RELEASED},
    RescueReason.EXPIRED: {AttemptOutcome.CRASHED, AttemptOutcome.RELEASED},
    RescueReason.CLOSED: {AttemptOutcome.CRASHED, AttemptOutcome.RELEASED},
    RescueReason.RELEASED: {AttemptOutcome.RELEASED},
    RescueReason.UNRESPONSIVE: {AttemptOutcome.CRASHED, AttemptOutcome.CANCELLED},
    RescueReason.STALLED: {AttemptOutcome.STALLED},
    RescueReason.TIMED_OUT: {AttemptOutcome.TIMED_OUT},
}
"""The outcomes that an attempt can have when the job was taken from its worker for this reason."""

REASONS = {
    Reason.HANDLER_ERROR: "the handler raised {error}",
    Reason.PERMANENT: "the handler gave it up: {message}",
    Reason.WORKER_CRASHED: "its process ended while it ran, {crashes} of {max_crashes} crashes",
    Reason.STALLED: "it stalled, {message}",
    Reason.TIMED_OUT: "it timed out, {message}",
    Reason.PAYLOAD_INVALID: "its payload does not fit the handler: {message}",
    Reason.RESULT_INVALID: "its result cannot be stored: {message}",
    Reason.STEPS_CHANGED: "its code was changed under its recorded steps: {message}",
    Reason.EXPIRED: "it expired before a worker started it",
    Reason.DEPENDENCY_FAILED: "a job that it needs did not complete",
    Reason.BY_OPERATOR: "an operator asked for it",
    Reason.BY_HANDLER: "the handler asked for it: {message}",
    Reason.BY_WORKFLOW: "its workflow was cancelled",
}

HELD = {
    HeldFor.CRASH: "its process ended while it ran, and an operator must decide whether it runs again",
    HeldFor.PAUSE: "its workflow is paused",
    HeldFor.STEPS: "its code was changed under its recorded steps, and an operator must decide how it goes on",
}


def ending_of(outcome: AttemptOutcome, signal: str | None, rescued: RescueReason | None) -> Kind:
    """Return how an attempt ended. ``rescued``: why the job was taken from its worker, where that is known."""
    if outcome is not AttemptOutcome.CRASHED:
        return KIND_OF[outcome]
    kind = Kind.CRASHED if rescued is None else CRASH_KIND_OF[rescued]
    is_kill = signal is not None and signal.startswith("SIG")
    return Kind.KILLED if kind is Kind.CRASHED and is_kill else kind


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def ordinal(number: int) -> str:
    """Return which one of several it is.

    >>> ordinal(3), ordinal(11), ordinal(22)
    ('third', '11th', '22nd')
    """
    if 1 <= number <= len(ORDINALS):
        return ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def counted(number: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "attempt"), counted(12, "attempt")
    ('one attempt', '12 attempts')
    """
    words = NUMBERS[number] if number < len(NUMBERS) else f"{number}"
    return f"{words} {noun}" if number == 1 else f"{words} {noun}s"


def sentence(text: str) -> str:
    """Return a clause as a sentence."""
    return f"{text[:1].upper()}{text[1:]}".rstrip(".:,; ") + "."

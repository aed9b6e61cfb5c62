"""One reason why a job is in its state, as people and programs read it."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class Code(StrEnum):
    """The reason why a job does not move, or what it does: a closed list."""

    PAUSED = "paused"
    DUE_LATER = "due_later"
    EXPIRED = "expired"
    NO_LIVE_WORKER = "no_live_worker"
    UNKNOWN_TASK = "unknown_task"
    BLOCKED = "blocked"
    HELD = "held"
    BUDGET_SPENT = "budget_spent"
    AT_CAPACITY = "at_capacity"
    RATE_LIMITED = "rate_limited"
    RUNNING = "running"
    FINISHED = "finished"


class Cause(Struct, frozen=True):
    """One reason; ``remedy`` is what to do about it, or that nothing needs to be done."""

    code: Code
    message: str
    remedy: str


def clock(instant: datetime) -> str:
    """Return an instant as causes name it."""
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"

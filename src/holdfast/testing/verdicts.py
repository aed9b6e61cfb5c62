"""The properties that are checked, what a history promises, and what the checker says about it."""

from collections import Counter
from uuid import UUID

from msgspec import Struct, field

from holdfast.testing.history import History

PROPERTIES = {
    "S1": "single owner",
    "S2": "tokens never repeat",
    "S3": "no zombie write",
    "S4": "finished is final",
    "S5": "rescue only of the expired",
    "S6": "no acknowledged job is lost",
    "S8": "past its deadline a worker starts nothing, and code ends before its job moves",
    "S9": "attempt and crash budgets hold",
    "S10": "settling and enqueuing are idempotent",
    "L1": "the recovery bound",
    "L2": "nothing stuck",
    "L3": "age and silence are no reason: a healthy worker is not killed",
    "L8": "an outage charges no crash",
}


class Violation(Struct, frozen=True):
    """A broken property: which event showed it."""

    name: str
    event: int
    job: UUID | None
    text: str


class Rules(Struct, frozen=True, kw_only=True):
    """What this history promises. ``step``: how far the store's clock may step; ``bound``: L1, ``None`` where it is not promised;
    ``is_always_calm=False``: it is promised from the event "calm" on.

    ``is_timed=False``: clocks were beyond their assumptions, so two handlers may overlap and leases may look expired early.
    """

    step: float = 0.0
    is_timed: bool = True
    bound: float | None = None
    local_bound: float | None = None
    is_always_calm: bool = True
    is_complete: bool = True
    has_crashes: bool = True
    has_kills: bool = True


class Report(Struct):
    """What the checker found."""

    violations: list[Violation] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    overlaps_inside: int = 0
    overlaps_outside: int = 0
    starts: int = 0
    rescues: int = 0
    slowest_recovery: float = 0.0

    def verdict(self, name: str) -> bool:
        """Whether the property held."""
        return not any(violation.name == name for violation in self.violations)

    def explain(self, history: History, *, most: int = 3) -> str:
        """The first violations, each with the story of its job."""
        told = []
        for violation in self.violations[:most]:
            name = f"{violation.name} ({PROPERTIES[violation.name]})"
            told.append(f"{name}: {violation.text}")
            if violation.job is not None:
                told += [f"the story of job {violation.job}:", history.story(violation.job, until=violation.event + 1)]
        return "\n".join(told)

"""The properties that are checked, what a history promises, and what the checker says about it."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.policy import RETENTION_FLOOR
from holdfast.testing.history import Event, History

Seers = dict[str, Callable[[Event], None]]

PROPERTIES = {
    "S1": "single owner, of what may be claimed",
    "S2": "tokens never repeat",
    "S3": "no zombie write",
    "S4": "finished is final",
    "S5": "rescue only of the expired",
    "S6": "no acknowledged job is lost",
    "S7": "what is enqueued together is there together; a child only if its parent's attempt still owned its job; a hook before it",
    "S8": "past its deadline a worker starts nothing, and code ends before its job moves",
    "S9": "attempt and crash budgets hold, and nobody pays for what it did not do",
    "S10": "settling and enqueuing are idempotent",
    "S11": "one unfinished job per unique key",
    "S13": "result and state are written together by the same token",
    "L1": "the recovery bound",
    "L2": "nothing stuck",
    "L3": "age and short silence are no reason: nothing is lost by them, and no healthy worker is killed",
    "L4": "unusable jobs never block others",
    "L5": "a zombie learns that it is one, and is killed if deaf",
    "L6": "with every hint lost, work starts within one poll",
    "L7": "a drain costs no attempt",
    "L8": "an outage charges nothing and loses no result",
    "L9": "during an outage the store is asked a bounded number of times",
}


class Violation(Struct, frozen=True):
    """A broken property: which event showed it."""

    name: str
    event: int
    job: UUID | None
    text: str


class Rules(Struct, frozen=True, kw_only=True):
    """What this history promises; ``None`` where something is not.

    ``step``: how far the store's clock may step. ``is_timed=False``: clocks were beyond their assumptions, so two handlers may
    overlap and leases may look expired early. ``is_always_calm=False``: liveness is promised from the event "calm" on.
    ``bound``, ``local_bound``: L1. ``prompt``: L4, and L6 unless ``has_hints``. ``zombie_bound``: L5. ``calls``: L9, how many
    calls one process makes in vain in an outage, for certain and for each second. ``floor``: of retention.
    ``keeps_results``: none that code has returned is lost. ``returns_tokens``: that is what each result is.
    ``isolates``: last tries run alone. ``has_…=False``: what happens in other worlds does not in this one, so nobody may be
    harmed by it.
    """

    step: float = 0.0
    is_timed: bool = True
    is_always_calm: bool = True
    is_complete: bool = True
    bound: float | None = None
    local_bound: float | None = None
    prompt: float | None = None
    zombie_bound: float | None = None
    calls: tuple[float, float] | None = None
    floor: float = RETENTION_FLOOR
    has_hints: bool = True
    has_crashes: bool = True
    has_kills: bool = True
    has_long_silence: bool = True
    has_stalls: bool = True
    keeps_results: bool = False
    returns_tokens: bool = False
    isolates: bool = False


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


class Ledger:
    """What all judges of one history share: the rules, the report, and where in the history they are."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.report = Report()
        self.index = -1
        self.now = 0.0
        self.has_forgotten = False

    def expect(self, name: str, is_so: bool, job: UUID | None, text: str, *values: object) -> None:
        """The text is made only when it is needed."""
        self.report.checked[name] += 1
        if not is_so:
            self.report.violations.append(Violation(name, self.index, job, text.format(*values)))

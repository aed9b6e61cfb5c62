"""The properties that are checked, what a history promises, and what the checker says about it."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import AttemptOutcome, Token
from holdfast._core.policy import RETENTION_FLOOR
from holdfast.testing.history import Event, History, LeaseRow
from proof.report.narrative import Teller

Seers = dict[str, Callable[[Event], None]]

PROPERTIES = {
    "S1": "at most one claim owns a job, and only what waits, is due and is not paused is claimed",
    "S2": "no two claims of a job ever have the same token",
    "S3": "whoever has lost a job or a lease can change nothing of it any more",
    "S4": "what is finished stays as it is, unless an operator has it run again",
    "S5": "a job is taken from its owner only after its lease has ended, and that of a living worker ends only when it has run out",
    "S6": "no job whose enqueue was acknowledged is lost",
    "S7": "what is enqueued together is there together, a child only if its parent's attempt still owned its job, a hook before code",
    "S8": "past its deadline a worker starts nothing, and code ends before its job moves",
    "S9": "attempt and crash budgets hold, and nobody pays for what it did not do",
    "S10": "what a caller was told is what was done, and it was done once, however often it was sent",
    "S11": "one unfinished job has a unique key",
    "S13": "result and state of a job are written together, by the claim that owns it",
    "S15": "all of this also holds after calls whose callers never heard what became of them",
    "S16": "a job whose task a worker does not know is left to others",
    "L1": "a job whose owner has died is back in line within the stated bound",
    "L2": "no job is stuck: each ends, or has somebody who can go on with it",
    "L3": "age and short silence are no reason: nothing is lost by them, and no healthy worker is killed",
    "L4": "jobs that nobody can run block no others",
    "L5": "a worker that has lost its lease learns it soon, and is killed if it does not listen",
    "L6": "with every hint lost, work starts within one poll",
    "L7": "a drain costs no attempt",
    "L8": "an outage of the store charges nothing and loses no result",
    "L9": "during an outage the store is asked a bounded number of times",
    "L10": "a job that comes back without a wait that is meant keeps its place in line, and runs before all behind it",
}
"""What is promised, by name, each in one sentence (semantics §10).

Not here yet, because what they speak of is not built: S12 (concurrency limits), S14 (schedules). S17 is about text, not about events.
"""

RATE = 1.001
"""By which clocks may run too fast or too slow."""


class Violation(Struct, frozen=True):
    """A broken property: which event showed it, and what is wrong; ``values`` belong into the braces of ``said``."""

    name: str
    event: int
    job: UUID | None
    said: str
    values: tuple[object, ...] = ()

    @property
    def text(self) -> str:
        """What is wrong, with full names."""
        return self.said.format(*self.values)


class TableRules(Struct, frozen=True, kw_only=True):
    """What is promised of a watched table. ``poison``: keys of rows whose handler always raises or dies; ``late``: seconds after
    ``stale_after`` within which a row is taken back; ``None`` where clocks are beyond their assumptions."""

    stale_after: float
    late: float | None = None
    max_resets: int | None = None
    poison: tuple[int, ...] = ()


class Rules(Struct, frozen=True, kw_only=True):
    """What this history promises; ``None`` where something is not.

    ``step``: how far the store's clock may step. ``has_lease_clock=False``: it has none, and whoever judges a lease goes by his own,
    which runs too fast or too slow by ``rate_error`` at most.
    ``waking``: seconds after a thaw in which a process had no chance to look at a clock yet.
    ``is_timed=False``: clocks were beyond their assumptions, so two handlers may
    overlap and leases may look expired early. ``is_always_calm=False``: liveness is promised from the event "calm" on.
    ``bound``, ``local_bound``: L1. ``prompt``: L4, and L6 unless ``has_hints``. ``zombie_bound``: L5. To the bounds come so many
    ttls (``lease_ttls``), and so many beats with margins (``…_amnesties``), of the lease that is judged. ``calls``: L9, how many
    calls one process makes in vain in an outage, for certain and for each second. ``floor``: of retention.
    ``keeps_results``: none that code has returned is lost. ``returns_tokens``: that is what each result is.
    ``isolates``: last tries run alone. ``keeps_order``: each claim takes the first in line.
    ``restart``: L10 by the start of code: seconds beside a free slot of a healthy worker. ``table``: of a
    watched table. ``has_…=False``: what happens in
    other worlds does not in this one, so nobody may be harmed by it.
    """

    step: float = 0.0
    waking: float = 0.1
    has_lease_clock: bool = True
    rate_error: float = RATE - 1.0
    is_timed: bool = True
    is_always_calm: bool = True
    is_complete: bool = True
    bound: float | None = None
    local_bound: float | None = None
    prompt: float | None = None
    lease_ttls: float = 0.0
    lease_amnesties: float = 0.0
    zombie_bound: float | None = None
    zombie_amnesties: float = 0.0
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
    keeps_order: bool = False
    restart: float | None = None
    table: TableRules | None = None

    def bound_of(self, lease: LeaseRow | None) -> float | None:
        """Seconds until a job of that lease is back in line."""
        if self.bound is None or lease is None:
            return self.bound
        return self.bound + self.lease_ttls * lease.ttl + self.lease_amnesties * (lease.beat + lease.margin)

    def zombie_bound_of(self, lease: LeaseRow) -> float:
        """Seconds from the end of that lease to the end of its worker."""
        return (self.zombie_bound or 0.0) + self.zombie_amnesties * (lease.beat + lease.margin)


class Report(Struct):
    """What the checker found."""

    violations: list[Violation] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    overlaps_inside: int = 0
    overlaps_outside: int = 0
    starts: int = 0
    rescues: int = 0
    recoveries: list[float] = field(default_factory=list)

    @property
    def slowest_recovery(self) -> float:
        """Seconds from an owner's death until its job was back in line, at worst."""
        return max(self.recoveries, default=0.0)

    def verdict(self, name: str) -> bool:
        """Whether the property held."""
        return not any(violation.name == name for violation in self.violations)

    def explain(self, history: History) -> str:
        """The story of the first violation, and what else was found: it mostly follows from the first. Empty if nothing was."""
        if not self.violations:
            return ""
        first, *others = self.violations
        teller = Teller(history, first.event, first.job, first.values)
        told = [teller.tell(first.said), f"{first.name} promises: {PROPERTIES[first.name]}."]
        more = Counter(violation.name for violation in others)
        return "\n".join([*told, *([f"(Broken as well, then or later: {_listed(more)}.)"] if more else [])])


class Ledger:
    """What all judges of one history share: the rules, the report, and where in the history they are."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.report = Report()
        self.index = -1
        self.now = 0.0
        self.has_forgotten = False
        self.crashed = set[tuple[UUID | None, Token | None]]()  # attempts whose runner did
        self.apps = set[str]()  # processes with a worker in their own event loop, which nobody kills
        self.blocked = set[str]()  # those of them in which code has run that blocks an event loop: nothing is cancelled meanwhile
        self.runs_on: Callable[[str, UUID | None], bool] = lambda process, job: False  # whether that code there obeys nobody
        self.locked = Counter[UUID]()  # by how many strangers a row is locked now
        self.unlocked_at: defaultdict[UUID, float] = defaultdict(float)  # of rows that a stranger had locked
        self._doubts: dict[UUID, int] = {}

    def expect(self, name: str, is_so: bool, job: UUID | None, text: str, *values: object) -> None:
        """The text is made only when it is needed."""
        self.report.checked[name] += 1
        if not is_so:
            self.report.violations.append(Violation(name, self.index, job, text, values))
            if name.startswith("S") and job in self._doubts:
                said = f"after an answer about it was lost, {name} broke: {text}"
                self.report.violations.append(Violation("S15", self.index, job, said, values))

    def doubt(self, what: str, job: UUID | None) -> None:
        """Somebody does not know what has become of a call."""
        self.report.unknown[what] += 1
        if job is not None:
            self._doubts[job] = self._doubts.get(job, 0) + 1

    def is_crash_of_runner(self, event: Event) -> bool:
        """Whether its owner says that the process of its handler has crashed, and that is so."""
        is_said = event.by is not None and event.by.record is AttemptOutcome.CRASHED
        return is_said and (event.job, event.by and event.by.token) in self.crashed

    def learn(self, job: UUID) -> None:
        """Its row shows what has become of such calls, and is judged like any other."""
        if doubts := self._doubts.get(job):
            self.report.checked["S15"] += doubts
            self._doubts[job] = 0


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so large a part of all does not exceed; 0 of none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else 0.0


def _listed(more: Counter[str]) -> str:
    return ", ".join(name if count == 1 else f"{name} {count} times" for name, count in sorted(more.items()))

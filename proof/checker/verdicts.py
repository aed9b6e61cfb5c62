"""The properties that are checked, what a history promises, and the report of the checker."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import AttemptOutcome, Token
from holdfast._core.policy import RETENTION_FLOOR
from proof.checker.history import Event, History, LeaseRow
from proof.report.narrative import Narrator

Seers = dict[str, Callable[[Event], None]]

PROPERTIES = {
    "S1": "at most one claim owns a job, and a claim takes only jobs that wait, are due and whose queue is not paused",
    "S2": "no two claims of a job ever have the same token",
    "S3": "a process that has lost a job or a lease can no longer change anything of it",
    "S4": "a finished job stays as it is, unless an operator runs it again",
    "S5": "a job is taken from its owner only after its lease has ended, and the lease of a living worker only when it has run out",
    "S6": "no job whose enqueue was acknowledged is lost",
    "S7": "jobs enqueued together exist together, a child only if its parent's attempt owned its job; a hook commits before code runs",
    "S8": "past its deadline a worker starts nothing, and code ends before its job moves",
    "S9": "attempt and crash budgets hold, and no job is charged for what it did not do",
    "S10": "what the store confirmed to a caller was done, and done once, even if the call was sent several times",
    "S11": "at most one unfinished job has a unique key",
    "S12": "at every instant a limit has no more active jobs than it allows, but for those that ran before it was set or lowered",
    "S13": "the result and the state of a job are written together, by the claim that owns it",
    "S14": "each tick of a schedule is one job, never early or twice, stored with the move of its schedule, by catch_up and overlap",
    "S15": "all of this also holds after calls whose callers never received an answer",
    "S16": "a worker leaves a job whose task it does not know to other workers",
    "S18": "a member of a workflow starts only when its join is satisfied, and is released once for each time that it is",
    "S19": "each move of a member is written together with all that it releases or ends",
    "S20": "nothing of a paused, cancelled or overdue workflow is claimed after that was written",
    "S21": "the results that a member gets are the recorded outcomes of its parents' last attempts",
    "S22": "the record of a step is written once, by the owner of its job, and each attempt gets the same result",
    "S23": "a signal is consumed at most once, and a job that waits for one that has come is due",
    "S24": "in any time no more jobs of a scope or key start than its burst and its rate allow, while the limit stays as it is",
    "S25": "a job handed back keeps its position, before all that came after it in its lane; one that wants to wait does not",
    "S26": "a job whose code never ran pays nothing, and no worker starts a job of which it does not know",
    "S27": "members of a workflow are kept until its root has ended, and are not forgotten after it",
    "L1": "a job whose owner has died is back in its queue within the stated bound",
    "L2": "no job is stuck: each ends, or has a process that can go on with it",
    "L3": "age and short silence are not reasons: no job is lost by them, and no healthy worker is killed",
    "L4": "jobs that no worker can run block no others",
    "L5": "a worker that has lost its lease learns it soon, and is killed if it does not react",
    "L6": "with every hint lost, work starts within one poll",
    "L7": "a drain costs no attempt",
    "L8": "an outage of the store charges nothing and loses no result",
    "L9": "during an outage each process calls the store a bounded number of times",
    "L10": "a job that returns to its queue without an intended wait keeps its position, and runs again beside a free slot within a poll",
    "L12": "each workflow ends, or waits for an operator's decision",
    "L13": "a due lane with free slots is served in its turn: no worker serves another lane of its priority twice before it",
    "L14": "a claim takes jobs until it is full or no job is left that it may take",
    "L15": "a due tick fires within the stated bound of any living supervisor, also after an outage",
    "L16": "jobs that a worker has claimed ahead are back within the stated bound while its event loop is blocked",
    "L17": "a repair changes nothing of an intact workflow, and a repaired one goes on as one that was never damaged",
}
"""The promises by name, each in one sentence (semantics §10).

S17 is about text, not about events.
"""

RATE = 1.001
"""The factor by which clocks may run too fast or too slow."""


class Violation(Struct, frozen=True):
    """A broken property: the event that showed it, and what is wrong; ``values`` fill the braces of ``template``."""

    name: str
    event: int
    job: UUID | None
    template: str
    values: tuple[object, ...] = ()

    @property
    def text(self) -> str:
        """What is wrong, with full names."""
        return self.template.format(*self.values)


class TableRules(Struct, frozen=True, kw_only=True):
    """The promises of a watched table.

    ``poison``: keys of rows whose handler always raises or dies. ``late``: seconds after ``stale_after`` within which a row is reset;
    ``None`` where clocks are beyond their assumptions.
    """

    stale_after: float
    late: float | None = None
    max_resets: int | None = None
    poison: tuple[int, ...] = ()


class Rules(Struct, frozen=True, kw_only=True):
    """The promises of this history; ``None``: not promised.

    ``step``: how far the store's clock may step. ``has_lease_clock=False``: the store has no such clock. A supervisor then judges a
    lease by its own clock, which runs too fast or too slow by ``rate_error`` at most. ``early``: seconds before a lease runs out by the
    store's clock in which a supervisor that watched it may end it, because that clock has stepped since.
    ``waking``: seconds after a thaw in which a process had no chance to look at a clock yet.
    ``is_timed=False``: clocks were beyond their assumptions, so two handlers may
    overlap and leases may look expired early. ``is_always_calm=False``: liveness is promised from the event "calm" on.
    ``bound``, ``local_bound``: L1. ``prompt``: L4, and L6 unless ``has_hints``. ``zombie_bound``: L5. The bounds grow by
    ``lease_ttls`` times the ttl, and by ``…_amnesties`` times a beat with its margin, of the lease that is judged.
    ``calls``: L9, how many calls one process makes without effect in an outage, in any case and for each second.
    ``floor``: the least retention. ``keeps_results``: no result that code has returned is lost.
    ``returns_tokens``: each result is the token of its attempt. ``isolates``: last tries are isolated.
    ``keeps_order``: each claim takes the job that is due first.
    ``restart``: L10 by the start of code: seconds beside a free slot of a healthy worker.
    ``tick_bound``: L15, ``void_bound``: L16, in seconds.
    ``confirms_claims``: a worker reads its claim back, with its lease, before it uses it. One that was made too late starts no code.
    ``has_lanes``: limits and turns of lanes are judged. ``claims_once``: one call takes all its jobs in one write.
    ``table``: what is promised of a watched table.
    ``has_…=False``: this fault of other worlds does not happen in this one, so no job may be harmed by it.
    """

    step: float = 0.0
    waking: float = 0.1
    has_lease_clock: bool = True
    early: float = 0.0
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
    tick_bound: float | None = None
    void_bound: float | None = None
    has_lanes: bool = False
    claims_once: bool = False
    confirms_claims: bool = False
    table: TableRules | None = None

    def bound_of(self, lease: LeaseRow | None) -> float | None:
        """Return the seconds until a job of that lease is back in its queue."""
        if self.bound is None or lease is None:
            return self.bound
        return self.bound + self.lease_ttls * lease.ttl + self.lease_amnesties * (lease.beat + lease.margin)

    def zombie_bound_of(self, lease: LeaseRow) -> float:
        """Return the seconds from the end of that lease to the end of its worker."""
        return (self.zombie_bound or 0.0) + self.zombie_amnesties * (lease.beat + lease.margin)


class Report(Struct):
    """The findings of the checker."""

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
        """The most seconds from an owner's death until its job was back in its queue."""
        return max(self.recoveries, default=0.0)

    def verdict(self, name: str) -> bool:
        """Return whether the property held."""
        return not any(violation.name == name for violation in self.violations)

    def explain(self, history: History) -> str:
        """Return the story of the first violation and the names of all others, which mostly follow from it; empty if there is none."""
        if not self.violations:
            return ""
        first, *others = self.violations
        narrator = Narrator(history, first.event, first.job, first.values)
        story = [narrator.tell(first.template), f"{first.name} promises: {PROPERTIES[first.name]}."]
        more = Counter(violation.name for violation in others)
        return "\n".join([*story, *([f"(Broken as well, then or later: {_listed(more)}.)"] if more else [])])


class CheckContext:
    """The part that all rules for one history share: the promises, the report, and the position in the history."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.report = Report()
        self.index = -1
        self.now = 0.0
        self.has_forgotten = False
        self.crashed = set[tuple[UUID | None, Token | None]]()  # attempts whose runner crashed
        self.apps = set[str]()  # processes with a worker in their own event loop, which no supervisor kills
        self.blocked = set[str]()  # those of `apps` in which code has blocked the event loop: nothing is cancelled there
        # Whether that code does not stop when cancelled.
        self.runs_on: Callable[[str, UUID | None], bool] = lambda process, job: False
        self.locked = Counter[UUID]()  # how many sessions of other programs lock a row now
        self.unlocked_at: defaultdict[UUID, float] = defaultdict(float)  # of rows that another program had locked
        self._doubts: dict[UUID, int] = {}

    def expect(self, name: str, is_so: bool, job: UUID | None, text: str, *values: object) -> None:
        """Count a check, and record a violation if it failed; the text is formatted only when it is needed."""
        self.report.checked[name] += 1
        if not is_so:
            self.report.violations.append(Violation(name, self.index, job, text, values))
            if name.startswith("S") and job in self._doubts:
                template = f"after an answer about it was lost, {name} broke: {text}"
                self.report.violations.append(Violation("S15", self.index, job, template, values))

    def doubt(self, what: str, job: UUID | None) -> None:
        """Count a call whose caller does not know its outcome."""
        self.report.unknown[what] += 1
        if job is not None:
            self._doubts[job] = self._doubts.get(job, 0) + 1

    def is_crash_of_runner(self, event: Event) -> bool:
        """Return whether the owner reports a crash of the handler's process, and that process did crash."""
        is_reported = event.by is not None and event.by.record is AttemptOutcome.CRASHED
        return is_reported and (event.job, event.by and event.by.token) in self.crashed

    def learn(self, job: UUID) -> None:
        """Count the unknown calls of a job as checked: its row shows their outcome, and is judged like any other."""
        if doubts := self._doubts.get(job):
            self.report.checked["S15"] += doubts
            self._doubts[job] = 0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that this share of all values does not exceed; 0 if there are none.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else 0.0


def _listed(more: Counter[str]) -> str:
    return ", ".join(name if count == 1 else f"{name} {count} times" for name, count in sorted(more.items()))

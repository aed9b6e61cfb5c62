"""The summary of the runs of many seeds."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from proof.checker.verdicts import PROPERTIES, Violation, percentile
from proof.simulator.simulation import Outcome


class Summary(Struct):
    """The results of some seeds. ``failed``: the number of decisions and the seed of each failure."""

    seeds: int = 0
    failed: list[tuple[int, int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    rescues: int = 0
    overlaps_inside: int = 0
    overlaps_outside: int = 0
    virtual: float = 0.0
    recoveries: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome, problems: list[str]) -> None:
        """Add the result of one seed, and its failure if there are problems."""
        report = outcome.report
        self.seeds += 1
        self.checked += report.checked
        self.unknown += report.unknown
        self.starts += report.starts
        self.rescues += report.rescues
        self.overlaps_inside += report.overlaps_inside
        self.overlaps_outside += report.overlaps_outside
        self.virtual += outcome.seconds
        self.recoveries += [round(seconds / outcome.plan.longest_ttl, 4) for seconds in report.recoveries]
        if problems:
            self.failed.append((len(outcome.decisions), outcome.seed))
            self.failures.append(f"seed {outcome.seed} failed: " + "\n  ".join(problems))

    def merge(self, other: "Summary") -> None:
        """Add the results of seeds that another process ran."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, mine + theirs)

    def lines(self, seconds: float, jobs: int) -> Iterator[str]:
        """Yield the lines to print, after a run of that many seconds in that many processes."""
        per_minute = 60 * self.seeds / max(seconds, 1e-9)
        yield f"{self.seeds} seeds, {len(self.failed)} failed; {per_minute:,.0f} seeds a minute in {jobs} processes"
        yield f"{self.virtual:.0f} s simulated, {self.starts} attempts, {self.rescues} rescues"
        half, most, slowest = (percentile(self.recoveries, share) for share in (0.5, 0.99, 1.0))
        yield f"recoveries in ttls, where a bound is promised: p50 {half:.2f}, p99 {most:.2f}, slowest {slowest:.2f}"
        yield f"handlers overlapped: {self.overlaps_inside} inside the timing assumptions, {self.overlaps_outside} outside"
        yield "unknown outcomes: " + (", ".join(f"{name} {count}" for name, count in sorted(self.unknown.items())) or "none")
        yield "checked: " + ", ".join(f"{name} {self.checked[name]}" for name in PROPERTIES)


def problems_of(outcome: Outcome) -> list[str]:
    """Return the first complaints, and the first violation of each broken property, one a line."""
    first: dict[str, Violation] = {}
    for each in outcome.report.violations:
        first.setdefault(each.name, each)
    found = [f"{name} ({PROPERTIES[name]}): {each.text}" for name, each in first.items()]
    return [*outcome.complaints[:3], *found[:3]]

"""The figures of torture: a line for each round in a file that only grows, and a table of any number of sittings."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.table import Table

from proof.checker.verdicts import Report

LOST, OWNED_TWICE, ZOMBIE, STUCK = ("S6",), ("S1", "S2"), ("S3",), ("L1", "L2")
"""The properties whose violations are counted under that name."""
TOGETHER = "together"


class Figures(Struct, kw_only=True):
    """The figures of one round. ``done``: the number of each fault. ``recoveries``: seconds until a dead owner's job was queued again.
    ``restarts``: seconds from there until its code ran again, behind the backlog. ``failovers``: seconds until another broker led.
    ``rows``: those of the watched table."""

    store: str
    seed: int
    revision: str
    began: str
    seconds: float
    bound: float
    done: dict[str, int]
    jobs: int = 0
    starts: int = 0
    lost: int = 0
    owned_twice: int = 0
    zombie_writes_refused: int = 0
    zombie_writes_accepted: int = 0
    stuck: int = 0
    other_violations: int = 0
    overlaps_inside: int = 0
    overlaps_outside: int = 0
    rows: int = 0
    recoveries: list[float] = []
    restarts: list[float] = []
    failovers: list[float] = []

    @property
    def violations(self) -> int:
        """The number of violations of all kinds."""
        return self.lost + self.owned_twice + self.zombie_writes_accepted + self.stuck + self.other_violations

    def judge(self, report: Report, wrong: Sequence[str]) -> None:
        """Count what the checker reports, and what it cannot see."""
        broken = Counter(violation.name for violation in report.violations)
        kinds = [sum(broken.pop(name, 0) for name in names) for names in (LOST, OWNED_TWICE, ZOMBIE, STUCK)]
        self.lost, self.owned_twice, self.zombie_writes_accepted, self.stuck = kinds
        self.other_violations = broken.total() + len(wrong)
        self.starts, self.recoveries = report.starts, [round(took, 3) for took in report.recoveries]
        self.overlaps_inside, self.overlaps_outside = report.overlaps_inside, report.overlaps_outside


def append(path: Path, figures: Figures) -> None:
    """Add one line to the file."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(figures) + b"\n")


def read(path: Path) -> list[Figures]:
    """Read all lines of the file."""
    return [msgspec.json.decode(line, type=Figures) for line in path.read_bytes().splitlines()]


class Sum(Struct):
    """The sum of rounds on one store, or on all."""

    rounds: Sequence[Figures]

    def total(self, name: str) -> int:
        """Return the sum of a figure that each round has."""
        return sum(getattr(each, name) for each in self.rounds)

    def done(self, *names: str) -> int:
        """Return how often these faults were injected, together."""
        return sum(each.done.get(name, 0) for each in self.rounds for name in names)

    @property
    def seconds(self) -> float:
        """The seconds of all rounds together."""
        return sum(each.seconds for each in self.rounds)

    def recovery(self, part: float, name: str = "recoveries") -> float:
        """Return the time that this share of recoveries did not exceed; 0 without recoveries."""
        known = sorted(took for each in self.rounds for took in getattr(each, name))
        return known[math.ceil(round(part * len(known), 6)) - 1] if known else 0.0

    def quantiles(self, name: str = "recoveries") -> str:
        """Return the usual quantiles of recoveries as text."""
        return " / ".join(f"{self.recovery(part, name):.2f}" for part in (0.5, 0.99, 1.0))

    def bound(self) -> str:
        """Return the promised bound of a recovery as text."""
        return f"{max((each.bound for each in self.rounds), default=0.0):.2f}"


def odds(bad: int, of: int) -> str:
    """Return a rate as text. By the rule of three, what never occurred in N tries is rarer than 3 in N, with 95 % confidence."""
    return f"0 (< {3 / of:.1g})" if of and not bad else f"{bad}"


ROWS: dict[str, Callable[[Sum], str]] = {
    "rounds": lambda s: f"{len(s.rounds)}",
    "minutes": lambda s: f"{s.seconds / 60:.1f}",
    "kill -9 cycles": lambda s: f"{s.done('kills'):,}",
    "… each second": lambda s: f"{s.done('kills') / s.seconds if s.seconds else 0.0:.2f}",
    "crews killed whole": lambda s: f"{s.done('crews killed'):,}",
    "supervisors killed alone": lambda s: f"{s.done('supervisors killed'):,}",
    "zombies": lambda s: f"{s.done('zombies'):,}",
    "frozen for a moment, alone": lambda s: f"{s.done('freezes'):,}, {s.done('workers frozen'):,}",
    "SIGTERM": lambda s: f"{s.done('terminations'):,}",
    "server restarts": lambda s: f"{s.done('restarts'):,}",
    "partitions": lambda s: f"{s.done('cuts'):,}",
    "backends killed, stopped, ended": lambda s: " ".join(
        f"{s.done(name):,}" for name in ("backends killed", "backends stopped", "connections ended")
    ),
    "read-only, locked": lambda s: f"{s.done('read only'):,}, {s.done('locks'):,}",
    "bucket: outages, slow, bursts of faults": lambda s: " ".join(
        f"{s.done(name):,}" for name in ("outages of the bucket", "slow times of the bucket", "bursts of bucket faults")
    ),
    "leaders killed, frozen, cut off, ended": lambda s: " ".join(
        f"{s.done(f'leaders {what}'):,}" for what in ("killed", "frozen", "cut off", "ended")
    ),
    "standbys killed, all brokers killed": lambda s: f"{s.done('standbys killed'):,}, {s.done('all brokers killed'):,}",
    "primaries killed, paused, stepped down": lambda s: " ".join(
        f"{s.done(f'primaries {what}'):,}" for what in ("killed", "paused", "stepped down")
    ),
    "primaries deposed unaware, writes rolled back": lambda s: " ".join(
        f"{s.done(name):,}" for name in ("primaries deposed unaware", "writes rolled back")
    ),
    "secondaries killed, answers lost, commands refused": lambda s: " ".join(
        f"{s.done(name):,}" for name in ("secondaries killed", "answers lost", "commands refused")
    ),
    "NATS killed": lambda s: f"{s.done('NATS killed'):,}",
    "rows locked, statements cancelled": lambda s: f"{s.done('rows locked'):,}, {s.done('statements cancelled'):,}",
    "copies, backups of the file": lambda s: f"{s.done('copies'):,}, {s.done('backups'):,}",
    "rows of the watched table": lambda s: f"{s.total('rows'):,}",
    "operations": lambda s: f"{s.done('operations'):,}",
    "jobs, starts": lambda s: f"{s.total('jobs'):,}, {s.total('starts'):,}",
    "lost": lambda s: odds(s.total("lost"), s.total("jobs")),
    "owned twice": lambda s: odds(s.total("owned_twice"), s.total("starts")),
    "zombie writes refused": lambda s: f"{s.total('zombie_writes_refused'):,}",
    "zombie writes accepted": lambda s: odds(
        s.total("zombie_writes_accepted"), s.total("zombie_writes_accepted") + s.total("zombie_writes_refused")
    ),
    "stuck": lambda s: odds(s.total("stuck"), s.total("jobs")),
    "other violations": lambda s: f"{s.total('other_violations')}",
    "handlers at once: in, out": lambda s: f"{s.total('overlaps_inside')}, {s.total('overlaps_outside')}",
    "recoveries": lambda s: f"{sum(len(each.recoveries) for each in s.rounds):,}",
    "p50 / p99 / max, in seconds": Sum.quantiles,
    "the bound": Sum.bound,
    "returned jobs that ran again": lambda s: f"{sum(len(each.restarts) for each in s.rounds):,}",
    "until their code ran: p50 / p99 / max": lambda s: s.quantiles("restarts"),
    "until another broker led: p50 / p99 / max": lambda s: s.quantiles("failovers"),
}
"""The rows of the table. "Out" means outside the timing assumptions, by a process that was frozen."""


def table(rounds: Sequence[Figures], title: str) -> Table:
    """Return a table with a column for each store."""
    stores = sorted({each.store for each in rounds})
    sums = {store: Sum([each for each in rounds if each.store == store]) for store in stores}
    if len(sums) > 1:
        sums[TOGETHER] = Sum(rounds)
    made = Table(title=title, title_justify="left")
    made.add_column("")
    for name in sums:
        made.add_column(name, justify="right")
    for name, tell in ROWS.items():
        made.add_row(name, *(tell(each) for each in sums.values()))
    return made

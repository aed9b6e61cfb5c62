"""``python -m holdfast.testing.simulate --seeds 500``: many worlds, or one of them again with its story.

Prints each seed that broke something, with the command that repeats it; the exit code is 1 then.
"""

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct, field

from holdfast._ports.clock import SystemClock
from holdfast.testing.simulation import Outcome, simulate
from holdfast.testing.verdicts import PROPERTIES, percentile

World = Callable[[int], Outcome]
REPEAT = 50  # every so many seeds one runs twice, and both histories must be equal


class Summary(Struct):
    """What some seeds came to."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    rescues: int = 0
    overlaps_inside: int = 0
    overlaps_outside: int = 0
    virtual: float = 0.0
    recoveries: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        report = outcome.report
        self.seeds += 1
        self.checked += report.checked
        self.unknown += report.unknown
        self.starts += report.starts
        self.rescues += report.rescues
        self.overlaps_inside += report.overlaps_inside
        self.overlaps_outside += report.overlaps_outside
        self.virtual += outcome.seconds
        self.recoveries += [round(seconds / outcome.plan.settings.timing.ttl, 4) for seconds in report.recoveries]

    def merge(self, other: "Summary") -> None:
        """The seeds of another process."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, mine + theirs)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    given = _parser().parse_args(arguments)
    clock, world = SystemClock(), partial(simulate, has_hooks=given.hooks, has_queue=given.queue)
    if given.seed is not None:
        return _tell_one(given.seed, world)
    seeds = range(given.first, given.first + given.seeds)[given.part :: given.jobs]
    if given.as_json:
        sys.stdout.buffer.write(msgspec.json.encode(_run(seeds, world)))
        return 0
    started = clock.monotonic()
    words = ["--hooks"] * given.hooks + ["--queue"] * given.queue
    summary = _run_on_all(given.first, given.seeds, given.jobs, words) if given.jobs > 1 else _run(seeds, world)
    _print(summary, clock.monotonic() - started, given.jobs, words)
    return 1 if summary.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many worlds (500)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="only this one, with the whole story if it breaks something")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in (1)")
    parser.add_argument("--hooks", action="store_true", help="in worlds whose tasks have an on_rescue")
    parser.add_argument("--queue", action="store_true", help="in worlds in which a queue delivers the jobs")
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--json", dest="as_json", action="store_true", help=argparse.SUPPRESS)
    return parser


def _run(seeds: Sequence[int], world: World) -> Summary:
    summary = Summary()
    for seed in seeds:
        outcome = world(seed)
        summary.add(outcome)
        problems = list(_problems(outcome))
        if seed % REPEAT == 0 and world(seed).history.digest() != outcome.history.digest():
            problems.append("the same seed gave another history: something is not decided by it")
        if problems:
            summary.failed.append(seed)
            summary.told.append(f"seed {seed} failed at revision {revision()}:\n  " + "\n  ".join(problems))
    return summary


def _problems(outcome: Outcome) -> Iterator[str]:
    yield from outcome.complaints[:3]
    for violation in outcome.report.violations[:3]:
        yield f"{violation.name} ({PROPERTIES[violation.name]}): {violation.text}"


def _run_on_all(first: int, count: int, jobs: int, more: Sequence[str]) -> Summary:
    words = [sys.executable, "-m", "holdfast.testing.simulate", "--json"]
    words += [f"--first={first}", f"--seeds={count}", f"--jobs={jobs}", *more]
    running = [subprocess.Popen([*words, f"--part={part}"], stdout=subprocess.PIPE) for part in range(jobs)]
    summary = Summary()
    for each in running:
        out, _ = each.communicate()
        if each.returncode:
            raise SystemExit(f"a part of the simulation ended with {each.returncode}")
        summary.merge(msgspec.json.decode(out, type=Summary, dec_hook=lambda kind, value: kind(value)))
    return summary


def _tell_one(seed: int, world: World) -> int:
    outcome = world(seed)
    print(f"seed {seed} at revision {revision()}: {outcome.seconds:.0f} s, {len(outcome.history)} events")
    print(outcome.plan)
    print("nothing broke" if outcome.is_clean else outcome.explain())
    print(f"digest {outcome.history.digest()}")
    return 0 if outcome.is_clean else 1


def _print(summary: Summary, seconds: float, jobs: int, words: Sequence[str]) -> None:
    for told in summary.told:
        print(told)
    for seed in summary.failed[:5]:
        print(" ".join(["repeat it: python -m holdfast.testing.simulate --seed", str(seed), *words]))
    speed = summary.seeds / max(seconds, 1e-9)
    print(f"{summary.seeds} seeds, {len(summary.failed)} failed; {speed:.1f} seeds/s in {jobs} processes")
    print(f"{summary.virtual:.0f} s simulated, {summary.starts} attempts, {summary.rescues} rescues")
    half, most, slowest = (percentile(summary.recoveries, share) for share in (0.5, 0.99, 1.0))
    print(f"recoveries in ttls, where a bound is promised: p50 {half:.2f}, p99 {most:.2f}, slowest {slowest:.2f}")
    print(f"handlers overlapped: {summary.overlaps_inside} inside the timing assumptions, {summary.overlaps_outside} outside")
    print("unknown outcomes: " + (", ".join(f"{name} {count}" for name, count in sorted(summary.unknown.items())) or "none"))
    print("checked: " + ", ".join(f"{name} {summary.checked[name]}" for name in PROPERTIES))


def revision() -> str:
    """The commit this code is at, marked when it was changed since."""
    folder = Path(__file__).parent
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    raise SystemExit(main())

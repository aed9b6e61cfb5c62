"""``python -m tests.simulation.run_mutants``: for each mutant a world that shows it, first of the seed that is known to, then from 0 on.

Prints what each mutant breaks, which property caught it, at which seed, and how many worlds were looked at; the exit code is
1 when one is not caught. ``--renew`` writes the seeds down, ``--scratch`` forgets them.
"""

import argparse
import random
import resource
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice, repeat
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast._core.book import Book
from proof.simulator.plans import draw
from proof.simulator.simulation import Outcome, perform
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS = Path(__file__).with_name("seeds.json")
FARTHEST = 100_000  # seeds among which worlds that fit are looked for
CHOICES = 3  # worlds that show it, of which the smallest is written down
CAUGHT, MISSED = 0, 1


class Found(Struct, frozen=True):
    """What became of one hunt. ``seed``: ``None`` if no world showed it; ``looked``: at so many; ``seconds``: of CPU."""

    mutant: str
    seed: int | None
    looked: int
    seconds: float


def known_seeds() -> dict[str, int]:
    """By the mutant's name."""
    return msgspec.json.decode(SEEDS.read_bytes(), type=dict[str, int])


def hunt(mutant: Mutant, known: int | None = None, *, choices: int = 1) -> Found:
    """Look at the world of the seed that is known, then at those that fit, until so many show it; of these the smallest counts."""
    started, looked, best, shown = _cpu(), 0, None, list[tuple[int, int]]()
    for seed in chain([] if known is None else [known], fitting(mutant)):
        looked += 1
        with mutant.patch():
            broken = play(mutant, seed, mutant.kind)
        if not broken.report.verdict(mutant.caught_by):
            if seed == known:
                return Found(mutant.name, seed, looked, _cpu() - started)
            shown.append((len(broken.history), seed))
            if len(shown) == choices:
                best = _smallest(mutant, shown)
                if best is not None:
                    break
                shown.clear()
    return Found(mutant.name, _smallest(mutant, shown) if best is None else best, looked, _cpu() - started)


def _smallest(mutant: Mutant, shown: list[tuple[int, int]]) -> int | None:
    """Of those that break something only because of the mutant."""
    return next((seed for _, seed in sorted(shown) if play(mutant, seed).report.verdict(mutant.caught_by)), None)


def play(mutant: Mutant, seed: int, kind: type[Book] = Book) -> Outcome:
    """The world of this seed as the mutant wants it."""
    return perform(mutant.aim(draw(random.Random(seed))), seed, kind)


def fitting(mutant: Mutant, first: int = 0) -> Iterator[int]:
    """Seeds of worlds that are worth looking at, as many as it takes."""
    fit = (seed for seed in range(first, FARTHEST) if mutant.where(draw(random.Random(seed))))
    return islice(fit, mutant.within)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _hunt_of(name: str, known: int | None, choices: int) -> Found:
    return hunt(next(mutant for mutant in MUTANTS if mutant.name == name), known, choices=choices)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    given = _parser().parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if given.only in mutant.name]
    known = {} if given.scratch or given.renew else known_seeds()
    names = [mutant.name for mutant in mutants]
    with ProcessPoolExecutor(given.jobs) as pool:
        hunts = pool.map(_hunt_of, names, map(known.get, names), repeat(CHOICES if given.renew else 1))
        found = [_tell(mutant, each) for mutant, each in zip(mutants, hunts, strict=True)]
    missed = sum(each.seed is None for each in found)
    by_known = sum(each.seed is not None and each.seed == known.get(each.mutant) for each in found)
    print(f"{len(found)} mutants: {len(found) - missed} caught, {by_known} of them by the seed that is known, {missed} missed")
    print(f"{sum(each.looked for each in found)} worlds looked at in {sum(each.seconds for each in found):.1f} s of CPU")
    if given.renew:
        seeds = {each.mutant: each.seed for each in found if each.seed is not None}
        SEEDS.write_bytes(
            msgspec.json.format(msgspec.json.encode(known_seeds() | seeds if given.only else seeds), indent=2) + b"\n"
        )
    return MISSED if missed else CAUGHT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run_mutants", description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="only mutants with these words in their names")
    parser.add_argument("--renew", action="store_true", help="look from seed 0 on, and write down what was found")
    parser.add_argument("--scratch", action="store_true", help="look from seed 0 on")
    parser.add_argument("--jobs", type=int, default=2, help="processes to look in (2)")
    return parser


def _tell(mutant: Mutant, found: Found) -> Found:
    caught = "NOT CAUGHT" if found.seed is None else f"{mutant.caught_by} at seed {found.seed}"
    looked = f"{found.looked} world{'s' * (found.looked > 1)}"
    print(f"{mutant.name:<52} {caught:<20} {looked:>11} {found.seconds:6.1f} s  {mutant.breaks}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())

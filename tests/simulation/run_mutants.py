"""``python -m tests.simulation.run_mutants``: find a world that shows each mutant, first by its known seed, then from seed 0 on.

The command prints what each mutant breaks, which property caught it, at which seed, and how many worlds ran. The exit code is 1
when one is not caught. ``--renew`` writes the seeds again, ``--scratch`` ignores them.
"""

import argparse
import resource
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice, repeat
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from holdfast._core.book.book import Book
from proof.simulator.plans import draw_for
from proof.simulator.simulation import Outcome, perform
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS = Path(__file__).with_name("seeds.json")
FARTHEST = 100_000  # seeds of which the fitting worlds are tried
CHOICES = 3  # worlds that show the mutant; the seed of the smallest is written
CAUGHT, MISSED = 0, 1


class Found(Struct, frozen=True):
    """The result for one mutant. ``seed``: ``None`` if no world showed it. ``looked``: how many worlds ran. ``seconds``: of CPU."""

    mutant: str
    seed: int | None
    looked: int
    seconds: float


def known_seeds() -> dict[str, int]:
    """The known seed of each mutant, by its name."""
    return msgspec.json.decode(SEEDS.read_bytes(), type=dict[str, int])


def find_seed(mutant: Mutant, known: int | None = None, *, choices: int = 1) -> Found:
    """Run the world of the known seed, then those that fit, until ``choices`` worlds show the mutant; return the smallest of these."""
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
    """The seed of the smallest world that breaks the property only because of the mutant."""
    return next((seed for _, seed in sorted(shown) if play(mutant, seed).report.verdict(mutant.caught_by)), None)


def play(mutant: Mutant, seed: int, kind: type[Book] = Book) -> Outcome:
    """Run the world of this seed, with the changes that the mutant asks for."""
    plan = draw_for(seed, mutant.brand)
    plan = plan if mutant.prefetches else structs.replace(plan, ahead=0)
    return perform(mutant.aim(plan if mutant.has_flows else structs.replace(plan, flows=None)), seed, kind)


def fitting(mutant: Mutant, first: int = 0) -> Iterator[int]:
    """The seeds of worlds that may show the mutant."""
    fit = (seed for seed in range(first, FARTHEST) if mutant.where(draw_for(seed, mutant.brand)))
    return islice(fit, mutant.within)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _find_seed_of(name: str, known: int | None, choices: int) -> Found:
    return find_seed(next(mutant for mutant in MUTANTS if mutant.name == name), known, choices=choices)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if given.only in mutant.name]
    known = {} if given.scratch or given.renew else known_seeds()
    names = [mutant.name for mutant in mutants]
    with ProcessPoolExecutor(given.jobs) as pool:
        results = pool.map(_find_seed_of, names, map(known.get, names), repeat(CHOICES if given.renew else 1))
        found = [_print_result(mutant, each) for mutant, each in zip(mutants, results, strict=True)]
    missed = sum(each.seed is None for each in found)
    by_known = sum(each.seed is not None and each.seed == known.get(each.mutant) for each in found)
    print(f"{len(found)} mutants: {len(found) - missed} caught, {by_known} of them by the known seed, {missed} missed")
    print(f"{sum(each.looked for each in found)} worlds in {sum(each.seconds for each in found):.1f} s of CPU")
    if given.renew:
        seeds = {each.mutant: each.seed for each in found if each.seed is not None}
        SEEDS.write_bytes(
            msgspec.json.format(msgspec.json.encode(known_seeds() | seeds if given.only else seeds), indent=2) + b"\n"
        )
    return MISSED if missed else CAUGHT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run_mutants", description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="only mutants with these words in their names")
    parser.add_argument("--renew", action="store_true", help="try from seed 0 on, and write the seeds that were found")
    parser.add_argument("--scratch", action="store_true", help="try from seed 0 on")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser


def _print_result(mutant: Mutant, found: Found) -> Found:
    caught = "NOT CAUGHT" if found.seed is None else f"{mutant.caught_by} at seed {found.seed}"
    looked = f"{found.looked} world{'s' * (found.looked > 1)}"
    print(f"{mutant.name:<52} {caught:<20} {looked:>11} {found.seconds:6.1f} s  {mutant.breaks}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())

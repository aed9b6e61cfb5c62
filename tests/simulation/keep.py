"""``python -m tests.simulation.keep "settle by worker name" --seed 26``: find, shrink and keep a world that shows a mutant.

It keeps a script, not a seed: the world stays the same while the engine changes, as far as that is possible.
"""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from proof.search.cases import Case, write
from proof.search.shrinking import Shrinker
from proof.simulate import revision
from proof.simulator.plans import Plan
from proof.simulator.simulation import Outcome, perform
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.run_mutants import fitting, play

KEPT = Path(__file__).parent / "kept"


def keep(mutant: Mutant, first: int, budget: int) -> Case | None:
    """The smallest world of the first seed that shows the mutant; it must be clean without the mutant."""
    for seed in fitting(mutant, first):
        with mutant.patch():
            found = play(mutant, seed, mutant.kind)
            if found.report.verdict(mutant.caught_by):
                continue
            small = Shrinker(_player(mutant, seed), budget=budget).shrink(found, mutant.caught_by)
        case = Case(
            what=_first(small, mutant.caught_by),
            breaks=mutant.caught_by,
            mutant=mutant.name,
            revision=revision(),
            seed=seed,
            plan=small.plan,
        )
        if case.play().is_clean:
            return case
    return None


def _player(mutant: Mutant, seed: int) -> Callable[[Plan], Outcome]:
    return lambda plan: perform(plan, seed, mutant.kind)


def _first(outcome: Outcome, name: str) -> str:
    text = next(each.text for each in outcome.report.violations if each.name == name)
    return re.sub(r"(\d+):[0-9a-f]{32}", r"claim \1", text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.keep", description=__doc__)
    parser.add_argument("mutants", nargs="*", help="their names; without any: those that are kept already, again")
    parser.add_argument("--seed", type=int, default=0, help="the first seed to try (0)")
    parser.add_argument("--budget", type=int, default=400)
    given = parser.parse_args()
    for mutant in MUTANTS:
        path = KEPT / f"{re.sub(r'[^a-z0-9]+', '_', mutant.name.lower()).strip('_')}.json"
        if mutant.name in given.mutants or (not given.mutants and path.exists()):
            case = keep(mutant, given.seed, given.budget)
            if case is None:
                sys.stdout.write(f"{mutant.name}: not one of {mutant.within} worlds from seed {given.seed} on shows it\n")
                continue
            write(case, path)
            sys.stdout.write(f"{mutant.name}: {case.breaks} in {len(case.plan.script or ())} decisions, seed {case.seed}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

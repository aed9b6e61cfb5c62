"""Each guard that is taken out is noticed: first by a seed that is known to show it, else within a stated number of seeds."""

import pytest

from holdfast.testing.simulation import simulate
from tests.simulation.mutants import MUTANTS, Mutant


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_caught(mutant: Mutant) -> None:
    with mutant.patch():
        for seed in range(mutant.seed, mutant.seed + mutant.within):
            if not simulate(seed, mutant.kind, has_hooks=mutant.has_hooks, has_queue=mutant.has_queue).report.verdict(
                mutant.caught_by
            ):
                return
    pytest.fail(f"{mutant.within} seeds from {mutant.seed} on did not show that {mutant.caught_by} is broken")


def test_there_are_at_least_24() -> None:
    assert len(MUTANTS) >= 24

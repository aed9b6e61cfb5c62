"""Each missing guard is noticed: by its known seed, else within a stated number of worlds."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.run_mutants import find_seed, known_seeds

EACH = 20
"""A push looks at each twentieth mutant, `make prove` at all of them: one takes about a second."""
SHARED = [
    pytest.param(each, id=each.name, marks=[pytest.mark.prove] * bool(number % EACH)) for number, each in enumerate(MUTANTS)
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", SHARED)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    found = find_seed(mutant, known_seeds().get(mutant.name))
    assert found.seed is not None, f"{found.looked} worlds did not show that {mutant.caught_by} is broken"


def test_only_the_world_of_the_known_seed_runs() -> None:
    mutant = MUTANTS[0]
    known = find_seed(mutant).seed
    assert find_seed(mutant, known).looked == 1


def test_a_mutant_that_breaks_no_property_is_not_caught() -> None:
    found = find_seed(Mutant("nothing", "S1", 3))
    assert (found.seed, found.looked) == (None, 3)


def test_each_mutant_has_a_unique_name_and_a_seed() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert sorted(known_seeds()) == sorted(names)  # python -m tests.simulation.run_mutants --renew

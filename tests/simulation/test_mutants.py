"""Each guard that is taken out is noticed: first by a seed that is known to show it, else within a stated number of worlds."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.run_mutants import hunt, known_seeds


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_caught(mutant: Mutant) -> None:
    found = hunt(mutant, known_seeds().get(mutant.name))
    assert found.seed is not None, f"{found.looked} worlds did not show that {mutant.caught_by} is broken"


def test_a_world_that_is_known_is_the_only_one_that_is_looked_at() -> None:
    mutant = MUTANTS[0]
    known = hunt(mutant).seed
    assert hunt(mutant, known).looked == 1


def test_what_breaks_nothing_is_not_caught() -> None:
    found = hunt(Mutant("nothing", "S1", 3))
    assert (found.seed, found.looked) == (None, 3)


def test_each_has_a_name_and_a_seed_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert sorted(known_seeds()) == sorted(names)  # python -m tests.simulation.run_mutants --renew

"""Worlds that once broke a property: each is clean now, and each still shows its mutant."""

from pathlib import Path

import pytest

from proof.search.cases import read
from tests.simulation.keep import KEPT
from tests.simulation.mutants import MUTANTS

CASES = sorted(KEPT.glob("*.json"))
NAMED = {mutant.name: mutant for mutant in MUTANTS}


@pytest.mark.parametrize(
    "path",
    [pytest.param(each, marks=[pytest.mark.prove] * bool(at % 3)) for at, each in enumerate(CASES)],
    ids=lambda path: path.stem,
)
def test_a_kept_world_is_clean_now_and_caught_under_its_mutant(path: Path) -> None:
    case = read(path)
    now = case.play()
    assert now.is_clean, now.explain()
    if case.mutant:
        mutant = NAMED[case.mutant]
        with mutant.patch():
            assert not case.play(mutant.kind).report.verdict(case.breaks), (
                f"the world shows the mutant no more, keep another one: python -m tests.simulation.keep {case.mutant!r}"
            )


def test_there_are_kept_worlds() -> None:
    assert len(CASES) >= 10

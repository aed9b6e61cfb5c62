"""The figures of docs/proof.md that a test can count are those of today."""

from pathlib import Path

import pytest

from scripts import mutate_sql
from tests.simulation.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/proof.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("store", "name"),
    [
        ("sqlite", "SQLite's statements"),
        ("postgres", "PostgreSQL's statements"),
        ("rows-sqlite", "SQLite's statements for rows"),
        ("rows-postgres", "PostgreSQL's statements for rows"),
    ],
)
def test_guards_of_statements(store: str, name: str) -> None:
    found, excused = list(mutate_sql._guards(store)), mutate_sql._equivalent(store)
    equal = sum(mutate_sql._excuse(excused, file, guard.name) is not None for file, guard in found)
    unknown = len(mutate_sql.open_guards(store))
    noticed = len(found) - equal - unknown
    assert f"| guards of {name} | {len(found)}: {equal} of them change nothing" in PAGE
    assert f"{noticed} of {len(found) - equal} noticed by a test" in PAGE
    assert not unknown or f"{unknown} of new statements without a known test yet" in PAGE


def test_mutants_of_the_engine() -> None:
    assert f"| {len(MUTANTS)} | {len(MUTANTS)} caught" in PAGE


def test_the_table_of_peers_is_that_of_the_last_race() -> None:
    table, _, reported = (ROOT / "bench/results/peers-torture.md").read_text(encoding="utf-8").partition("\n\n")
    assert table in PAGE
    assert reported.strip() in PAGE

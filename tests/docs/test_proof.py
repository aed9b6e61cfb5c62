"""The figures of the pages on the proof that a test can count are those of today."""

import re
from pathlib import Path

import pytest

from scripts import mutate_sql
from tests.contract.test_memory import TestMemory as OfMemory
from tests.contract.test_postgres import TestPostgres as OfPostgres
from tests.contract.test_sqlite import TestSqlite as OfSqlite
from tests.simulation.mutants import MUTANTS

PROPERTIES = ("S18", "S19", "S20", "S21", "S22", "S23", "S27", "L12", "L17")
THREADS = (
    "celery/celery#1401, #9674, #1700",
    "celery/django-celery-results#397",
    "bensheldon/good_job#832, rails/solid_queue#142, breamware/sidekiq-batch#69",
    "taskforcesh/bullmq#3362, #3122, #1752, oban-bg/oban#722",
    "Oban Pro's forum, a dropped graft",
    "apache/airflow#60330, #63507",
    "hatchet-dev/hatchet#4778, janbjorge/pgqueuer#761",
    "rails/solid_queue#735, #546, #689, #761, hatchet-dev/hatchet#4494, ixti/sidekiq-throttled#61",
    "hatchet-dev/hatchet#4804, taskforcesh/bullmq#3325, dbos-inc/dbos-transact-py#805",
    "janbjorge/pgqueuer#776, sidekiq/sidekiq#4857",
    "riverqueue/river#791, sidekiq/sidekiq#6804, agronholm/apscheduler#146, #463",
    "celery/celery#10107, #9653, #6438, celery/django-celery-beat#604",
    "dbos-inc/dbos-transact-py#688",
    "earendil-works/absurd#138, #96",
    "tensorzero/durable#37",
    "celery/celery#4537",
)
"""What went wrong in the workflows, schedules and limits of other libraries."""
TEST = re.compile(r"`([\w/]+): (\w+)`")
ROOT = Path(__file__).parents[2]
PAGE = "\n".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("proof", "proof-methods", "proof-found"))


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


WITHOUT_SEED = 3
"""Mutants of the engine for which a seed is yet to be found."""


def test_mutants_of_the_engine() -> None:
    assert f"| {len(MUTANTS)} | {len(MUTANTS) - WITHOUT_SEED} caught" in PAGE


def test_the_table_of_peers_is_that_of_the_last_race() -> None:
    table, _, reported = (ROOT / "bench/results/peers-torture.md").read_text(encoding="utf-8").partition("\n\n")
    assert table in PAGE
    assert reported.strip() in PAGE


@pytest.mark.parametrize("letters", PROPERTIES)
def test_a_property_of_workflows_has_a_named_test_of_every_store(letters: str) -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| **{letters}** "))
    names = [name for place, name in TEST.findall(row) if place.startswith("contracts/")]
    assert names
    assert all(name.startswith(f"{letters.lower()}_") for name in names)
    assert all(hasattr(store, f"test_{name}") for name in names for store in (OfMemory, OfSqlite, OfPostgres))


@pytest.mark.parametrize("threads", THREADS)
def test_what_went_wrong_in_a_peer_is_a_row_with_tests(threads: str) -> None:
    page = (ROOT / "docs/pitfalls.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith("| ") and threads in line)
    tests = row.removesuffix(" |").rpartition(" | ")[2]
    assert TEST.findall(tests), "scripts/check_docs.py checks that they exist"

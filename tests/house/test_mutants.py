"""The variants of the protocol of which it is promised that the simulation notices them, in the words of the promise."""

import json
from pathlib import Path

from tests.simulation.mutants import MUTANTS
from tests.stores import test_postgres_flow_locks

PROMISED = (
    "settle by id only",
    "settle by state only",
    "settle by worker name",
    "beat unfenced",
    "progress unfenced",
    "rescue without re-judging",
    "rescue by start age",
    "worker's wall clock sets the expiry",
    "no self-stop",
    "settle not idempotent",
    "claim not atomic",
    "crash not counted",
    "child enqueue outside the settle",
    "hint as the only wake-up",
    "amnesty missing",
    "claim number reset by an operator's retry",
    "audit after a lost claim answer missing",
    "token without the claim id",
    "lease not ended before its claims move",
    "enqueue without a receipt",
    "cancel that misses a moving job",
    "settle before the code has stopped",
    "other supervisors judge as early as the owner",
    "siblings charged for a culprit",
)

OF_FLOWS = {
    "dependents released in a second write": "dependents released in a second write",
    "counter lowered by a settle sent again": "counters lowered by a settle sent again",
    "release ignores pause": "release ignores the pause",
    "child of a member not added to the root": "child of a member not added to its root's counters",
    "expire past the flow's door": "expire past the flow",
    "request_cancel past the flow's door": "cancel past the flow",
    "delete past the flow's door": "delete past the flow",
    "reopen without dependents": "reopen without dependents",
    "members pruned before their root": "members forgotten before their root",
    "step by position": "step by position",
    "step written without token": "step written without a token",
    "timeout of a wait not recorded": "timeout of a wait not recorded",
    "signal without the row's lock": "signal without the lock of the row",
    "mark without voids": "started without voids",
    "mark during a lost claim": "started during a lost claim",
}
"""Variants of workflows, steps, signals and marks, each with its name in the table of the simulation, whose seed is known."""
OF_LOCKS = {
    "counted in the locking statement": "test_s19_counters_that_are_read_in_the_statement_that_locks_are_noticed",
    "flow lock after the jobs'": "test_l12_a_workflow_that_is_locked_after_its_jobs_is_noticed",
}
"""Variants that only a database with snapshots and locks of rows can have, each with the test that notices it."""
SEEDS = json.loads((Path(__file__).parents[1] / "simulation/seeds.json").read_text(encoding="utf-8"))


def test_each_promised_mutant_is_in_the_table_once() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert {name: names.count(name) for name in PROMISED} == dict.fromkeys(PROMISED, 1)
    assert len(PROMISED) == 24


def test_each_mutant_names_what_it_breaks() -> None:
    assert not [mutant.name for mutant in MUTANTS if not mutant.breaks.endswith(".")]


def test_each_promised_mutant_of_workflows_has_a_known_seed_or_a_test_of_postgresql() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert {name for name in OF_FLOWS.values() if name not in names or name not in SEEDS} == set()
    assert [name for name in OF_LOCKS.values() if not hasattr(test_postgres_flow_locks.TestLocks, name)] == []

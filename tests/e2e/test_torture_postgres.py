"""Machines killed, frozen and cut off, servers killed and restarted; a checker reads what really happened to every row."""

from pathlib import Path

import pytest

from tests.e2e.fault_runs import SEED
from tests.e2e.torture.databases import Store
from tests.e2e.torture.rounds import Plan, play

HALF = {"kills": 25, "zombies": 5, "cuts": 6, "rows locked": 2, "statements cancelled": 1}
"""Half of what `make prove` survives: 50 kills, 12 partitions, 5 restarts and, with those of the SQLite file, 20 zombies."""


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("store", "restarts"), [("postgres", 2), ("postgres+nats", 3)])
def test_nothing_is_lost_owned_twice_or_stuck_under_faults_of_machines_and_servers(
    tmp_path: Path, store: Store, restarts: int
) -> None:
    plan = Plan(store=store, seed=SEED, seconds=0.0, wanted={**HALF, "restarts": restarts}, crews=3)
    verdict = play(plan, tmp_path)
    print(f"{dict(verdict.counts)}, slowest recovery {verdict.report.slowest_recovery:.2f} s in {verdict.seconds:.0f} s")
    assert verdict.is_clean, verdict.explain()

"""Workers killed, machines cut off, primaries killed, paused and deposed; a checker reads what a majority of the members kept."""

from pathlib import Path

import pytest

from tests.e2e.fault_runs import SEED
from tests.e2e.torture.rounds import Plan, play

FEW = {"kills": 5, "cuts": 1, "primaries killed": 1, "answers lost": 1}
MANY = {
    "kills": 20,
    "zombies": 3,
    "cuts": 4,
    "primaries killed": 3,
    "primaries paused": 2,
    "primaries deposed unaware": 1,
    "writes rolled back": 1,
    "answers lost": 2,
    "commands refused": 2,
}


@pytest.mark.timeout(600)
@pytest.mark.prove
@pytest.mark.parametrize("wanted", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many")])
def test_nothing_in_a_replica_set_is_lost_owned_twice_or_stuck_while_members_and_workers_fail(
    tmp_path: Path, wanted: dict[str, int]
) -> None:
    verdict = play(Plan(store="mongo", seed=SEED, seconds=0.0, wanted=wanted, crews=2, processes=2), tmp_path)
    print(f"{dict(verdict.counts)}, slowest recovery {verdict.report.slowest_recovery:.2f} s in {verdict.seconds:.0f} s")
    assert verdict.is_clean, verdict.explain()

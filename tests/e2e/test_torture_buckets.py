"""Workers killed and crews frozen on a bucket that fails, with and without brokers; a checker reads what really landed."""

from pathlib import Path

import pytest

from tests.e2e.fault_runs import SEED
from tests.e2e.torture.databases import Store
from tests.e2e.torture.kept import look
from tests.e2e.torture.rounds import Plan, play

HALF = {"kills": 20, "zombies": 4, "cuts": 4, "outages of the bucket": 2, "bursts of bucket faults": 4}
FAILOVERS = {"kills": 8, "zombies": 2, "leaders killed": 1, "leaders frozen": 1, "leaders ended": 1}


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("store", "wanted"), [("objects", HALF), ("objects+broker", FAILOVERS)])
def test_nothing_in_a_bucket_is_lost_owned_twice_or_stuck_while_workers_brokers_and_the_bucket_fail(
    tmp_path: Path, store: Store, wanted: dict[str, int]
) -> None:
    verdict = play(Plan(store=store, seed=SEED, seconds=0.0, wanted=wanted, crews=2, processes=2), tmp_path)
    print(f"{dict(verdict.counts)}, slowest recovery {verdict.report.slowest_recovery:.2f} s in {verdict.seconds:.0f} s")
    assert verdict.is_clean, verdict.explain()
    assert "nothing is wrong" in look(tmp_path)

"""One short round with all faults at once; ``make torture MINUTES=30`` plays many such rounds."""

import os
import time
import uuid
from pathlib import Path

import pytest

from holdfast._system.host import identify
from proof.checker.process_log import ProcessEvent, tell
from tests.e2e.fault_runs import SEED
from tests.e2e.records import PROCESS_LOG
from tests.e2e.torture.kept import look
from tests.e2e.torture.rounds import Plan, play


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kills", "zombies"), [(4, 1), pytest.param(50, 10, marks=pytest.mark.prove)])
def test_nothing_is_lost_owned_twice_or_stuck_while_workers_are_killed_and_crews_frozen(
    tmp_path: Path, kills: int, zombies: int
) -> None:
    wanted = {"kills": kills, "zombies": zombies, "copies": 2, "backups": 1}
    plan = Plan(store="sqlite", seed=SEED, seconds=0.0, wanted=wanted, crews=3)
    verdict = play(plan, tmp_path)
    print(f"{dict(verdict.counts)}, slowest recovery {verdict.report.slowest_recovery:.2f} s in {verdict.seconds:.0f} s")
    assert verdict.is_clean, verdict.explain()
    assert "nothing is wrong" in look(tmp_path)
    tell(tmp_path / PROCESS_LOG, ProcessEvent(time.time(), "enqueue", identify(os.getpid()), uuid.uuid4()))
    assert "S6 promises" in look(tmp_path)

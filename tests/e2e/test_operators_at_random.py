"""Operators who cancel, retry, pause, reschedule and delete at random while jobs run and workers are killed."""

import os
import random
from pathlib import Path

import pytest

from holdfast._core.job import PLACE_OF, Place, State
from holdfast._system.host import identify
from proof.checker.checker import Rules, check
from tests.e2e.fault_runs import SEED, FaultRun
from tests.e2e.fleet import fleet
from tests.e2e.machines import HERE
from tests.e2e.random_operators import Operator, amend
from tests.e2e.waiting import until

JOBS = int(os.environ.get("E2E_OPERATED_JOBS", "500"))
ROUNDS = int(os.environ.get("E2E_OPERATED_ROUNDS", "6"))
OURS = identify(os.getpid())
DELETABLE = 0.2
"""The share of jobs that may be deleted; all others must stay."""


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_s4_every_job_ends_under_all_operator_commands_while_its_workers_are_killed(tmp_path: Path, store_url: str) -> None:
    chance = random.Random(SEED)
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.3s") as ships:
        faults = FaultRun(ships, chance, [HERE, HERE])
        operator = Operator(ships.app, chance, lambda job: faults.record.tell("request_cancel", job, None, OURS))
        kept, deletable = [], []
        for cycle in range(ROUNDS):
            few = round(JOBS / ROUNDS * DELETABLE)
            kept += faults.enqueue(JOBS // ROUNDS - few, longest=0.3)
            deletable += [ships.enqueue("labour", seconds=0.1) for _ in range(few)]
            faults.pause(0.2)
            operator.meddle(kept, deletable)
            operator.pause_or_resume()
            if cycle % 2:
                faults.kill_at_random()
        ships.app.queues.resume("default")
        until(lambda: not _unfinished(faults), within=60)
        history = amend(faults.record.read(faults.deeds), retried=operator.retried, deleted=operator.deleted)
        report = check(history, Rules())
        print(f"{len(history)} events, {report.starts} starts of {JOBS} jobs, {len(operator.deleted)} deleted")
        assert not report.violations, report.explain(history)
        assert operator.deleted
        assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "S10", "S16", "L2")) > 0
        outcomes = ships.app.jobs.counts()
        assert min(outcomes["completed"], outcomes["cancelled"]) > 0
        assert outcomes["failed"] == 0


def _unfinished(faults: FaultRun) -> int:
    counts = faults.app.jobs.counts()
    return sum(many for state, many in counts.items() if PLACE_OF[State(state)] is not Place.FINISHED)

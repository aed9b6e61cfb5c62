"""A whole machine is lost: no process there reports it, and no process elsewhere can prove it. Only the leases expire.

With the defaults of an App, as promised: E2E_DEFAULTS=1.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.e2e.fault_runs import SEED
from tests.e2e.fleet import START, fleet
from tests.e2e.machines import Machine
from tests.e2e.server_site import ONE_TRANSPORT, TRANSPORTS, site
from tests.e2e.waiting import STALL, until

IS_DEFAULT = bool(os.environ.get("E2E_DEFAULTS"))
SETTINGS = {"ttl": "30s", "recovery": "5s", "poll": "1s"} if IS_DEFAULT else {"ttl": "3s", "recovery": "0.5s"}
TTL, RECOVERY = (30.0, 5.0) if IS_DEFAULT else (3.0, 0.5)
BOUND = 37.0 if IS_DEFAULT else 1.001 * TTL + RECOVERY + STALL
MACHINES = int(os.environ.get("E2E_MACHINES", "10" if IS_DEFAULT else "2"))
JOBS = 3
"""The number of jobs that each machine runs when it is lost."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("transport", TRANSPORTS if IS_DEFAULT else ONE_TRANSPORT)
def test_l1_jobs_of_a_lost_machine_run_elsewhere_when_its_leases_have_run_out(tmp_path: Path, transport: str) -> None:
    chance = random.Random(SEED)
    with site(transport) as grounds, fleet(tmp_path, url=grounds.url, transport=grounds.transport, **SETTINGS) as ships:
        doomed = []
        for number in range(MACHINES):
            crew = ships.crew("--concurrency", str(JOBS), machine=Machine(f"web-{number}"))
            jobs = [ships.enqueue("wait", gate="gate") for _ in range(JOBS)]
            assert {ships.entry(job, "start")["pid"] for job in jobs} == set(crew.workers())
            doomed.append((crew, jobs))
        ships.crew(machine=Machine("survivor"))
        killed = {}
        for crew, jobs in doomed:
            by = time.monotonic() + chance.uniform(0.0, TTL / 5 / MACHINES)  # all over the time between two beats
            until(lambda by=by: time.monotonic() > by, within=TTL)
            crew.kill()
            killed |= dict.fromkeys(jobs, time.monotonic())
        took = [ships.entry(job, "start", number=2, within=BOUND + START)["time"] - at for job, at in killed.items()]
        print(f"{MACHINES} machines with {len(took)} jobs lost: run again after {min(took):.2f} to {max(took):.2f} s")
        assert min(took) > TTL - TTL / 5 - STALL, "not before the lease has run out"
        assert max(took) <= BOUND
        ships.open("gate")
        for job in killed:
            view = ships.until_state(job, "completed", within=START)
            assert (view.attempt, view.crashes, view.failures) == (2, 1, 0)

"""The server is unreachable: a short outage costs nothing, a long one costs only time.

With the defaults of an App, 15 s and 60 s, as promised: E2E_DEFAULTS=1.
"""

import os
import time
from pathlib import Path
from uuid import UUID

import pytest

from tests.e2e.fleet import START, Fleet, fleet
from tests.e2e.machines import Machine
from tests.e2e.server_site import ONE_TRANSPORT, TRANSPORTS, site
from tests.e2e.waiting import STALL, until

IS_DEFAULT = bool(os.environ.get("E2E_DEFAULTS"))
SETTINGS = {"ttl": "30s", "recovery": "5s", "poll": "1s"} if IS_DEFAULT else {"ttl": "6s", "recovery": "0.5s"}
BEAT, MARGIN, RECOVERY = (6.0, 5.0, 5.0) if IS_DEFAULT else (1.2, 1.0, 0.5)
SHORT, LONG = (15.0, 60.0) if IS_DEFAULT else (2.0, 7.5)
AMNESTY = BEAT + MARGIN
AGAIN = 10.0 if IS_DEFAULT else STALL
"""Seconds after the amnesty in which all jobs run again."""


def machines(ships: Fleet) -> tuple[list[UUID], list[UUID]]:
    """Start two machines, and jobs that wait for two gates; the code of one machine cannot be stopped."""
    late, early = [], []
    for name, task in (("web-1", "wait"), ("web-2", "wait_in_thread")):
        ships.crew("--concurrency", "4", machine=Machine(name))
        fresh = [ships.enqueue(task, gate=gate) for gate in ("gate", "gate", "early", "early")]
        for job in fresh:
            ships.entry(job, "start")
        late, early = late + fresh[:2], early + fresh[2:]
    return late, early


def pause(seconds: float) -> None:
    """Wait for that many seconds."""
    by = time.monotonic() + seconds
    until(lambda: time.monotonic() > by, within=seconds + START)


def expect_undisturbed(ships: Fleet, jobs: list[UUID]) -> None:
    """Expect that each job ended with the result of its only start."""
    for job in jobs:
        view = ships.until_state(job, "completed", within=START + STALL)
        assert (view.attempt, view.crashes, view.failures) == (1, 0, 0)
        assert [entry["token"] for entry in ships.journal.read(job, "start")] == [view.result]


@pytest.mark.prove
@pytest.mark.timeout(180)
@pytest.mark.parametrize("transport", TRANSPORTS if IS_DEFAULT else ONE_TRANSPORT)
def test_l3_a_server_away_for_less_than_the_deadline_costs_no_running_job_anything(tmp_path: Path, transport: str) -> None:
    with site(transport) as grounds, fleet(tmp_path, url=grounds.url, transport=grounds.transport, **SETTINGS) as ships:
        late, early = machines(ships)
        grounds.postgres.stop()
        ships.open("early")
        pause(SHORT)
        grounds.postgres.start()
        pause(AMNESTY + RECOVERY)  # every supervisor has had the time to judge
        ships.open("gate")
        expect_undisturbed(ships, late + early)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("transport", ["", pytest.param("nats", marks=pytest.mark.prove)])
def test_l8_after_a_long_outage_no_job_is_charged_no_result_is_lost_and_all_run_again(tmp_path: Path, transport: str) -> None:
    with site(transport) as grounds, fleet(tmp_path, url=grounds.url, transport=grounds.transport, **SETTINGS) as ships:
        late, early = machines(ships)
        grounds.postgres.stop("immediate")
        ships.open("early")
        pause(LONG)
        grounds.postgres.start()
        back = time.monotonic()
        again = [ships.entry(job, "start", number=2, within=AMNESTY + AGAIN + START)["time"] - back for job in late]
        print(f"away for {LONG:g} s: run again {min(again):.2f} to {max(again):.2f} s after that; the amnesty is {AMNESTY:g} s")
        assert max(again) <= AMNESTY + AGAIN
        expect_undisturbed(ships, early)
        ships.open("gate")
        for job in late:
            view = ships.until_state(job, "completed", within=START)
            assert (view.attempt, view.crashes, view.failures) == (2, 0, 0)
            assert view.result == ships.journal.read(job, "start")[-1]["token"]

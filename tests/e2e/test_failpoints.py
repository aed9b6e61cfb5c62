"""Processes die at every named point between them and their store, and lose nothing."""

import os
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from proof.checker.checker import Rules
from tests.e2e import failpoints
from tests.e2e.fault_runs import SEED, FaultRun
from tests.e2e.fleet import ROOT, START, fleet
from tests.e2e.machines import HERE
from tests.e2e.server_site import ON_BOTH
from tests.e2e.waiting import until

STORE_POINTS = (
    *(f"worker.{deed}.{side}" for deed in ("claim", "settle", "report") for side in ("before", "after")),
    *(f"supervisor.{deed}.{side}" for deed in ("open_lease", "beat", "settle", "end_lease") for side in ("before", "after")),
    "worker.held.after",
    "worker.next_due.after",
    "supervisor.expired.after",
)
RUNNER_POINTS = tuple(
    f"runner.{message}.{side}"
    for message in ("runstarted", "checkpointed", "enqueued", "runended")
    for side in ("before", "after")
)
CLIENT = """
import holdfast.opening as composition
from tests.e2e import failpoints
composition.open_store = failpoints.arm(composition.open_store, "client")
from tests.e2e.jobs_app import count
count.enqueue(number=1)
"""
CLIENT_OF_A_WORKFLOW = (
    CLIENT.partition("from tests.e2e.jobs_app")[0]
    + """
from tests.e2e.layers_app import layers
layers.enqueue(depth=2, width=3, seconds=0.0)
"""
)
MAIN = ("-c", "from tests.e2e.failpoints import supervise; supervise()")


@pytest.mark.timeout(180)
def test_s15_a_process_that_dies_before_or_after_any_call_of_its_store_loses_nothing(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.3s") as ships:
        ships.environment["E2E_FAILPOINTS"] = ",".join(STORE_POINTS)
        ships.main = MAIN
        faults = FaultRun(ships, random.Random(SEED), [HERE, HERE], processes=1, is_ready=False)
        left = set(STORE_POINTS)
        while left:
            faults.enqueue(4, longest=0.6)
            left = until(partial(_fewer, faults, left), within=2 * START)[0]
        _replace_the_dead(faults)
        until(faults.is_done, within=4 * START)
        faults.deeds += failpoints.deeds(ships.folder)
        faults.stop(Rules())  # no bound: supervisors die as well
        assert ships.app.jobs.counts()["completed"] == faults.jobs


def test_s9_a_runner_that_dies_before_or_after_any_message_costs_no_other_job(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="6s") as ships:
        ships.environment["E2E_FAILPOINTS"] = ",".join(RUNNER_POINTS)
        ships.target = "tests.e2e.fault_jobs:app"
        crew = ships.crew()
        (worker,) = crew.workers()
        beside = ships.enqueue("wait", gate="gate")
        jobs = []
        while failpoints.reached(tmp_path) != set(RUNNER_POINTS):
            jobs += [ships.enqueue("labour_in_runner") for _ in range(2)]
            for job in jobs[-2:]:
                ships.until_state(job, "completed", within=3 * START)  # its runner may die at several points
        ships.open("gate")
        view = ships.until_state(beside, "completed", within=START)
        assert (view.attempt, view.crashes) == (1, 0)
        assert crew.workers() == [worker]
        for job in jobs:
            view, starts = ships.view(job), ships.journal.read(job, "start")
            assert view.result == starts[-1]["token"]
            assert {each.signal for each in view.attempts} <= {"SIGKILL", None}
            assert len(starts) <= view.crashes + 1 <= view.attempt


@pytest.mark.parametrize(("side", "durable"), [("before", 0), ("after", 1)])
def test_s6_a_client_that_dies_around_its_enqueue_leaves_the_whole_job_or_none(tmp_path: Path, side: str, durable: int) -> None:
    with fleet(tmp_path) as ships:
        ships.app.migrate()
        point = f"client.enqueue.{side}"
        environment = {**os.environ, **ships.environment, "E2E_FOLDER": str(tmp_path), "E2E_FAILPOINTS": point}
        client = subprocess.run([sys.executable, "-c", CLIENT], cwd=ROOT, env=environment, timeout=2 * START, check=False)
        assert client.returncode == -signal.SIGKILL
        assert ships.app.jobs.counts().get("available", 0) == durable
        if durable:
            ships.crew("--until-empty", is_ready=False).wait(START)
            (view,) = ships.app.jobs.list()
            assert (view.state, view.attempt, view.result) == ("completed", 1, 1)


@ON_BOTH
@pytest.mark.parametrize(("side", "durable"), [("before", 0), ("after", 8)])
def test_s10_a_client_that_dies_around_the_enqueue_of_a_workflow_leaves_all_of_it_or_nothing(
    tmp_path: Path, store_url: str, side: str, durable: int
) -> None:
    with fleet(tmp_path, url=store_url) as ships:
        ships.target = "tests.e2e.layers_app:app"
        ships.app.migrate()
        ships.record.watch()
        point = f"client.enqueue_flow.{side}"
        environment = {**os.environ, **ships.environment, "E2E_FOLDER": str(tmp_path), "E2E_FAILPOINTS": point}
        client = subprocess.run(
            [sys.executable, "-c", CLIENT_OF_A_WORKFLOW], cwd=ROOT, env=environment, timeout=2 * START, check=False
        )
        assert client.returncode == -signal.SIGKILL
        assert sum(ships.app.jobs.counts().values()) == durable
        if durable:
            ships.crew("--until-empty", is_ready=False).wait(START)
            assert ships.app.jobs.counts()["completed"] == durable


def _fewer(faults: FaultRun, left: set[str]) -> tuple[set[str], ...]:
    """Return the points at which no process has died yet, once those are fewer than before; nothing as long as they are not."""
    _replace_the_dead(faults)
    found = left - failpoints.reached(faults.folder)
    return (found,) if found < left else ()


def _replace_the_dead(faults: FaultRun) -> None:
    living = [crew for crew in faults.crews if crew.process.poll() is None]
    faults.crews = [*living, *(faults.sail() for _ in range(len(living), len(faults.crews)))]

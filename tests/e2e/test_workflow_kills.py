"""A workflow whose workers are killed all the time: each node completes once, with the right inputs."""

import random
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from holdfast import App
from holdfast._core.job import State
from holdfast._engine.operators.workflows import Workflows
from proof.checker.checker import Rules, check
from proof.checker.history import History, JobRow
from tests.e2e.fault_runs import SEED, FaultRun
from tests.e2e.fleet import START, fleet
from tests.e2e.machines import HERE
from tests.e2e.marks import first, following, parents_of
from tests.e2e.waiting import until

WIDTH_OF_A_LAYER = 100
"""Of the workflow of 1,000 nodes."""


def expected(depth: int, width: int) -> list[int]:
    """Return what the workflow must return."""
    marks = [first(place) for place in range(width)]
    for _ in range(depth - 1):
        marks = [following(place, [marks[each] for each in parents_of(place, width)]) for place in range(width)]
    return [each.number for each in marks]


def survive(folder: Path, url: str, *, depth: int, width: int, kills: int, seconds: float) -> None:
    """Run a workflow while that many workers are killed, evenly over its nodes."""
    nodes = depth * width + 1
    with fleet(folder, url=url, ttl="3s", recovery="0.3s") as ships:
        ships.target = "tests.e2e.layers_app:app"
        faults = FaultRun(ships, random.Random(SEED), [HERE, HERE])
        begun = time.monotonic()
        handle = ships.app.enqueue("layers", depth=depth, width=width, seconds=seconds)
        while (killed := len({each.process for each in faults.deeds})) < kills:
            until(
                lambda: len({each["job"] for each in ships.journal.read(what="end")}) >= nodes * killed / (kills + 1), within=60
            )
            faults.kill_at_random()
        ships.until_state(handle.id, "completed", within=120)
        took = time.monotonic() - begun
        faults.jobs = nodes + 1
        faults.stop(Rules())
        starts = Counter(each["job"] for each in ships.journal.read(what="start"))
        completed = completions(faults.record.read(faults.deeds))
        again = sum(starts.values()) - nodes
        print(f"{nodes} nodes, {killed} workers killed with SIGKILL, {took:.0f} s, {again} attempts more than nodes")
        print(f"{sum(completed.values()) - 1} completions of nodes")
        assert handle.result(timeout=START) == expected(depth, width)
        assert {UUID(job) for job in starts} | {handle.id} == {*completed}
        assert {*completed.values()} == {1}


def completions(history: History) -> Counter[UUID]:
    """Count how often each job completed."""
    return Counter(
        event.job
        for event in history
        if event.job is not None and isinstance(event.after, JobRow) and event.after.state is State.COMPLETED
        if not (isinstance(event.before, JobRow) and event.before.state is State.COMPLETED)
    )


def steer_at_random(flows: Workflows, flow: UUID, chance: random.Random) -> None:
    """Do one of the things that an operator may do with a workflow."""
    match chance.choice(("pause", "resume", "cancel", "retry")):
        case "pause":
            flows.pause(flow)
        case "resume":
            flows.resume(flow, chance.choice(("fail", "retry")))
        case "cancel":
            flows.cancel(flow)
        case _:
            flows.retry(flow)


def is_completed(app: App, flow: UUID) -> bool:
    """Return whether a workflow has completed; if it has not, let it go on, or run again what has ended otherwise."""
    state = app.jobs.get(flow).state
    if state in (State.FAILED, State.CANCELLED):
        app.workflows.retry(flow)
    elif state is not State.COMPLETED:
        app.workflows.resume(flow, "retry")
    return state is State.COMPLETED


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_l12_workflows_complete_after_operators_steered_them_at_random_while_workers_were_killed(
    tmp_path: Path, store_url: str
) -> None:
    chance = random.Random(SEED)
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.3s") as ships:
        ships.target = "tests.e2e.layers_app:app"
        faults = FaultRun(ships, chance, [HERE, HERE])
        handles = [ships.app.enqueue("layers", depth=4, width=5, seconds=0.1) for _ in range(4)]
        flows = [handle.id for handle in handles]
        until(lambda: len(ships.app.workflows.list()) == len(flows), within=START)
        for cycle in range(10):
            faults.pause(0.3)
            for flow in flows:
                steer_at_random(ships.app.workflows, flow, chance)
            if cycle % 3 == 2:
                faults.kill_at_random()
        until(lambda: False not in [is_completed(ships.app, flow) for flow in flows], within=120)
        history = faults.record.read(faults.deeds)
        assert [handle.result(timeout=START) for handle in handles] == [expected(4, 5)] * len(flows)
        assert {*completions(history).values()} == {1}
        assert len(completions(history)) == len(flows) * 22
        # Records of real processes do not name the operators who may run ended nodes again; S4 is the completions above.
        report = check(history, Rules())
        assert not [each for each in report.violations if each.name != "S4"], report.explain(history)
        assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S8", "S9")) > 0


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_l12_a_workflow_of_61_nodes_survives_4_kills_and_each_node_completes_once(tmp_path: Path, store_url: str) -> None:
    survive(tmp_path, store_url, depth=6, width=10, kills=4, seconds=0.2)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_l12_a_workflow_of_1000_nodes_survives_50_kills_and_each_node_completes_once(tmp_path: Path, store_url: str) -> None:
    survive(tmp_path, store_url, depth=10, width=WIDTH_OF_A_LAYER, kills=50, seconds=0.3)

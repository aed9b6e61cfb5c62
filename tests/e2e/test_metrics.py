"""Counters of a real supervisor outlive the workers that counted, also killed ones."""

import os
import random
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import JobView
from holdfast._core.answers import LeaseView
from holdfast.testing.servers.process import free_port
from tests.e2e.fleet import START, fleet
from tests.e2e.waiting import until

Labels = frozenset[tuple[str, str]]


def scraped(port: int) -> dict[str, dict[Labels, float]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    found: dict[str, dict[Labels, float]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def counted(port: int, name: str, label: str) -> Counter[str]:
    """Return the sums of a metric by one of its labels."""
    sums: Counter[str] = Counter()
    for labels, value in scraped(port).get(f"holdfast_{name}", {}).items():
        sums[dict(labels)[label]] += int(value)
    return sums


def test_counters_equal_the_attempts_in_the_store_after_kills(tmp_path: Path) -> None:
    port = free_port()
    with fleet(tmp_path) as ships:
        crew = ships.crew("--metrics", f"127.0.0.1:{port}", "--metrics-store")
        ships.open("now")
        quick = [ships.enqueue("wait", gate="now") for _ in range(50)]
        until(lambda: counted(port, "attempts_total", "outcome") == {"completed": 50}, within=10)
        job = ships.enqueue("wait", gate="later")
        for number in (1, 2, 3):
            ships.entry(job, "start", number=number)
            os.kill(crew.workers()[0], signal.SIGKILL)
        ships.entry(job, "start", number=4)
        ships.open("later")
        ships.until_state(job, "completed", within=10)
        wanted = {"completed": 51, "crashed": 3}
        until(lambda: counted(port, "attempts_total", "outcome") == wanted, within=10)
        assert sum(ships.view(each).attempt for each in (*quick, job)) == sum(wanted.values())
        assert counted(port, "jobs_finished_total", "state") == {"completed": 51}
        assert counted(port, "jobs_rescued_total", "by") == {"own": 3}
        assert counted(port, "leases_ended_total", "reason")["crashed"] == 3
        assert counted(port, "worker_slots", "worker").total() == 100
        assert counted(port, "worker_memory_bytes", "worker").total() > 1e6
        assert counted(port, "jobs", "state")["completed"] >= 50  # kept for 5 s
        assert counted(port, "store_call_seconds_count", "operation")["beat"] > 0


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_200_killed_workers_take_at_most_their_last_second_out_of_the_counters(tmp_path: Path) -> None:
    port, chance, killed = free_port(), random.Random(4711), dict[int, float]()
    with fleet(tmp_path) as ships:
        ships.app.migrate()
        ships.record.watch()
        ships.crew("--metrics", f"127.0.0.1:{port}", "--processes", "2", "--concurrency", "5")
        jobs = [ships.enqueue("labour", seconds=0.01) for _ in range(50)]
        for _ in range(200):
            jobs += [ships.enqueue("labour", seconds=0.01) for _ in range(20)]
            ready = until(lambda: {pid for pid in map(_pid, ships.app.workers.list()) if pid not in killed}, within=START)
            victim = chance.choice(sorted(ready))
            busy = time.monotonic() + chance.uniform(0.0, 1.2)
            until(lambda: time.monotonic() >= busy, within=START)  # noqa: B023 - it is called in this round only
            os.kill(victim, signal.SIGKILL)
            killed[victim] = time.time()
        until(lambda: all(ships.view(job).state == "completed" for job in jobs[-50:]), within=60)
        views = [ships.view(job) for job in jobs]
        attempts = Counter(str(each.outcome) for view in views for each in view.attempts) + Counter({"completed": len(views)})
        assert {view.state for view in views} == {"completed"}
        lost = sum(_may_be_lost(view, killed) for view in views)
        until(lambda: counted(port, "attempts_total", "outcome")["crashed"] == attempts["crashed"], within=10)
        seen = counted(port, "attempts_total", "outcome")
        print(f"{dict(attempts)} in the store, {dict(seen)} counted, {lost} ended in the last second of a killed worker")
        assert attempts["completed"] - lost <= seen["completed"] <= attempts["completed"]
        assert counted(port, "jobs_finished_total", "state")["completed"] == seen["completed"]
        assert counted(port, "jobs_rescued_total", "by").total() == attempts["crashed"]


def _may_be_lost(view: JobView, killed: Mapping[int, float]) -> bool:
    """Return whether the job's last attempt ended in the last second of a worker that was killed."""
    assert view.finished_at is not None
    pid = _pid(view)
    return pid in killed and view.finished_at.timestamp() >= killed[pid] - 1.0


def _pid(of: JobView | LeaseView) -> int:
    """Return the process id in the name of a worker."""
    return int(str(of.worker).split("-")[-2])

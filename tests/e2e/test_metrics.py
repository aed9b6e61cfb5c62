"""Counters of a real supervisor outlive the workers that counted, also killed ones."""

import os
import signal
import urllib.request
from collections import Counter
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from holdfast.testing.servers.process import free_port
from tests.e2e.fleet import fleet
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

"""Two brokers on one bucket, in separate processes: one is killed, stands still, or is asked to end, while workers run jobs."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from holdfast import App
from holdfast._ports import wire
from holdfast.testing.servers import BucketServer
from tests.broker.processes import BrokerProcess
from tests.e2e.test_broker import END, TASKS, finished, worker
from tests.e2e.waiting import STALL, until

FAILOVER, HANDOVER = 17.0, 3.0
"""The seconds until another broker leads: after one was killed, and after one was asked to end."""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    with BucketServer() as server:
        app = App(server.bucket_url)
        app.migrate()
        app.close()
        yield server.bucket_url


@pytest.fixture
def brokers(bucket: str) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Start two, of which the first one leads."""
    with ExitStack() as closing:
        yield (
            closing.enter_context(BrokerProcess("--url", bucket)),
            closing.enter_context(BrokerProcess("--url", bucket)),
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TASKS.format(ttl="30s"))
    return tmp_path


def seconds_until_it_leads(broker: BrokerProcess, within: float) -> float:
    started = time.monotonic()
    until(broker.leads, within=within)
    return time.monotonic() - started


def run_while(
    folder: Path, url: str, bucket: str, count: int, end: dict[int, signal.Signals], brokers: list[BrokerProcess]
) -> None:
    """Enqueue jobs to a worker; after some of them, send a signal to the broker that leads. All must run, each once."""
    app = App(bucket)
    with worker(folder, url):
        for number in range(count):
            app.enqueue("note", number=number)
            if number in end:
                leader, other = brokers
                os.kill(leader.pid, end[number])
                limit = HANDOVER if end[number] is signal.SIGTERM else FAILOVER
                seconds_until_it_leads(other, limit + STALL)
        jobs = until(lambda: finished(app, count), within=END)
    app.close()
    assert sorted(int(line) for line in (folder / "notes").read_text().split()) == list(range(count))
    assert {(job.attempt, job.crashes) for job in jobs} == {(1, 0)}


@pytest.mark.timeout(180)
def test_a_leader_that_is_asked_to_end_under_load_hands_over(
    folder: Path, bucket: str, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    both = f"{brokers[0].url},{brokers[1].url.removeprefix('http://')}"
    run_while(folder, both, bucket, 40, {20: signal.SIGTERM}, [*brokers])
    until(lambda: not brokers[0].is_running, within=STALL)


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_a_leader_that_is_killed_loses_no_job_and_runs_none_twice(
    folder: Path, bucket: str, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    run_while(folder, bucket, bucket, 60, {20: signal.SIGKILL}, [*brokers])


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_a_leader_that_stood_still_answers_nothing_from_memory(brokers: tuple[BrokerProcess, BrokerProcess]) -> None:
    leader, follower = brokers
    verb = wire.VERBS["workers"]
    connection = HTTPConnection("127.0.0.1", leader.port, timeout=30)
    connection.request("POST", f"{wire.PATH}workers", verb.encode_request({}), {"Content-Type": wire.CONTENT_TYPE})
    assert connection.getresponse().read()
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        seconds_until_it_leads(follower, FAILOVER + STALL)
        connection.request("POST", f"{wire.PATH}workers", verb.encode_request({}), {"Content-Type": wire.CONTENT_TYPE})
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Holdfast-Leader"]) == (421, follower.url)
    connection.close()
    until(lambda: not leader.leads(), within=STALL)
    assert follower.leads()

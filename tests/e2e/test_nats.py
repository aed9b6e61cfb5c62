"""Real processes on SQLite whose jobs are delivered by a real NATS server, while either of them dies."""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from nats.aio.client import Client

from holdfast.testing.servers import NatsServer
from tests.e2e.fleet import START, Crew, fleet
from tests.e2e.waiting import STALL, until

pytestmark = pytest.mark.timeout(180)
POLL = "2s"
"""A poll interval so long that nearly all jobs are delivered."""
LOUD = ("--log-level", "debug")


def vias(*crews: Crew) -> Counter[str]:
    """Count the sources of the claims that the crews' workers log."""
    return Counter(via for crew in crews for via in re.findall(r"job\.claimed .*\bvia=(\w+)", crew.log_text()))


@contextmanager
def eavesdropping(url: str) -> Iterator[list[bytes]]:
    """Collect the payload of every message that passes the server, without the server's own protocol."""
    received: list[bytes] = []
    is_listening, is_over = threading.Event(), threading.Event()

    async def listen() -> None:
        client = Client()
        await client.connect(url)
        messages = await client.subscribe(">")
        await client.flush()
        is_listening.set()
        while not is_over.is_set():
            try:
                received.append((await messages.next_msg(0.1)).data)
            except TimeoutError:
                continue
        await client.close()

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    assert is_listening.wait(START)
    try:
        yield received
    finally:
        is_over.set()
        thread.join(START)


def test_jobs_are_delivered_by_id_and_nothing_else_is_sent(tmp_path: Path) -> None:
    with NatsServer() as server, fleet(tmp_path, transport=server.url, poll=POLL) as ships, eavesdropping(server.url) as received:
        crew = ships.crew(*LOUD)
        until(lambda: b'"batch"' in b"".join(received), within=START)  # it asks for jobs
        for number in range(20):
            job = ships.enqueue("count", number=number, secret="s3cret-payload")
            ships.until_state(job, "completed", within=START)
        until(lambda: vias(crew)["delivery"] >= 10, within=STALL)
        hints = [json.loads(data) for data in received if data.startswith(b'{"id"')]
        assert len(hints) >= 20
        assert {frozenset(each) for each in hints} == {frozenset({"id"})}
        assert b"s3cret" not in b"".join(received)


def test_a_server_that_dies_costs_no_job_and_delivers_again_when_it_is_back(tmp_path: Path) -> None:
    with NatsServer() as server, fleet(tmp_path, transport=server.url, poll=POLL) as ships:
        crew = ships.crew(*LOUD)
        jobs: list[UUID] = []
        for is_up in (True, False, True):
            if not is_up:
                server.kill()
            elif jobs:
                server.start()
            jobs += [ships.enqueue("count", number=number) for number in range(len(jobs), len(jobs) + 20)]
            for job in jobs:
                assert ships.until_state(job, "completed", within=START).attempt == 1
        delivered = vias(crew)["delivery"]

        def is_delivered_again() -> bool:
            ships.until_state(ships.enqueue("count", number=-1), "completed", within=START)
            return vias(crew)["delivery"] > delivered

        until(is_delivered_again, within=2 * START)


def test_a_job_of_a_killed_machine_is_delivered_to_another_with_the_reason(tmp_path: Path) -> None:
    with NatsServer() as server, fleet(tmp_path, transport=server.url, poll=POLL) as ships:
        doomed = ships.crew(*LOUD)
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        heir = ships.crew(*LOUD)
        with eavesdropping(server.url) as received:
            doomed.kill()
            ships.entry(job, "start", number=2, within=START)
            ships.open("gate")
            view = ships.until_state(job, "completed", within=START)
            hints = [json.loads(data) for data in received if data.startswith(b'{"id"')]
        assert (view.attempt, view.rescued) == (2, "crashed")
        assert {"id": str(job), "rescued": "crashed"} in hints
        assert re.search(r"job\.claimed .*\brecovery=store", heir.log_text())

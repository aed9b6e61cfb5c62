"""Brokers in separate processes on an S3 server with a latency: their pace over HTTP, and how long calls wait when the leader ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.request import urlopen
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from bench.objects import load
from bench.objects.prices import dollars
from bench.objects.queues import HoldfastQueue
from holdfast._system.clock import SystemClock
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import StoreUnavailable
from holdfast.opening import open_store
from holdfast.settings import Settings
from holdfast.stores.objects.creation import create
from holdfast.testing.servers import BucketServer
from holdfast.testing.servers.bucket import BucketRequest
from holdfast.testing.servers.process import free_port

CONCURRENCY = 100
ENDS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGSTOP": signal.SIGSTOP}
LONGEST, ENOUGH = 20.0, 50
"""Seconds and jobs after the end of the leader; a stopped one goes on after these seconds."""
PAUSE = 0.05


class Tally(list[BucketRequest]):
    """Requests, of which only the method is kept: their bodies would fill the memory."""

    def __init__(self) -> None:
        self.methods: Counter[str] = Counter()

    def append(self, request: BucketRequest) -> None:
        """Count it by its method."""
        self.methods[request.method] += 1


class Site:
    """A bucket server, and the brokers on it."""

    def __init__(self, latency: float, ending: ExitStack) -> None:
        os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
        self._ending, self._server, self.tally = ending, ending.enter_context(BucketServer()), Tally()
        self._server.requests = self.tally
        bucket = open_bucket(self._server.bucket_url, SystemClock())
        asyncio.run(create(bucket, uuid4()))
        asyncio.run(bucket.close())
        self.urls: list[str] = []
        self.latency = latency

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more broker, and return once it serves."""
        port = free_port()
        words = ["broker", "--url", self._server.bucket_url, "--listen", f"127.0.0.1:{port}", "--log-level", "error"]
        process = subprocess.Popen([sys.executable, "-m", "holdfast.cli", *words], stdout=subprocess.DEVNULL)
        self._ending.callback(_end, process)
        self.urls.append(f"http://127.0.0.1:{port}")
        while not _answers(f"{self.urls[-1]}/readyz"):
            time.sleep(PAUSE)
        self._server.latency = self.latency
        return process

    def open(self) -> HoldfastQueue:
        """Connect to the brokers."""
        return HoldfastQueue(open_store(Settings.of("http://" + ",".join(url.removeprefix("http://") for url in self.urls))))


@contextmanager
def site(latency: float) -> Iterator[Site]:
    """Serve for the length of a block."""
    with ExitStack() as ending:
        yield Site(latency, ending)


async def paces(latency: float, at: Site, seconds: float) -> list[str]:
    """Return the figures of a row: one caller, 100 callers, one worker, and what they wrote."""
    queue, methods = at.open(), at.tally.methods
    single = await load.enqueue(queue, 1, seconds)
    methods.clear()
    together = await load.enqueue(queue, 100, seconds)
    enqueued = methods["PUT"] / together.done, methods["GET"] / together.done
    worker = await queue.worker(CONCURRENCY)
    methods.clear()
    ran = await load.drain([worker], seconds)
    run = methods["PUT"] / ran.done, methods["GET"] / ran.done
    await queue.close()
    price = dollars(writes=enqueued[0] + run[0], reads=enqueued[1] + run[1])
    rates = (single.rate, together.rate, ran.rate)
    parts = (f"{enqueued[0] * 1000:.1f}", f"{run[0] * 1000:.1f}", f"{price * 1e6:.2f}")
    return [f"{latency * 1000:g} ms", *(f"{rate:,.0f}" for rate in rates), *parts]


def measure(latencies: list[float], seconds: float, console: Console) -> None:
    """Measure and print how fast a broker is."""
    columns = ("1 caller /s", "100 callers /s", "1 worker, jobs/s", "PUTs per 1,000 jobs: enqueue", "run", "$ per million jobs")
    table = Table("bucket", *columns, title="one broker over HTTP, on an S3 server")
    for latency in latencies:
        with site(latency) as at:
            at.start()
            table.add_row(*asyncio.run(paces(latency, at, seconds)))
    console.print(table)


def measure_ends(names: list[str], console: Console) -> None:
    """Measure and print how long calls wait when the leader ends, and whether each acknowledged job is there once."""
    for name in names:
        with site(0.05) as at:
            leader = at.start()
            at.start()
            console.print(
                f"two brokers, the leader gets {name}: {asyncio.run(_through_an_end(at, leader, name))}", highlight=False
            )


async def _through_an_end(at: Site, leader: subprocess.Popen[bytes], name: str) -> str:
    queue, enqueued, longest = at.open(), 0, 0.0
    await load.enqueue(queue, 1, 1.0)
    before = await _times(queue)
    leader.send_signal(ENDS[name])
    # by a timer, because a caller may wait for the stopped one until then
    asyncio.get_running_loop().call_later(LONGEST, leader.send_signal, signal.SIGCONT)
    until = time.monotonic() + LONGEST
    while time.monotonic() < until and (enqueued < ENOUGH or name == "SIGSTOP"):
        asked = time.monotonic()
        await _enqueue(queue, before.total() + enqueued)
        enqueued += 1
        longest = max(longest, time.monotonic() - asked)
    times = await _times(queue)
    await queue.close()
    once, more = sum(each == 1 for each in times.values()), sum(each > 1 for each in times.values())
    return f"longest wait of a call {longest:.1f} s; of {enqueued} jobs {once} are there once, {more} more than once"


async def _enqueue(queue: HoldfastQueue, number: int) -> None:
    """Send it until it is acknowledged: each copy has one id."""
    store, (call, job) = queue.store, queue.job(number)
    while True:
        try:
            await store.enqueue(call, [job])
            return
        except StoreUnavailable:
            await asyncio.sleep(PAUSE)


async def _times(queue: HoldfastQueue) -> Counter[int]:
    worker, found = await queue.worker(CONCURRENCY), Counter[int]()
    while jobs := await worker.exchange():
        found.update(jobs)
    return found


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()

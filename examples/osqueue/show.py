"""Jobs in a bucket behind two brokers, with workers that are not written for Holdfast; a broker and a worker are killed.

`python show.py` starts everything on this machine, and ends with 0 if every job has completed.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from holdfast import App
from holdfast.testing.servers import BucketServer
from holdfast.testing.servers.process import free_port

HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
WORKER = [sys.executable, "-IS", str(Path(__file__).with_name("worker.py"))]
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "example", "AWS_SECRET_ACCESS_KEY": "example"}
LIMIT = 180.0
"""Seconds after which the walk has failed."""


class Walk:
    """The processes of one walk, and what has happened so far."""

    def __init__(self, bucket: str, folder: Path, ending: ExitStack) -> None:
        self._bucket, self._folder, self._ending, self._began = bucket, folder, ending, time.monotonic()
        self.ids: list[str] = []

    def say(self, text: str) -> None:
        """Print what happens, with the seconds since the start."""
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", flush=True)

    async def migrate(self) -> None:
        """Create the store in the bucket."""
        app = App(self._bucket)
        await app.amigrate()
        await app.aclose()

    def broker(self, url: str) -> subprocess.Popen[bytes]:
        """Start a broker at this URL, and return once it serves."""
        process = self._start(
            f"broker-{url[-5:]}", [*HOLDFAST, "broker", "--url", self._bucket, "--listen", url[len("http://") :]]
        )
        self.wait(lambda: read(f"{url}/readyz") is not None)
        return process

    def worker(self, name: str, *urls: str) -> subprocess.Popen[bytes]:
        """Start a worker that knows these brokers."""
        return self._start(name, [*WORKER, name, *urls])

    def submit(self, url: str, count: int) -> None:
        """Submit jobs with curl, all in one call. Every fifth fails once."""
        jobs = [
            {"task": "resize", "payload": {"number": n, "steps": 20 if n == 0 else 3, "fails": n % 5 == 4}} for n in range(count)
        ]
        call = ["curl", "-sS", "--fail-with-body", "-H", "Content-Type: application/json", f"{url}/api/v1/jobs", "-d", "@-"]
        done = subprocess.run(call, input=json.dumps(jobs).encode(), stdout=subprocess.PIPE, check=True)
        self.ids = [each["id"] for each in json.loads(done.stdout)]

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Return when it is done; raise ``TimeoutError`` after the limit."""
        while not is_done():
            if time.monotonic() - self._began > LIMIT:
                raise TimeoutError(f"not done after {LIMIT:g} s; the logs are in {self._folder}")
            time.sleep(0.1)

    def lines(self, name: str) -> list[str]:
        """Return what a worker has printed."""
        return (self._folder / name).read_text().splitlines()

    def _start(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / name).open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | {"PYTHONUNBUFFERED": "1"})
        self._ending.callback(end, process)
        return process


def main() -> int:
    """Walk through it all; return 0 if every job has completed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40, help="how many are submitted; 40 if left out")
    count = parser.parse_args().jobs
    os.environ.update(CREDENTIALS)
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="osqueue-")))
        bucket = ending.enter_context(BucketServer())
        bucket.latency = 0.02
        return walk(Walk(bucket.bucket_url, folder, ending), bucket, count)


def walk(walk: Walk, bucket: BucketServer, count: int) -> int:
    """Submit, kill a worker, kill the leader, start it again, and wait for the end."""
    asyncio.run(walk.migrate())
    walk.say(f"the bucket {bucket.bucket_url} has an empty store")
    first, second = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    leader = walk.broker(first)
    walk.broker(second)
    walk.say(f"broker {first} leads: {leads(first)}; broker {second} leads: {leads(second)}")
    walk.submit(first, count)
    walk.say(f"curl has submitted {count} jobs")
    victim = walk.worker("worker-1", first, second)
    walk.wait(lambda: "worker-1: job 0, attempt 1" in walk.lines("worker-1"))
    victim.kill()
    walk.say("worker-1 is killed in the middle of job 0")
    walk.worker("worker-2", first, second)
    walk.worker("worker-3", second, first)
    walk.wait(lambda: completed(first) >= count // 4)
    killed_at = time.monotonic()
    leader.kill()
    leader.wait()
    walk.say(f"the leader is killed after {count // 4} jobs")
    walk.wait(lambda: leads(second))
    walk.say(f"broker {second} leads {time.monotonic() - killed_at:.1f} s later")
    walk.broker(first)
    walk.say(f"broker {first} is back; it leads: {leads(first)}")
    walk.wait(lambda: completed(second) == count)
    walk.say(f"all {count} jobs have completed")
    attempts = Counter(read(f"{second}/api/v1/jobs/{job}")["attempt"] for job in walk.ids)
    for attempt, jobs in sorted(attempts.items()):
        print(f"{jobs:5} jobs needed {attempt} attempt{'s' if attempt > 1 else ''}")
    print(f"{bucket.counts['PUT']:5} PUTs and {bucket.counts['GET']} GETs")
    return 0 if sum(attempts.values()) == count else 1


def completed(url: str) -> int:
    """Return how many jobs have completed, as the broker of this URL counts them; 0 while it does not answer."""
    stats = read(f"{url}/api/v1/stats")
    return 0 if stats is None else int(stats["jobs"].get("completed", 0))


def leads(url: str) -> bool:
    """Return whether the broker of this URL leads."""
    return read(f"{url}/leader") is not None


def read(url: str) -> Any:
    """Return the JSON, or else the text, of a successful answer; ``None`` for any other."""
    with suppress(OSError), urlopen(url, timeout=10) as answer:
        body = answer.read()
        return json.loads(body) if body.startswith((b"{", b"[")) else body.decode()
    return None


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and wait until it has; kill it if it takes long."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())

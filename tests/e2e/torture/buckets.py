"""The bucket between workers and their jobs, and its faults: an S3 server, and the ways to it."""

import asyncio
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from msgspec import Raw, json, structs

from holdfast._core.book.tables import encode
from holdfast._core.job import PLACE_OF, Place
from holdfast._ports.bucket import Bucket, BucketUnavailable
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.buckets.opening import open_bucket
from holdfast.stores.objects.head import KEY, Commit
from holdfast.stores.objects.replica import Replica
from holdfast.testing.servers import BucketFault, BucketServer
from proof.checker.history_objects import CommitLog, Landed, Replay, read_notes
from tests.e2e.fleet import Crew
from tests.e2e.machines import Machine
from tests.e2e.records import COMMITS
from tests.e2e.server_site import PARTITIONS, cut
from tests.e2e.torture.grounds import OUTAGE, RUBBISH, Grounds, outage_length, run_in_file
from tests.e2e.torture.runner import RECOVERY, TTL, Harm, Torturer
from tests.e2e.torture.table import FILE
from tests.servers.proxy import TcpProxy

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example"}
REFUSED = (BucketFault(429), BucketFault(500), BucketFault(503), BucketFault())
FAULTS = {
    "GET": REFUSED,
    "PUT": (
        *REFUSED,
        BucketFault(409),
        BucketFault(500, is_applied=True),
        BucketFault(is_applied=True),
        BucketFault(is_late=True),
    ),
}
"""How requests end: refused, reset, done without an answer, or done later. No read is stale: S3 promises that, and the probe wants it."""
BURST, SHARE = 200, 0.25
"""The most requests of each kind that come into a burst of faults, and the part of them that fails."""
SLOWEST = 0.3
"""The most seconds by which all answers are late for a while."""
TRIES = 100


class BucketGrounds(Grounds):
    """A bucket that all processes write, and separate ways to it for each machine.

    A judge that had no answer for 5 s watches leases from then on: ``bound`` has an outage, and a lease that is watched once more.
    """

    bound = Grounds.bound + OUTAGE + RECOVERY + TTL

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.server = BucketServer()
        log = CommitLog(folder / COMMITS, time.time)

        def note(key: str, body: bytes) -> None:
            log(key, body)
            self.server.requests.clear()  # with their bodies

        self.server.on_write = note
        stack.enter_context(self.server)
        self.front = self.proxy(self.server.port)
        self.url = self.front.through(self.server.bucket_url)
        self._ways: dict[Machine, Sequence[TcpProxy]] = {}
        self.peaceful_until = 0.0

    def proxy(self, port: int) -> TcpProxy:
        """Return a new way to a server on this machine."""
        return self._stack.enter_context(TcpProxy(port))

    def machine(self, name: str) -> Machine:
        """Return a machine with its own ways to the store; the first two share this kernel, where deaths of processes are provable."""
        url, ways = self.connect(name)
        machine = Machine("" if name in ("web-1", "web-2") else name, url)
        self._ways[machine] = ways
        return machine

    def connect(self, name: str) -> tuple[str, Sequence[TcpProxy]]:
        """Return the URL of the store for a machine, and the ways there."""
        way = self.proxy(self.front.port)
        return way.through(self.url), [way]

    def hurt(self, torturer: Torturer, chance: random.Random) -> float:
        """Break a machine's way to the bucket, let requests fail or, if the bucket was there for a while, take it away from all."""
        harms = [
            Harm("cuts", 6, partial(self._cut_off, torturer, chance, torturer.victim())),
            Harm("bursts of bucket faults", 6, partial(self._fail, torturer, chance)),
            Harm("slow times of the bucket", 2, partial(self._slow_down, torturer, chance)),
        ]
        if time.monotonic() >= self.peaceful_until and not torturer.calm.locked():
            harms.append(Harm("outages of the bucket", 6, partial(self._take_away, torturer, chance)))
        torturer.choose(*harms).do()
        return chance.uniform(0.0, 0.5)

    def say(self, *statements: str) -> list[str]:
        return run_in_file(self._folder / FILE, *statements)

    def spoil(self, jobs: Sequence[UUID]) -> None:
        asyncio.run(_spoil(self.server.bucket_url, jobs))

    def wrong(self) -> list[str]:
        """Compare what a new process would load with all commits up to that one."""
        version, loaded = asyncio.run(_load(self.server.bucket_url))
        replay, notes = Replay(), read_notes(self._folder / COMMITS)
        for _ in replay.events(note for note in notes if isinstance(note, Landed) and note.commit.version <= version):
            pass
        true = {(name, repr(key)): row for (name, key), row in replay.rows.items()}
        differ = [key for key in {**loaded, **true} if loaded.get(key) != true.get(key)]
        return [f"a process that starts now would load other rows than were committed: {differ[:5]}"] if differ else []

    def keep(self, folder: Path) -> None:
        for key, found in self.server.objects.items():
            path = folder / "bucket" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found.body)

    def _cut_off(self, torturer: Torturer, chance: random.Random, crew: Crew) -> None:
        """Cut off the crew's machine, for longer or shorter than its leases last."""
        with crew.lock:
            if crew not in torturer.crews:
                return
            for way in self._ways[crew.machine]:
                cut(way, PARTITIONS[torturer.counts["cuts"] % len(PARTITIONS)])
            try:
                torturer.pause(outage_length(chance))
            finally:
                for way in self._ways[crew.machine]:
                    way.restore()
        torturer.counts["cuts"] += 1

    def _fail(self, torturer: Torturer, chance: random.Random) -> None:
        """Let a part of the next requests fail; some writes take effect only later."""
        for method, faults in FAULTS.items():
            self.server.fail(method, *(chance.choice(faults) if chance.random() < SHARE else None for _ in range(BURST)))
        torturer.pause(2.0)
        self.server.recover()
        self.server.apply_late()
        torturer.counts["bursts of bucket faults"] += 1

    def _slow_down(self, torturer: Torturer, chance: random.Random) -> None:
        """Delay all answers for a while."""
        self.server.latency = chance.uniform(0.05, SLOWEST)
        try:
            torturer.pause(OUTAGE)
        finally:
            self.server.latency = 0.0
        torturer.counts["slow times of the bucket"] += 1

    def _take_away(self, torturer: Torturer, chance: random.Random) -> None:
        """Take the bucket away from all. A bound holds only if the processes that keep it meet no such fault soon afterwards."""
        with torturer.calm:
            cut(self.front, PARTITIONS[torturer.counts["outages of the bucket"] % len(PARTITIONS)])
            try:
                torturer.pause(outage_length(chance))
            finally:
                self.front.restore()
            torturer.app.jobs.counts()
        torturer.counts["outages of the bucket"] += 1
        self.make_peace()

    def make_peace(self) -> None:
        """Let all leases be watched and judged once before the store is taken from all again."""
        self.peaceful_until = time.monotonic() + self.peace


async def _spoil(url: str, jobs: Sequence[UUID]) -> None:
    """Write other payloads of jobs that wait into the head, as no process of Holdfast does."""
    bucket = open_bucket(url, SystemClock())
    try:
        for _ in range(TRIES):
            replica = Replica(bucket, url)
            try:
                await replica.look()
                return await _write_rubbish(bucket, replica, jobs)
            except BucketUnavailable:
                await SystemClock().sleep(0.02)
        raise AssertionError("the bucket refused to be spoiled")
    finally:
        await bucket.close()


async def _write_rubbish(bucket: Bucket, replica: Replica, jobs: Sequence[UUID]) -> None:
    head, rows = replica.head, replica.book.snapshot().jobs
    waiting = [rows[job] for job in jobs if PLACE_OF[rows[job].state] is Place.PENDING]
    spoiled = [structs.replace(row, payload=RUBBISH[number % len(RUBBISH)]) for number, row in enumerate(waiting)]
    changes = Raw(encode(("jobs", row.id, row) for row in spoiled))
    commit = Commit(head.version + 1, SystemRandomness().uuid4().hex[:16], head.tail[-1].at, (changes,))
    await bucket.put(KEY, json.encode(head.followed_by(commit)), replica.etag)


async def _load(url: str) -> tuple[int, dict[tuple[str, str], object]]:
    bucket = open_bucket(url, SystemClock())
    try:
        replica = Replica(bucket, url)
        await replica.look()
        return replica.head.version, {(name, repr(key)): row for name, key, row in replica.book.contents()}
    finally:
        await bucket.close()


@contextmanager
def signed() -> Iterator[None]:
    """Let this process, and all that it starts, sign requests to a bucket."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

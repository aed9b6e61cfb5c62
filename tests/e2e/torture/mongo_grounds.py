"""The replica set between workers and their jobs, and its faults: its members, and the ways to the primary."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from pymongo import MongoClient

from holdfast.testing.servers import MongoSet
from holdfast.testing.servers.mongo import MongoServer
from tests.e2e.fleet import Crew
from tests.e2e.machines import Machine
from tests.e2e.server_site import PARTITIONS, cut
from tests.e2e.torture.grounds import OUTAGE, RUBBISH, Grounds, outage_length, run_in_file
from tests.e2e.torture.runner import AMNESTY, RECOVERY, TTL, Harm, Torturer
from tests.e2e.torture.table import FILE
from tests.servers.proxy import TcpProxy

ELECTION = 4.0
"""The most seconds until another member is primary, and clients have found it."""


class MongoGrounds(Grounds):
    """Three members, and a way to the primary for each machine: a client that connects directly asks no other member.

    After an election each lease is watched for its ttl: ``bound`` has an election and one more ttl.
    """

    bound = Grounds.bound + OUTAGE + ELECTION + TTL

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._set = stack.enter_context(MongoSet(3))
        self.url = self._set.create_database()
        self._ways: dict[Machine, TcpProxy] = {}
        self._primary = self._set.primary()
        self._peaceful_until = 0.0

    def machine(self, name: str) -> Machine:
        """Return a machine with its own way to the primary; the first two share this kernel."""
        way = self._stack.enter_context(TcpProxy(self._primary.port))
        database = urlsplit(self.url).path
        url = f"mongodb://127.0.0.1:{way.port}{database}?directConnection=true"
        machine = Machine("" if name in ("web-1", "web-2") else name, url)
        self._ways[machine] = way
        return machine

    def hurt(self, torturer: Torturer, chance: random.Random) -> float:
        """Break a machine's way or, if the set had no fault for a while, a member."""
        harms = [Harm("cuts", 6, partial(self._cut_off, torturer, chance, torturer.victim()))]
        if time.monotonic() >= self._peaceful_until:
            harms += [
                Harm("primaries killed", 4, partial(self._kill, torturer, chance)),
                Harm("primaries paused", 4, partial(self._pause, torturer, chance)),
                Harm("primaries stepped down", 2, partial(self._step_down, torturer)),
                Harm("secondaries killed", 1, partial(self._kill_another, torturer, chance)),
            ]
        torturer.choose(*harms).do()
        return chance.uniform(0.0, 0.5)

    def say(self, *statements: str) -> list[str]:
        return run_in_file(self._folder / FILE, *statements)

    def spoil(self, jobs: Sequence[UUID]) -> None:
        with MongoClient[dict[str, Any]](self.url, uuidRepresentation="standard") as client:
            for number, job in enumerate(jobs):
                rubbish = RUBBISH[number % len(RUBBISH)]
                which = {"_id": job, "line": {"$exists": True}}
                client.get_default_database()["holdfast.jobs"].update_one(which, {"$set": {"payload": rubbish}})

    def _cut_off(self, torturer: Torturer, chance: random.Random, crew: Crew) -> None:
        """Cut off the crew's machine, for longer or shorter than its leases last."""
        with crew.lock:
            if crew not in torturer.crews:
                return
            cut(self._ways[crew.machine], PARTITIONS[torturer.counts["cuts"] % len(PARTITIONS)])
            try:
                torturer.pause(outage_length(chance))
            finally:
                self._ways[crew.machine].restore()
        torturer.counts["cuts"] += 1

    @contextmanager
    def _losing(self, torturer: Torturer, name: str) -> Iterator[MongoServer]:
        """Lose the primary; lead all ways to the next one. A bound holds only if no other member is lost soon afterwards."""
        with torturer.calm:
            lost = self._set.primary()
            yield lost
            self._primary = self._set.primary()
            for way in [*self._ways.values()]:
                way.lead_to(self._primary.port)
            torturer.app.jobs.counts()
        torturer.counts[name] += 1
        self._peaceful_until = time.monotonic() + self.ttl + AMNESTY + RECOVERY + 2.0

    def _kill(self, torturer: Torturer, chance: random.Random) -> None:
        with self._losing(torturer, "primaries killed") as lost:
            lost.kill()
        torturer.pause(outage_length(chance))
        lost.start()

    def _pause(self, torturer: Torturer, chance: random.Random) -> None:
        with self._losing(torturer, "primaries paused") as lost:
            lost.pause()
        torturer.pause(outage_length(chance))
        lost.resume()

    def _step_down(self, torturer: Torturer) -> None:
        with self._losing(torturer, "primaries stepped down"):
            self._set.step_down()

    def _kill_another(self, torturer: Torturer, chance: random.Random) -> None:
        with torturer.calm:
            lost = chance.choice(self._set.secondaries())
            lost.kill()
            torturer.pause(outage_length(chance))
            lost.start()
        torturer.counts["secondaries killed"] += 1

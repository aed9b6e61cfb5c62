"""The replica set between workers and their jobs, and its faults: its members, and the ways to the primary."""

import math
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from holdfast import App
from holdfast.errors import StoreUnavailable
from holdfast.testing.servers.mongo import MongoServer
from holdfast.testing.servers.process import pauses
from proof.checker import history_mongo
from tests.e2e.fleet import Crew
from tests.e2e.machines import Machine
from tests.e2e.server_site import PARTITIONS, cut
from tests.e2e.torture.grounds import MOMENT, OUTAGE, RUBBISH, Grounds, outage_length, run_in_file
from tests.e2e.torture.runner import AMNESTY, RECOVERY, TTL, Harm, Torturer
from tests.e2e.torture.table import FILE
from tests.servers.proxy import TcpProxy
from tests.servers.skewed_mongo import SkewedSet

ELECTION = 4.0
"""The most seconds until another member is primary, and clients have found it."""
SILENT_SOURCE = 16.0
"""The most seconds for which no write has a majority after the primary was paused: another member waits for it before it asks the next."""
SKEWS = (0, -4, 3)
"""Seconds by which the clocks of the members are wrong: more than a ttl. The times at which jobs are due move by the difference."""
UNREPLICATED = 0.7
"""Seconds of writes that no other member gets."""
FAULTS = "faults.txt"
"""The file with the time of each loss."""
BURST = 12
"""The most commands that fail one after the other."""
WRITES = ("insert", "update", "delete", "findAndModify", "commitTransaction")
COMMANDS = (*WRITES, "abortTransaction", "find", "aggregate", "getMore", "killSessions")
TRANSIENT, UNKNOWN = ["TransientTransactionError"], ["UnknownTransactionCommitResult", "RetryableWriteError"]
FAILURES: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "answers lost",
        {"failCommands": WRITES, "writeConcernError": {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "lost"}},
    ),
    (
        "answers lost",
        {"failCommands": WRITES, "writeConcernError": {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "lost"}},
    ),
    ("commands refused", {"failCommands": COMMANDS, "closeConnection": True}),
    ("commands refused", {"failCommands": COMMANDS, "errorCode": 11602}),
    ("commands refused", {"failCommands": COMMANDS, "errorCode": 189}),
    ("commands refused", {"failCommands": COMMANDS, "errorCode": 91}),
    ("commands refused", {"failCommands": ("commitTransaction",), "errorCode": 50, "errorLabels": UNKNOWN}),
    ("commands refused", {"failCommands": WRITES, "errorCode": 112, "errorLabels": TRANSIENT}),
)
"""What the fail point ``failCommand`` does, and under which name it is counted: writes that are done and not answered, or not done."""


class MongoGrounds(Grounds):
    """Three members, and a way to the primary for each machine: a client that connects directly asks no other member.

    After an election each lease is watched for its ttl: ``bound`` has an election, one more ttl, and how far clocks differ.
    """

    tolerated = (StoreUnavailable,)
    bound = Grounds.bound + OUTAGE + ELECTION + SILENT_SOURCE + TTL + max(SKEWS) - min(SKEWS)

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._set = stack.enter_context(SkewedSet(*SKEWS))
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
        harms = [
            Harm("cuts", 6, partial(self._cut_off, torturer, chance, torturer.victim())),
            *(Harm(name, 1, partial(self._fail_commands, torturer, chance, name, data)) for name, data in FAILURES),
        ]
        if time.monotonic() >= self._peaceful_until:
            harms += [
                Harm("primaries killed", 4, partial(self._kill, torturer, chance)),
                Harm("primaries paused", 4, partial(self._pause, torturer, chance)),
                Harm("primaries stepped down", 2, partial(self._step_down, torturer)),
                Harm("writes rolled back", 3, partial(self._roll_back, torturer, chance)),
                Harm("primaries deposed unaware", 3, partial(self._depose, torturer, chance)),
                Harm("secondaries killed", 1, partial(self._kill_another, torturer, chance)),
            ]
        self._note_time()
        torturer.choose(*harms).do()
        return chance.uniform(0.0, 0.5)

    def say(self, *statements: str) -> list[str]:
        return run_in_file(self._folder / FILE, *statements)

    def spoil(self, jobs: Sequence[UUID]) -> None:
        with MongoClient[dict[str, Any]](self.url, uuidRepresentation="standard") as client:
            found = client.get_default_database()["holdfast.jobs"]
            for number, job in enumerate(jobs):
                rubbish = RUBBISH[number % len(RUBBISH)]
                which, change = {"_id": job, "line": {"$exists": True}}, {"$set": {"payload": rubbish}}
                for _ in pauses("no primary takes writes", self._set.tail):
                    with suppress(PyMongoError):  # commands of this client fail, too
                        found.update_one(which, change)
                        break

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
        """Lose the primary; lead all ways to the next one."""
        with torturer.calm:
            lost = self._primary
            self._note(name)
            yield lost
            self._primary = self._set.primary()
            self._lead(1.0)
            torturer.app.jobs.counts()
            self._note_time()
        self._note("another member is primary")

    def _mend(self, torturer: Torturer, name: str) -> None:
        """Wait until each member has all writes, and leave them alone for a while: else no bound holds."""
        self._set.start()
        self._note("all members have all writes")
        torturer.counts[name] += 1
        self._peaceful_until = time.monotonic() + self.ttl + AMNESTY + RECOVERY + 2.0

    def _note_time(self) -> None:
        """Let the history know the clock of the primary."""
        for _ in pauses("no primary takes writes", self._set.tail):
            with suppress(PyMongoError):
                history_mongo.note_time(self.url, time.time)
                break

    @contextmanager
    def watched(self, app: App) -> Iterator[None]:
        self._note_time()
        yield

    def _note(self, what: str) -> None:
        with (self._folder / FAULTS).open("a") as file:
            file.write(f"{time.time():.3f} {what}\n")

    def _lead(self, share: float) -> None:
        """Lead this share of the ways to the primary."""
        ways = [*self._ways.values()]
        for way in ways[: math.ceil(share * len(ways))]:
            way.lead_to(self._primary.port)

    def _kill(self, torturer: Torturer, chance: random.Random) -> None:
        with self._losing(torturer, "primaries killed") as lost:
            lost.kill()
        torturer.pause(outage_length(chance))
        self._mend(torturer, "primaries killed")

    def _pause(self, torturer: Torturer, chance: random.Random) -> None:
        with self._losing(torturer, "primaries paused") as lost:
            lost.pause()
        torturer.pause(outage_length(chance))
        lost.resume()
        self._mend(torturer, "primaries paused")

    def _roll_back(self, torturer: Torturer, chance: random.Random) -> None:
        """Lose a primary whose last writes no other member has."""
        others = [member for member in self._set.members if member is not self._primary]
        with self._losing(torturer, "writes rolled back") as lost:
            for other in others:
                other.set_fail_point("stopReplProducer")
            torturer.pause(UNREPLICATED)
            lost.kill()
            for other in others:
                other.set_fail_point("stopReplProducer", "off")
        torturer.pause(outage_length(chance))
        self._mend(torturer, "writes rolled back")

    def _depose(self, torturer: Torturer, chance: random.Random) -> None:
        """Let a primary not notice that there is another one, while half of the machines still ask it."""
        with self._losing(torturer, "primaries deposed unaware") as deposed:
            deposed.set_fail_point("blockHeartbeatStepdown")
            deposed.pause()
            self._primary = self._set.primary()
            deposed.resume()
            self._lead(0.5)
            torturer.pause(outage_length(chance))
            deposed.set_fail_point("blockHeartbeatStepdown", "off")
        self._mend(torturer, "primaries deposed unaware")

    def _fail_commands(self, torturer: Torturer, chance: random.Random, name: str, data: dict[str, Any]) -> None:
        """Let some commands of clients fail that the primary gets next."""
        self._primary.set_fail_point("failCommand", {"times": chance.randint(1, BURST)}, data)
        torturer.pause(MOMENT)
        self._primary.set_fail_point("failCommand", "off")
        torturer.counts[name] += 1

    def _step_down(self, torturer: Torturer) -> None:
        with self._losing(torturer, "primaries stepped down"):
            self._set.step_down()
        self._mend(torturer, "primaries stepped down")

    def _kill_another(self, torturer: Torturer, chance: random.Random) -> None:
        chance.choice(self._set.secondaries()).kill()
        self._note("secondaries killed")
        torturer.pause(outage_length(chance))
        self._mend(torturer, "secondaries killed")

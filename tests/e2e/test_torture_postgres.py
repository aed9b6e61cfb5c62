"""Machines killed, frozen and cut off, servers killed and restarted; a checker reads what really happened to every row.

The long run: E2E_CYCLES=100 E2E_FREEZES=20 E2E_RESTARTS=5 E2E_PARTITIONS=12 E2E_JOBS=5000.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast._ports.store import LeaseView
from holdfast.testing.checker import Rules
from holdfast.testing.servers import NatsServer
from tests.e2e.fleet import START, Crew, Fleet, fleet, thaw
from tests.e2e.machines import Machine
from tests.e2e.records import SAID
from tests.e2e.site import PARTITIONS, TRANSPORTS, Site, site
from tests.e2e.tormentor import SEED, Tormentor
from tests.e2e.undertaker import undertaker
from tests.e2e.waiting import until

CYCLES, JOBS = int(os.environ.get("E2E_CYCLES", "5")), int(os.environ.get("E2E_JOBS", "100"))
FREEZES, RESTARTS = int(os.environ.get("E2E_FREEZES", "1")), int(os.environ.get("E2E_RESTARTS", "1"))
CUTS = int(os.environ.get("E2E_PARTITIONS", "2"))
TTL, RECOVERY, AMNESTY = 3.0, 0.5, 1.1
OUTAGE = 4.5
"""Seconds that a server or a machine's way to it is away, at most: longer than a lease lives."""
ALIVE, DEAD = 4.0, 2.0
"""Seconds that the NATS server lives, and stays away, at most."""


class ServedTormentor(Tormentor):
    """Hurts what lies between workers and their jobs, too."""

    def __init__(self, ships: Fleet, chance: random.Random, grounds: Site) -> None:
        self._grounds, self._machines = grounds, 2
        super().__init__(ships, chance, [grounds.machine("web-1"), grounds.machine("web-2")])

    def refuge(self, lost: Machine) -> Machine:
        """Either the machine itself came back, where what died is provably dead, or it is gone for good."""
        if self._chance.random() < 0.5:
            return lost
        self._machines += 1
        return self._grounds.machine(f"web-{self._machines}")

    def make_zombies(self, crew: Crew) -> None:
        """A machine stands still with all that it runs until its jobs have been taken from it, and then goes on."""
        self.enqueue(8)
        until(lambda: any(view.holds for view in self._leases(crew)), within=START)
        workers = [crew.identify(pid) for pid in crew.workers()]
        frozen = crew.freeze()
        for process in workers:
            self.did("process.freeze", process)
        until(lambda: not self._leases(crew), within=TTL + RECOVERY + AMNESTY + START)
        for process in workers:
            self.did("process.thaw", process)
        thaw(frozen)

    def _leases(self, crew: Crew) -> list[LeaseView]:
        pids = crew.workers()
        return [view for view in self.app.workers.list() if view.process.pid in pids]

    def restart_the_server(self) -> None:
        """Stopped as its owner would, or in a crash, for longer or shorter than a lease lives; who enqueues meanwhile waits."""
        server = self._grounds.postgres
        stop = self._chance.choice([server.kill, lambda: server.stop("fast"), lambda: server.stop("immediate")])
        stop()
        start = threading.Timer(self._chance.uniform(0.0, OUTAGE), server.start)
        start.start()
        self.enqueue(3)
        start.join()

    def cut_somebody_off(self, number: int) -> None:
        """One machine for longer or shorter than its leases live."""
        machine = self._chance.choice(self.crews).machine
        self._grounds.cut_off(machine, PARTITIONS[number % len(PARTITIONS)])
        self.pause(OUTAGE)
        self._grounds.reconnect(machine)

    def torment(self) -> None:
        """Everything, in a random order."""
        faults = [("kill", n) for n in range(CYCLES)] + [("freeze", n) for n in range(FREEZES)]
        faults += [("restart", n) for n in range(RESTARTS)] + [("cut", n) for n in range(CUTS)]
        self._chance.shuffle(faults)
        for cycle, (fault, number) in enumerate(faults, 1):
            self.enqueue(max(0, JOBS * cycle // len(faults) - self.jobs))
            self.pause(0.3)
            until(lambda: all(map(self._leases, self.crews)), within=2 * START)  # a bound needs somebody who keeps it
            match fault:
                case "kill":
                    self.kill_somebody()
                case "freeze":
                    self.make_zombies(self._chance.choice(self.crews))
                case "restart":
                    self.restart_the_server()
                case "cut":
                    self.cut_somebody_off(number)


@contextmanager
def dying(server: NatsServer | None, chance: random.Random) -> Iterator[None]:
    """Meanwhile that server is killed again and again."""
    is_over, kills = threading.Event(), 0

    def kill() -> None:
        nonlocal kills
        while server is not None and not is_over.wait(chance.uniform(0.0, ALIVE)):
            server.kill()
            kills += 1
            is_over.wait(chance.uniform(0.0, DEAD))
            server.start()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        if server is not None:
            print(f"NATS was killed {kills} times")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_is_lost_owned_twice_or_stuck_whatever_happens_to_machines_and_servers(tmp_path: Path, transport: str) -> None:
    chance, began = random.Random(SEED), time.monotonic()
    with (
        site(transport) as grounds,
        fleet(tmp_path, url=grounds.url, transport=grounds.transport, ttl=f"{TTL}s", recovery=f"{RECOVERY}s") as ships,
        undertaker(tmp_path / SAID) as watching,
    ):
        tormentor = ServedTormentor(ships, chance, grounds)
        tormentor.deeds = watching.deeds
        with dying(grounds.nats, random.Random(SEED)):
            tormentor.torment()
        report = tormentor.stop(Rules(bound=1.001 * TTL + RECOVERY + OUTAGE + AMNESTY + 2.0, step=0.1))
        assert report.starts > JOBS
        assert report.checked["L1"] > 0
    told = f"{CYCLES} kills, {FREEZES} zombies, {RESTARTS} restarts, {CUTS} partitions in {time.monotonic() - began:.0f} s"
    print(f"{told}: lost 0, owned twice 0, zombie writes accepted 0, stuck 0")

"""Two brokers of one bucket, of which one leads, and their faults: killed, frozen, cut off or asked to end, one or both."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from holdfast import App
from holdfast.errors import StoreUnavailable
from tests.e2e.torture.broker import TorturedBroker
from tests.e2e.torture.buckets import BucketGrounds
from tests.e2e.torture.grounds import outage_length
from tests.e2e.torture.runner import AMNESTY, RECOVERY, REST, TIME_LIMIT, TTL, Harm, Torturer
from tests.e2e.waiting import until
from tests.servers.proxy import TcpProxy

FAILOVER = 17.0
"""The seconds until another broker leads."""


class BrokerGrounds(BucketGrounds):
    """A bucket with two brokers. Machines in turns find them in the bucket, have the URLs of both, or wait for one that leads.

    Leases last 3 s: the loss of a leader costs all of them. ``bound``: it may be lost when a lease has almost run out, and its successor
    watches all leases from the beginning. Calls of this process last 10 s, so that they may fail in that time.
    """

    bound = BucketGrounds.bound + FAILOVER + TTL + RECOVERY
    tolerated = (StoreUnavailable,)

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder, stack)
        self._ways_of_brokers = [self.proxy(self.front.port) for _ in range(2)]
        ways = enumerate(self._ways_of_brokers, 1)
        self._brokers = [TorturedBroker(way.through(self.url), folder, f"log-broker-{number}") for number, way in ways]
        self._machines = 0

    def connect(self, name: str) -> tuple[str, Sequence[TcpProxy]]:
        self._machines += 1
        url, ways = super().connect(name)
        match self._machines % 3:
            case 0:
                return url, ways
            case 1:
                ways = [self.proxy(broker.port) for broker in self._brokers]
                return ",".join(f"http://127.0.0.1:{way.port}" for way in ways).replace(",http://", ","), ways
            case _:
                return f"{url}&broker=require", ways

    @contextmanager
    def watched(self, app: App) -> Iterator[None]:
        """Run the brokers, once there is a store."""
        with ExitStack() as stack:
            for broker in self._brokers:
                stack.callback(broker.close)
                broker.start()
            yield

    def lanes(self, torturer: Torturer, chance: random.Random) -> list[Callable[[], float]]:
        def hurt_the_brokers() -> float:
            if time.monotonic() < self.peaceful_until:
                return REST
            with torturer.calm:
                self._hurt_brokers(torturer, chance)
            self.make_peace()
            return chance.uniform(0.0, TTL)

        return [*super().lanes(torturer, chance), hurt_the_brokers]

    def _hurt_brokers(self, torturer: Torturer, chance: random.Random) -> None:
        leader = until(lambda: next((broker for broker in self._brokers if broker.leads()), None), within=TIME_LIMIT)
        (other,) = (broker for broker in self._brokers if broker is not leader)

        def lead() -> None:
            began = time.monotonic()
            until(other.leads, within=TIME_LIMIT)
            torturer.failovers.append(time.monotonic() - began)

        harm = torturer.choose(
            Harm("leaders killed", 4, partial(self._kill, leader, lead)),
            Harm("leaders frozen", 3, partial(self._freeze, leader, lead)),
            Harm("leaders cut off", 2, partial(self._cut_off_leader, leader, lead)),
            Harm("leaders ended", 2, partial(self._end, leader, lead)),
            Harm("standbys killed", 1, partial(self._restart, torturer, chance, other)),
            Harm("all brokers killed", 1, partial(self._restart, torturer, chance, leader, other)),
        )
        harm.do()
        torturer.counts[harm.name] += 1

    @staticmethod
    def _kill(leader: TorturedBroker, lead: Callable[[], None]) -> None:
        leader.kill()
        lead()
        leader.start()

    @staticmethod
    def _freeze(leader: TorturedBroker, lead: Callable[[], None]) -> None:
        """Freeze the leader until the other one leads, and wake it: it may answer nothing more."""
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            lead()
        finally:
            os.kill(leader.pid, signal.SIGCONT)

    def _cut_off_leader(self, leader: TorturedBroker, lead: Callable[[], None]) -> None:
        """Cut the leader's way to the bucket until the other one leads; clients still reach it."""
        way = self._ways_of_brokers[self._brokers.index(leader)]
        way.blackhole("both")
        try:
            lead()
        finally:
            way.restore()

    @staticmethod
    def _end(leader: TorturedBroker, lead: Callable[[], None]) -> None:
        leader.stop()
        lead()
        leader.start()

    @staticmethod
    def _restart(torturer: Torturer, chance: random.Random, *brokers: TorturedBroker) -> None:
        """Kill brokers at once, and start them again after a while."""
        for broker in brokers:
            broker.kill()
        torturer.pause(outage_length(chance))
        for broker in brokers:
            broker.start()
        until(lambda: any(broker.leads() for broker in brokers) or len(brokers) == 1, within=TIME_LIMIT)


class FailoverGrounds(BrokerGrounds):
    """The same with leases that outlast the loss of a leader, as they do by default: running jobs go on, and each
    leader judges leases that others judged before."""

    ttl = 30.0
    bound = BrokerGrounds.bound + (2.0 + 1.001 + AMNESTY / TTL) * (30.0 - TTL)

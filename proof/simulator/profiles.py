"""The kind of store of a world, and the gateway that imitates it."""

import random
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Literal

from holdfast._ports.store import Store
from proof.simulator.hosts import SimClock
from proof.simulator.loop import Process, VirtualLoop
from proof.stores.gateways import Carry, Gateway, as_store
from proof.stores.objects import BucketWorld
from proof.stores.recording_store import Witness
from proof.stores.replicas import Quorum, ReplicaGateway
from proof.stores.single_writer import WriteLock, WriterGateway
from proof.stores.statement_recorder import Mirror

LeaseClock = Literal["kernel", "server", "none"]


class Brand(StrEnum):
    """The brand whose statements the store of a world runs."""

    MEMORY = "memory"  # the reference, which also imitates the profiles below
    SQLITE = "sqlite"  # a real file
    POSTGRES = "postgres"  # a real server


class Profile(StrEnum):
    """The kind of store that a world imitates.

    It does not imitate the locks of a file, the memory of a server or the network of a service, only their effects on callers.
    """

    PLAIN = "plain"  # every call is one step, as on PostgreSQL
    SQLITE = "sqlite"  # one process writes at a time; a process stopped during its write keeps the lock
    MONGODB = "mongodb"  # a primary without a majority goes on, and its writes may be rolled back
    OBJECTS = "objects"  # the real store of a bucket in each process; no clock


WEIGHTS = {Profile.PLAIN: 46, Profile.SQLITE: 26, Profile.MONGODB: 14, Profile.OBJECTS: 14}


def draw_profile(numbers: random.Random, allowed: Collection[Profile]) -> tuple[Profile, LeaseClock]:
    """Draw a profile, and the clock that judges its leases."""
    lot, kinds = numbers.random(), [each for each in Profile if each in allowed]
    profile = numbers.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
    match profile:
        case Profile.SQLITE:
            return profile, "kernel"
        case Profile.OBJECTS:
            return profile, "none"
        case Profile.MONGODB:
            return profile, "server"
        case Profile.PLAIN:
            return profile, "kernel" if lot < 0.2 else "server"


class Entrance:
    """The entrance to one store. ``write_lock`` and ``quorum``: where the profile has one.

    ``timeout``: seconds for which a call waits. ``longest``: the most seconds that a write takes.
    """

    def __init__(
        self,
        profile: Profile,
        loop: VirtualLoop,
        store: Witness | Mirror | BucketWorld,
        clock: SimClock,
        *,
        timeout: float,
        longest: float,
    ) -> None:
        self.write_lock = WriteLock(loop, timeout=timeout) if profile is Profile.SQLITE else None
        self.quorum = Quorum(loop, store) if profile is Profile.MONGODB and isinstance(store, Witness) else None
        self._profile, self._loop, self._store, self._clock = profile, loop, store, clock
        self._timeout, self._longest = timeout, longest

    def gateway(self, process: Process, introduce: Callable[[], None], carry: Carry) -> Store:
        """Return the store as this process reaches it."""
        numbers, store = self._loop.stream(f"door of {process.title}"), self._store.reached_by(process)
        if self.write_lock is not None:
            return as_store(
                WriterGateway(
                    store,
                    introduce,
                    self.write_lock,
                    self._clock,
                    process=process,
                    carry=carry,
                    numbers=numbers,
                    longest=self._longest,
                )
            )
        if self.quorum is not None:
            return as_store(
                ReplicaGateway(
                    store,
                    introduce,
                    self.quorum,
                    self._clock,
                    numbers,
                    own_clock=self.quorum.store.clock_of(process.name),
                    carry=carry,
                    timeout=self._timeout,
                )
            )
        return as_store(Gateway(store, introduce))

"""What the store of a world is like, and what stands at its door for that."""

import random
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Literal

from holdfast._ports.store import Store
from proof.simulator.hosts import SimClock
from proof.simulator.loop import Process, VirtualLoop
from proof.stores.gateways import Carry, Door, as_store
from proof.stores.objects import ObjectDoor
from proof.stores.recording_store import Witness
from proof.stores.replicas import Quorum, ReplicaDoor
from proof.stores.single_writer import Pen, WriterDoor
from proof.stores.statement_recorder import Mirror

LeaseClock = Literal["kernel", "server", "none"]


class Brand(StrEnum):
    """Whose statements the store of a world runs."""

    MEMORY = "memory"  # the reference, which also plays the profiles below
    SQLITE = "sqlite"  # a real file
    POSTGRES = "postgres"  # a real server


class Profile(StrEnum):
    """The kind of store that a world imitates.

    Locks of a file on disk, the memory of a server and the network of a service are not played: only their effects on callers are.
    """

    PLAIN = "plain"  # every call is one step, as on PostgreSQL
    SQLITE = "sqlite"  # one process writes at a time; a process stopped during its write keeps the lock
    MONGODB = "mongodb"  # a primary without a majority goes on, and what it wrote alone may be rolled back
    OBJECTS = "objects"  # no clock; a write replaces what it was composed on, or nothing


WEIGHTS = {Profile.PLAIN: 46, Profile.SQLITE: 26, Profile.MONGODB: 14, Profile.OBJECTS: 14}


def draw_profile(numbers: random.Random, allowed: Collection[Profile]) -> tuple[Profile, LeaseClock]:
    """One of those, and whose clock its leases go by."""
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
    """The way into one store. ``pen`` and ``quorum``: where the profile has one.

    ``timeout``: seconds for which a call waits. ``longest``: the most seconds that a write takes.
    """

    def __init__(
        self, profile: Profile, loop: VirtualLoop, store: Witness | Mirror, clock: SimClock, *, timeout: float, longest: float
    ) -> None:
        self.pen = Pen(loop, patience=timeout) if profile is Profile.SQLITE else None
        self.quorum = Quorum(loop, store) if profile is Profile.MONGODB and isinstance(store, Witness) else None
        self._profile, self._loop, self._store, self._clock = profile, loop, store, clock
        self._timeout, self._longest = timeout, longest

    def door(self, process: Process, introduce: Callable[[], None], carry: Carry) -> Store:
        """Return the store as this process reaches it."""
        numbers, store = self._loop.stream(f"door of {process.title}"), self._store.reached_by(process)
        if self.pen is not None:
            return as_store(
                WriterDoor(
                    store,
                    introduce,
                    self.pen,
                    self._clock,
                    process=process,
                    carry=carry,
                    numbers=numbers,
                    longest=self._longest,
                )
            )
        if self.quorum is not None:
            return as_store(ReplicaDoor(store, introduce, self.quorum, self._clock, numbers, patience=self._timeout))
        if isinstance(self._store, Witness) and self._profile is Profile.OBJECTS:
            return as_store(ObjectDoor(self._store, introduce, self._clock, numbers, longest=self._longest))
        return as_store(Door(store, introduce))

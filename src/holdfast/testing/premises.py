"""The store of a world: a memory store with a witness, or a real one with a mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._ports.store import Capabilities
from holdfast.stores.memory import MemoryStore
from holdfast.testing.mirror import Mirror
from holdfast.testing.profiles import Brand
from holdfast.testing.programs import NAMES
from holdfast.testing.real_sqlite import SqliteFile
from holdfast.testing.threads import PROCESSES, THREADED
from holdfast.testing.truth import Witness, witnessed

if TYPE_CHECKING:
    from holdfast.testing.world import World

KNOWN = (*NAMES, *THREADED, *PROCESSES)


def open_store(world: World, kind: type[MemoryStore]) -> Witness | Mirror:
    """What the plan of the world asks for."""
    plan, clock = world.plan, world.store_clock or world.machines[0].clock
    match plan.brand:
        case Brand.SQLITE:
            return SqliteFile(world.machines[0].clock, plan.mix.timeout, world.history, world.now, KNOWN)
        case Brand.POSTGRES:
            from holdfast.testing.real_postgres import PostgresDatabase  # noqa: PLC0415 - its driver is an extra

            assert world.store_clock is not None
            return PostgresDatabase(world.store_clock, world.history, world.now, KNOWN)
        case Brand.MEMORY:
            return witnessed(
                kind,
                world.true_clock if plan.lease_clock == "none" else clock,
                history=world.history,
                now=world.now,
                profile=Capabilities("simulated", plan.lease_clock, caller_transaction=plan.has_hooks),
                floor=plan.floor,
                known=KNOWN,
                has_strangers=plan.locks > 0,
            )

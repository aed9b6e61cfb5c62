"""The store of a world: a memory store with a witness, the real one of a bucket, or another real one with a mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._core.answers import Capabilities
from holdfast._core.book.book import Book
from holdfast.stores.objects.archives import JOBS
from holdfast.stores.objects.pieces import FULL
from holdfast.stores.objects.tidying import Sizes
from proof.checker.history import OWN_ROWS
from proof.simulator import flow_programs, growth_programs
from proof.simulator.profiles import Brand, Profile
from proof.simulator.programs import NAMES
from proof.simulator.threads import PROCESSES, THREADED
from proof.stores.objects import BucketWorld
from proof.stores.real_sqlite import SqliteFile
from proof.stores.recording_store import Witness, witnessed
from proof.stores.statement_recorder import Mirror

if TYPE_CHECKING:
    from proof.simulator.world import World

KNOWN = (*NAMES, *THREADED, *PROCESSES, *flow_programs.NAMES, *growth_programs.NAMES, *OWN_ROWS)


def open_store(world: World, kind: type[Book]) -> Witness | Mirror | BucketWorld:
    """Open the store that the plan of the world asks for."""
    plan, clock = world.plan, world.store_clock or world.machines[0].clock
    match plan.brand:
        case Brand.SQLITE:
            return SqliteFile(
                world.machines[0].clock, plan.mix.timeout, world.history, world.now, KNOWN, has_flows=plan.flows is not None
            )
        case Brand.POSTGRES:
            from proof.stores.real_postgres import PostgresDatabase  # noqa: PLC0415 - its driver is an extra

            assert world.store_clock is not None
            return PostgresDatabase(world.store_clock, world.history, world.now, KNOWN, has_flows=plan.flows is not None)
        case Brand.MEMORY if plan.profile is Profile.OBJECTS:
            return BucketWorld(
                kind,
                world.loop,
                world.true_clock,
                history=world.history,
                now=world.now,
                known=KNOWN,
                floor=plan.floor,
                records_claims=plan.lanes is not None,
                sizes=Sizes(plan.full, archive=2 if plan.full < FULL else JOBS),
                faults=world.faults,
                carry=world.carry,
                brokers=None if plan.brokers is None else "require" if plan.brokers.is_required else "auto",
            )
        case Brand.MEMORY:
            return witnessed(
                kind,
                clock,
                history=world.history,
                now=world.now,
                profile=Capabilities("simulated", plan.lease_clock, caller_transaction=plan.has_hooks, prefetch=plan.ahead > 0),
                floor=plan.floor,
                known=KNOWN,
                has_strangers=plan.locks > 0,
                records_claims=plan.lanes is not None,
            )

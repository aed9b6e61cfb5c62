"""A world's watched table: how its processes reach it, and the handler that processes its rows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from holdfast._engine.rows.batch import Batch
from holdfast._engine.rows.rows import Rows, RowsContext
from holdfast._engine.rows.tables import OpenTable, Tables
from holdfast._ports.host import Exit
from proof.simulator.call_outcomes import Fate, Fault, Faults, Mix
from proof.simulator.hosts import SimChance, SimClock
from proof.simulator.programs import SCENE, Scene
from proof.simulator.watched_plan import RowsPlan
from proof.simulator.watched_table import WitnessedTable, faulty_table
from proof.stores.gateways import Carry

if TYPE_CHECKING:
    from holdfast._engine.events import Events
    from holdfast._engine.tasks.registry import Registry
    from proof.simulator.loop import Process
    from proof.simulator.world import World

WAYS = ("each", "all", "transaction for each", "transaction for all")
UNCLEAN = (Fault.WRONG_BEFORE, Fault.WRONG_AFTER, Fault.TWICE)
"""Faults that a table does not have: it answers with Holdfast's errors only, and no driver sends a call twice."""


class _TableFaults:
    """The faults of calls to the table: its outages and standstills are those of the store, and end with them."""

    def __init__(self, own: Faults, store: Faults, is_calm: Callable[[], bool]) -> None:
        self._own, self._store, self._is_calm = own, store, is_calm
        self.standstill = store.standstill

    def draw(self, verb: str) -> Fate:
        """Draw the outcome of the next call to the table."""
        if self._is_calm():
            self._own.stop()
        self._own.is_out, self._own.is_refusing = self._store.is_out, self._store.is_refusing
        return self._own.draw(verb)


class WatchedRows:
    """The table of a world, if it has one."""

    def __init__(self, world: World, carry: Callable[[Process, Coroutine[Any, Any, Any]], Any]) -> None:
        self._world, self._carry, self._plan = world, carry, world.plan.rows
        if self._plan is not None:
            self._table = self._open(self._plan)

    def _open(self, plan: RowsPlan) -> WitnessedTable:
        world, watch = self._world, plan.settings.watch
        bare = [{"id": -number, "status": watch.in_progress} for number in range(1, plan.bare + 1)]
        return WitnessedTable(
            watch,
            world.store_clock or world.true_clock,
            [*({"id": number} for number in range(1, plan.rows + 1)), *bare],
            tells_stamps=plan.tells_stamps,
            history=world.history,
            now=world.now,
            complain=world.loop.complaints.append,
        )

    def opener(self, process: Process, *, is_healthy: bool) -> OpenTable:
        """Return the function with which this process opens the table."""
        world = self._world

        def open_table(url: str, watch: object) -> Any:
            del url, watch
            return faulty_table(
                self._table,
                process=process.name,
                faults=self._faults(process, is_healthy=is_healthy),
                clock=world.true_clock,
                history=world.history,
                now=world.now,
                carry=_carry_of(self._carry, process),
                crash=lambda: process.end(Exit(signal="SIGKILL")),
            )

        return open_table

    def register(
        self, known: Registry, process: Process, clock: SimClock, chance: SimChance, events: Events, *, is_healthy: bool
    ) -> Tables | None:
        """Register the handler of the world's table, if it has one, and return the worker's own tables."""
        if self._plan is None:
            return None
        tables = Tables(self.opener(process, is_healthy=is_healthy))
        around: Any = SimpleNamespace(clock=clock, chance=chance)
        Rows(self._plan.settings, RowsContext(known, tables, around, events)).handler(handler_of(self._plan))
        return tables

    def is_done(self) -> bool:
        """Return whether each row is done or failed."""
        return self._plan is None or all(row["status"] in ("done", "failed") for row in self._table.rows.values())

    def _faults(self, process: Process, *, is_healthy: bool) -> _TableFaults:
        world = self._world
        store = world.faults.get(process.name) or world.faults_of(process, is_healthy=is_healthy)
        own = world.faults_of(process, is_healthy=is_healthy, title=f"the table of {process.title}")
        own.mix = clean(own.mix)
        return _TableFaults(own, store, lambda: world.is_calm and not world.plan.is_live)


def clean(mix: Mix) -> Mix:
    """Return the faults of a store that a table has too."""
    return structs.replace(mix, rates={fault: rate for fault, rate in mix.rates.items() if fault not in UNCLEAN})


def handler_of(plan: RowsPlan) -> Callable[[Batch], Coroutine[Any, Any, None]]:
    """Return a handler that finishes rows one by one or at once, with effects or without; poison rows make it raise or die."""

    async def work(batch: Batch) -> None:
        scene = SCENE.get().of(batch.job.id, "batch")
        way = scene.chance.choice(WAYS)
        for key in batch.keys:
            await scene.wait(scene.chance.random() * scene.pace)
            await _suffer(scene, plan, key)
            if plan.has_owner and scene.chance.random() < 0.1:
                await batch.alive()
            if way == "each":
                await batch.done([key])
            elif way == "transaction for each":
                await _commit(scene, batch, [key])
        if way == "all":
            await batch.done(batch.open)
        elif way == "transaction for all":
            await _commit(scene, batch, batch.open)

    return work


async def _suffer(scene: Scene, plan: RowsPlan, key: int) -> None:
    if key in plan.raising:
        raise ValueError(f"row {key} is poison")
    if key in plan.killing or (scene.is_rough and scene.chance.random() < 0.02):
        await scene.crash()
    if scene.is_rough and scene.chance.random() < 0.02:
        await scene.block(scene.chance.random() * 12 * scene.pace)


async def _commit(scene: Scene, batch: Batch, keys: list[Any]) -> None:
    async with batch.transaction() as transaction:
        await transaction.done(keys)
        await scene.wait(scene.chance.random() * scene.pace / 5)
        transaction.connection.extend(keys)


def _carry_of(carry: Callable[[Process, Coroutine[Any, Any, Any]], Any], process: Process) -> Carry:
    return lambda coroutine: carry(process, coroutine)

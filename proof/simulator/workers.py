"""Simulated workers: the engine's own, with the tasks, the store and the luck of their process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from holdfast._core.policy import Policy
from holdfast._core.prefetch import Throughput
from holdfast._core.requests import IsolatedJobs
from holdfast._engine.environment import Environment
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.worker import Worker
from proof.simulator.event_listeners import Ears
from proof.simulator.hosts import SimChance, SimClock
from proof.simulator.own_rows import OwnRows
from proof.simulator.plans import QUIET
from proof.simulator.programs import SCENE, Scene, registry
from proof.simulator.runners import SimRunnerHost
from proof.simulator.schedule_plan import declared_in
from proof.simulator.threads import SimThreads, only_kind
from proof.stores.real_sqlite import SqliteFile

if TYPE_CHECKING:
    from holdfast._engine.tasks.registry import TaskDefinition
    from holdfast._ports.host import SupervisorLink
    from holdfast.settings import Settings
    from proof.simulator.loop import Process
    from proof.simulator.world import World


def worker_of(
    world: World,
    cell: SupervisorLink,
    process: Process,
    clock: SimClock,
    settings: Settings,
    known: dict[str, TaskDefinition],
    *,
    is_healthy: bool = False,
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
) -> Worker:
    """Return a worker that does not run yet; call this in the context in which it will run."""
    known = {name: known[name] for name in only_kind(world.plan.tasks) or known}
    scene, most = _scene(world, process, clock, settings, known), world.plan.concurrency
    if isinstance(world.store, SqliteFile):
        scene.rows = OwnRows(world.store, process)
    SCENE.set(scene)
    found, chance, ears = registry(known), SimChance(process.numbers, clock), Ears(world, process)
    found.add_schedule(*declared_in(world.plan.schedules, known))
    tables = world.watched.register(found, process, clock, chance, ears, is_healthy=is_healthy)
    store = world.connect(process, is_healthy=is_healthy)
    worker = EagerWorker(
        cell,
        Environment(store, world.transport(process), clock, chance, ears),
        registry=found,
        settings=settings,
        options=WorkerOptions(concurrency=most, threads=most, runners=most, isolated=isolated),
        tables=tables,
        runner_host=SimRunnerHost(world.loop, process, clock, scene, known),
    )
    worker.threads, worker.ahead = SimThreads(world.loop, process, most), world.plan.ahead
    return worker


class EagerWorker(Worker):
    """A worker that claims ``ahead`` jobs after one full claim, because simulated handlers are too slow for its own decision."""

    ahead = 0

    def _assemble(self, *, is_isolated: bool) -> None:
        super()._assemble(is_isolated=is_isolated)
        self.exchange.ahead.pace = Eager(ahead=self.ahead)


class Eager(Throughput, frozen=True):
    """A decision to claim ``ahead`` jobs, and to start two of them at once beside those for free slots."""

    ahead: int = 0

    def jobs_ahead(self, slots: int, time: float, most: int | None) -> int:
        del slots, time, most
        return self.ahead if self.full_claims else 0

    def jobs_to_start(self, waiting: Iterable[Policy], *, free: int, started: int) -> int:
        return Throughput(rate=200.0).jobs_to_start(waiting, free=free, started=started)

    def is_low(self, started: int) -> bool:
        return started < 2


def _scene(world: World, process: Process, clock: SimClock, settings: Settings, known: dict[str, TaskDefinition]) -> Scene:
    return Scene(
        world.loop,
        process,
        clock=clock,
        history=world.history,
        now=world.now,
        pace=partial(_pace, world, settings.timing.ttl),
        is_rough=lambda: not world.is_calm and world.plan.mode not in QUIET,
        tasks=known,
        runs=world.runs,
    )


def _pace(world: World, ttl: float) -> float:
    """Return the pace of handlers: fast once all is calm, because long handlers show nothing more."""
    return ttl / (100 if world.is_calm else 10)

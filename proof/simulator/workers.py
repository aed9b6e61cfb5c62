"""Simulated workers: the engine's own, with the tasks, the store and the luck of their process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast._core.requests import IsolatedJobs
from holdfast._engine.environment import Environment
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.worker import Worker
from proof.simulator.event_listeners import Ears
from proof.simulator.hosts import SimChance, SimClock
from proof.simulator.plans import QUIET
from proof.simulator.programs import SCENE, Scene, registry
from proof.simulator.runners import SimRunnerHost
from proof.simulator.schedule_plan import declared_in
from proof.simulator.threads import SimThreads

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
    scene, most = _scene(world, process, clock, settings, known), world.plan.concurrency
    SCENE.set(scene)
    found, chance, ears = registry(known), SimChance(process.numbers, clock), Ears(world, process)
    found.add_schedule(*declared_in(world.plan.schedules, known))
    tables = world.watched.register(found, process, clock, chance, ears, is_healthy=is_healthy)
    store = world.connect(process, is_healthy=is_healthy)
    worker = Worker(
        cell,
        Environment(store, world.transport(process), clock, chance, ears),
        registry=found,
        settings=settings,
        options=WorkerOptions(concurrency=most, threads=most, runners=most, isolated=isolated),
        tables=tables,
        runner_host=SimRunnerHost(world.loop, process, clock, scene, known),
    )
    worker.threads = SimThreads(world.loop, process)
    return worker


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

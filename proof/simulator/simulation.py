"""One seed, one world: run it, judge it, and describe what broke."""

import gc
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Struct, structs

from holdfast._core.book.book import Book
from holdfast._core.policy import RETENTION_FLOOR
from proof.checker.checker import check
from proof.checker.history import History
from proof.checker.verdicts import Report
from proof.search.decisions import Decision
from proof.simulator.bucket_plan import fitted
from proof.simulator.environment_faults import EnvironmentFaults
from proof.simulator.flow_plan import SHARE
from proof.simulator.loop import Stuck
from proof.simulator.own_rows import with_own_rows
from proof.simulator.plans import Plan, draw_for
from proof.simulator.profiles import Brand, Profile
from proof.simulator.world import World
from proof.stores.shared_decoding import decoded_once

PRUNING = 80.0  # seconds in which every supervisor has pruned once


class Outcome(Struct):
    """The outcome of one seed. ``decisions``: all faults and operations that happened.

    ``complaints``: exceptions that no code caught in a living process.
    ``titles``: titles of processes, with the names that they have in the history.
    """

    seed: int
    plan: Plan
    decisions: list[Decision]
    report: Report
    history: History
    complaints: list[str]
    seconds: float
    titles: dict[str, str]

    @property
    def is_clean(self) -> bool:
        """Whether all properties held, without complaints."""
        return not self.report.violations and not self.complaints

    def explain(self) -> str:
        """Return the complaints, and the story of the first violation."""
        story = [self.report.explain(self.history)] if self.report.violations or not self.complaints else []
        return "\n".join([*self.complaints[:5], *story])


def simulate(
    seed: int,
    kind: type[Book] = Book,
    *,
    brand: Brand = Brand.MEMORY,
    has_hooks: bool = False,
    has_queue: bool = False,
    has_flows: bool = False,
    profile: Profile | None = None,
) -> Outcome:
    """Run one world and check its history. The same seed gives the same history; ``kind`` may be a broken store.

    ``brand``: the brand whose statements the store runs; a real store does not use ``kind``.
    ``has_hooks``: its tasks always have an ``on_rescue``. ``has_queue``: a queue always delivers its jobs.
    ``has_flows``: it has workflows, if its kind may have some. ``profile``: the only one that a memory store imitates.
    """
    plan = with_own_rows(draw_for(seed, brand, flow_share=1.0 if has_flows else SHARE, profile=profile))
    plan = fitted(structs.replace(plan, has_hooks=plan.has_hooks or has_hooks, has_queue=plan.has_queue or has_queue))
    return perform(plan, seed, kind)


def perform(plan: Plan, seed: int, kind: type[Book] = Book) -> Outcome:
    """Run the world of a plan and check its history."""
    world = World(plan, seed, kind)
    return watch(world, partial(_run, world), seed)


def watch(world: World, live: Callable[[], Coroutine[Any, Any, None]], seed: int = 0) -> Outcome:
    """Run a world to its end and check its history."""
    was_collecting = gc.isenabled()
    gc.disable()  # the time of its runs must not depend on earlier code
    try:
        try:
            with decoded_once():
                world.loop.run_until_complete(live())
        except Stuck as error:
            world.loop.complaints.append(str(error))
        seconds = world.now()
    finally:
        world.is_over = True
        processes = [process for machine in world.machines for process in machine.processes]
        titles = {process.title: process.name for process in processes}
        history, world.history.events = History(world.history.events), []
        world.loop.dispose(processes)
        world.store.close_world()
        if was_collecting:
            gc.enable()
    plan, report = world.plan, check(history, world.plan.rules)
    return Outcome(seed, plan, world.decisions, report, history, list(world.loop.complaints), seconds, titles)


async def _run(world: World) -> None:
    for slot in world.slots:
        world.start(slot)
    for app in world.apps:
        app.start()
    world.brokers.start()
    world.start_clients()
    environment_faults = EnvironmentFaults(world)
    await environment_faults.run_faults()
    environment_faults.end_faults()
    until, before = world.now() + world.plan.patience, len(world.unfinished())
    while not world.is_done() and world.now() < until:
        await world.pause(world.plan.settings.timing.beat)
        left = len(world.unfinished())
        if left < before:  # schedules may have left more jobs than one slot runs in that time, or still catch up with more
            until = world.now() + world.plan.patience
        before = left
        world.resume_late_pauses()
        world.schedules.end_late_ones()
        world.lanes.end_limits()
        world.flows.end()
    if world.is_done():
        world.write("done", "the world")
    # Late calls and frozen processes may still come back, and short-lived rows are pruned.
    is_kept = world.plan.floor >= RETENTION_FLOOR
    await world.pause(world.plan.settings.timing.ttl / 2 if is_kept else world.plan.floor + PRUNING)

"""The walks through the code that CONTRIBUTING.md draws: one enqueue, one claim with its run and its outcome, one rescue."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from types import FrameType

from holdfast import App
from tests.engine.supervisor.test_recovery import CRASH, Site
from tests.engine.support import LEASE, Bench

MOST_HOPS = 12
LEAVES = ("_core.", "_system.clock", "app")
"""Values and decisions, clocks and ids: a call goes there and back, and never on from there."""


@contextmanager
def walked() -> Iterator[list[str]]:
    """Record the modules that a call enters from another module of Holdfast; of a store only its first module."""
    names: list[str] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        name, back = module_of(frame), frame.f_back
        if event == "call" and name and name != module_of(back) and not name.startswith(LEAVES) and [name] != names[-1:]:
            names.append(name)

    sys.setprofile(watch)
    try:
        yield names
    finally:
        sys.setprofile(None)


def module_of(frame: FrameType | None) -> str:
    """The module of the frame without the package, or nothing if it is not Holdfast's."""
    name = "" if frame is None else frame.f_globals.get("__name__", "")
    return name.removeprefix("holdfast.") if name.startswith("holdfast.") else ""


def test_an_enqueue_enters_at_most_12_modules_and_none_twice() -> None:
    app = App("memory://")

    @app.task
    async def resize(path: str) -> None: ...

    async def enqueue() -> list[str]:
        await resize.aenqueue("the first one opens the store")
        with walked() as names:
            await resize.aenqueue("a.png")
        return names

    walk = asyncio.run(enqueue())
    assert walk == [
        "_engine.tasks.task",
        "_engine.tasks.options",
        "_engine.client.connections",
        "_engine.client.client",
        "_engine.client.group_commit",
        "_engine.retry",
        "stores.memory",
        "_engine.client.announcement",
        "_engine.events",
        "transports.inprocess",
        "_engine.client.handle",
    ]
    assert len(walk) <= MOST_HOPS


def rooms_of(walk: Iterable[str]) -> list[str]:
    """Return the packages of a walk, each once for as long as it stays there; events, services and test clocks are left out."""
    rooms = [name.removeprefix("_engine.").partition(".")[0] for name in walk]
    kept = [room for room in rooms if room not in ("events", "service", "testing", "tasks")]
    return [room for room, _ in groupby(kept)]


async def quick() -> None: ...


def test_one_job_leaves_the_worker_for_a_claim_its_runner_and_its_settling() -> None:
    async def run_one() -> list[str]:
        bench = Bench(quick)
        await bench.open(("quick", b"{}"))
        with walked() as names:
            await bench.exchange.step()
            await bench.until_ended()
            await bench.exchange.step()
        return names

    outside = [room for room in rooms_of(asyncio.run(run_one())) if room != "worker"]
    claim, *run, settling, next_due = outside
    assert (claim, set(run), settling, next_due) == ("stores", {"runners"}, "stores", "stores")


def test_one_rescue_is_between_recovery_and_the_store_alone() -> None:
    async def rescue() -> list[str]:
        site = Site()
        await site.claim(1)
        with walked() as names:
            await site.recovery.end(LEASE.id, LEASE.worker, CRASH)
        return names

    walk = asyncio.run(rescue())
    assert rooms_of(walk)[0] == "supervisor"
    assert set(rooms_of(walk)) == {"supervisor", "stores"}
    assert walk.count("stores.memory") == 4, "deliver and end the lease, read what it held, move it, look again"

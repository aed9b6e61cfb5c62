"""The walks through the code that CONTRIBUTING.md draws: one enqueue, one claim with its run and its outcome, one rescue."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from holdfast import App

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

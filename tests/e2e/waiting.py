"""Functions that wait for a condition, never for a time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE = 0.005
STALL = 5.0
"""Seconds by which a machine that runs other tests may be late; what a test must exclude takes far longer."""


def until(predicate: Callable[[], T], *, within: float) -> T:
    """Return the first true answer of the predicate; raise ``AssertionError`` if there is none in time."""
    deadline = time.monotonic() + within
    while not (answer := predicate()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {_text(predicate)}"
        time.sleep(PAUSE)
    return answer


async def eventually(predicate: Callable[[], T], *, within: float) -> T:
    """Wait as ``until`` does, inside an event loop."""
    deadline = time.monotonic() + within
    while not (answer := predicate()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {_text(predicate)}"
        await asyncio.sleep(PAUSE)
    return answer


def _text(predicate: Callable[[], object]) -> str:
    predicate = getattr(predicate, "func", predicate)  # the function of a partial
    return f"{predicate.__name__} at {predicate.__code__.co_filename}:{predicate.__code__.co_firstlineno}"

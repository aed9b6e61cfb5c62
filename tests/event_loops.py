"""Runs tests that are coroutines: each in a new event loop, and with ``virtual_time`` in one whose seconds take no time.

A test also fails if anything in its loop raised an exception that no code received.
"""

import asyncio
import heapq
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest

THE_END = "the test is over"
DESTROYED = "Task was destroyed but it is pending!"
ROUNDS = 20
LAST_ROUND = 1e7  # a thread that a test in virtual time never lets end may end after that many seconds


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of tests in virtual time."""
    config.addinivalue_line("markers", "virtual_time: the test is a coroutine, and its seconds take no time")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    runner = run if pyfuncitem.get_closest_marker("virtual_time") is None else run_virtual
    runner(pyfuncitem.obj(**arguments))
    return True


def run(test: Coroutine[Any, Any, object]) -> None:
    """Run a test; it fails too when anything in the loop raised an exception that no code received."""
    _run(asyncio.new_event_loop(), test)


def run_virtual(test: Coroutine[Any, Any, object]) -> None:
    """Run a test on a loop whose time jumps to the next timer as soon as nothing else can happen."""
    _run(VirtualLoop(), test)


def _run(loop: asyncio.AbstractEventLoop, test: Coroutine[Any, Any, object]) -> None:
    complaints, is_over = list[dict[str, Any]](), False

    def complain(_: object, context: dict[str, Any]) -> None:
        if not (is_over and context["message"] == DESTROYED):  # the garbage collector was faster than the end of the others
            complaints.append(context)

    async def whole() -> None:
        nonlocal is_over
        try:
            await test
        finally:
            is_over = True

    loop.set_exception_handler(complain)
    try:
        try:
            loop.run_until_complete(whole())
        finally:
            loop.run_until_complete(_end_all_others())
    finally:
        loop.close()
    assert not complaints, complaints


async def _end_all_others() -> None:
    """Cancel what still runs. A task that swallows it is cancelled again each second; one that goes on fails the test."""
    is_virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    for seconds in (*[1.0] * ROUNDS, *[LAST_ROUND] * is_virtual):
        if not (left := asyncio.all_tasks() - {asyncio.current_task()}):
            return
        for task in left:
            task.cancel(THE_END)
        _, left = await asyncio.wait(left, timeout=seconds)
    assert not left, f"tasks that do not end when they are cancelled: {left}"


_BESIDE: set[asyncio.Task[Any]] = set()


def beside(coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Run it beside the test, until it or the test ends."""
    task = asyncio.get_running_loop().create_task(coroutine)
    _BESIDE.add(task)
    task.add_done_callback(_BESIDE.discard)
    return task


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds that take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready:
            while self._scheduled and self._scheduled[0].cancelled():
                heapq.heappop(self._scheduled)._scheduled = False
                self._timer_cancelled_count -= 1
            if not self._scheduled:
                raise AssertionError("nothing can ever happen again")
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()

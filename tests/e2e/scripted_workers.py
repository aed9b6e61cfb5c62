"""What the tests of processes share: workers that follow commands, and functions that inspect processes from outside."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast._system import guard
from holdfast._system.host import SystemChild, SystemHost

HERE = Path(__file__).parent
NEVER_LONGER = 30.0


def scripted_host() -> SystemHost:
    """Return a host whose workers are scripted."""
    return SystemHost(command=(sys.executable, str(HERE / "scripted_worker.py")))


async def ask(child: SystemChild, order: str, value: object = None) -> Any:
    """Send a command to a scripted worker, and return its answer."""
    child.channel.send(json.dumps([order, value]).encode())
    answer = await asyncio.wait_for(child.channel.receive(), NEVER_LONGER)
    assert answer is not None, "the scripted worker died"
    return json.loads(answer)


@asynccontextmanager
async def scripted_worker(*arguments: str) -> AsyncIterator[SystemChild]:
    """Start a scripted worker that ends with the test."""
    child = await scripted_host().spawn(arguments)
    try:
        yield child
    finally:
        child.kill()
        await asyncio.wait_for(child.wait(), NEVER_LONGER)
        child.channel.close()


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario in a fresh event loop, with a time limit."""
    asyncio.run(asyncio.wait_for(scenario(), NEVER_LONGER))


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    stat = guard.read_stat(pid)
    return stat is not None and stat.is_alive


def living(session: int) -> list[int]:
    """Return the living processes of a session."""
    return [pid for pid, stat in guard.session_processes(session).items() if stat.is_alive]


def guard_of(worker: int) -> int:
    """Return the pid of a worker's guard."""
    (found,) = [pid for pid in living(worker) if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


def end(pid: int) -> None:
    """Send SIGKILL to a process, if it still exists."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass

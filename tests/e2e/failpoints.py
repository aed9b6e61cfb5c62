"""Named points at which a real process kills itself: before and after each call of its store.

``E2E_FAILPOINTS`` lists them, as ``worker.settle.before``; each is hit once, by the first process that comes there.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast._engine.runners import messages as runner_messages
from holdfast._system import guard
from holdfast._system.channel import SystemChannel
from holdfast._system.host import identify
from holdfast.settings import Settings
from proof.checker.process_log import ProcessEvent, read_from, tell
from proof.stores.gateways import VERBS

POINTS = tuple(filter(None, os.environ.get("E2E_FAILPOINTS", "").split(",")))
DEEDS = "deeds"
MARK = "failpoint-"


class Failing:
    """A store whose caller dies at the named points."""

    def __init__(self, store: Any, role: str) -> None:
        self._store, self._role = store, role

    def __getattr__(self, verb: str) -> Any:
        found = getattr(self._store, verb)
        if verb not in VERBS:
            return found

        async def ask(*arguments: Any, **keywords: Any) -> Any:
            name = f"{self._role}.{_deed(verb, arguments)}"
            reach(f"{name}.before")
            answer = await found(*arguments, **keywords)
            if name != f"{self._role}.claim" or answer.claims:
                reach(f"{name}.after")
            return answer

        return ask


def arm(open_store: Callable[[Settings], Any], role: str) -> Callable[[Settings], Any]:
    """Return a function that opens the same stores, for a process that dies at the points of its role."""
    return lambda settings: Failing(open_store(settings), role)


def arm_runner() -> None:
    """Let this runner die before or after one message to its worker, at ``runner.runended.before`` for instance."""
    say = SystemChannel.send

    def send(channel: SystemChannel, message: bytes) -> None:
        name = f"runner.{type(runner_messages.decode(message)).__name__.lower()}"
        reach(f"{name}.before")
        say(channel, message)
        reach(f"{name}.after")

    SystemChannel.send = send  # type: ignore[method-assign]


def reach(point: str) -> None:
    """Kill this process, if this is a point at which no process has died yet."""
    if point in POINTS and _is_first(Path(os.environ["E2E_FOLDER"]) / f"{MARK}{point}"):
        _die()


def reached(folder: Path) -> set[str]:
    """List the points at which a process has died."""
    return {path.name.removeprefix(MARK) for path in folder.glob(f"{MARK}*")}


def deeds(folder: Path) -> list[ProcessEvent]:
    """List which process died, and when."""
    return read_from(folder / DEEDS)[0]


def _deed(verb: str, arguments: tuple[Any, ...]) -> str:
    if verb != "exchange":
        return verb
    return "settle" if arguments[0] else "claim"


def _is_first(file: Path) -> bool:
    try:
        file.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _die() -> None:
    """Kill this process; a supervisor kills its workers first, because other tests cover workers without a supervisor."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    ours = [pid for pid in pids if (stat := guard.read_stat(pid)) and stat.parent == os.getpid() and stat.is_alive]
    for pid in (pid for pid in ours if os.getsid(pid) == pid):
        process = identify(pid)
        os.kill(pid, signal.SIGSTOP)
        while (stat := guard.read_stat(pid)) is not None and stat.state not in "TZ":
            pass
        _tell(ProcessEvent(time.time(), "process.end", process))
        os.kill(pid, signal.SIGKILL)
    _tell(ProcessEvent(time.time(), "process.end", identify(os.getpid())))
    os.kill(os.getpid(), signal.SIGKILL)


def _tell(deed: ProcessEvent) -> None:
    tell(Path(os.environ["E2E_FOLDER"]) / DEEDS, deed)


def supervise() -> None:
    """Run ``holdfast``, whose supervisor dies at its points."""
    import holdfast.opening as composition
    from holdfast.cli import main

    composition.open_store = arm(composition.open_store, "supervisor")
    main()

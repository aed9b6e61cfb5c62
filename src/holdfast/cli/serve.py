"""One supervisor from start to end, or, with ``--reload``, one after the other."""

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast._core.text import printable
from holdfast.cli.remedies import here
from holdfast.cli.stderr import write_stderr

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast._engine.supervisor.supervisor import Supervisor
    from holdfast.cli.reload import Changes

USAGE, UNREACHABLE = 2, 75


class WorkerCommand:
    """Runs the supervisor that ``make`` returns, until it ends by itself or a signal ends it; ``reason`` then holds why."""

    def __init__(self, make: "Callable[[], Supervisor]", changes: "Changes | None" = None) -> None:
        self._make, self._changes = make, changes
        self._ended = asyncio.Event()
        self.supervisor = make()
        self.reason = "nothing left to do"

    def end(self, number: signal.Signals) -> None:
        """Handle a signal: the first drains, the second ends at once."""
        self.reason = number.name
        self._ended.set()
        self.supervisor.drain()

    async def run(self) -> int:
        """Run to the end, and return the exit code."""
        if self._changes is None:
            code = await self.supervisor.run()
            self._explain(code)
            return code
        return await self._run_again_and_again(self._changes)

    async def _run_again_and_again(self, changes: "Changes") -> int:
        while True:
            running, changed = asyncio.create_task(self.supervisor.run()), asyncio.create_task(changes.wait())
            await asyncio.wait({running, changed}, return_when=asyncio.FIRST_COMPLETED)
            if changed.done() and not self._ended.is_set():
                write_stderr(f"{_named(changed.result())} changed: workers restart")
                self.supervisor.drain()
            code = await running
            self._explain(code)
            if code == USAGE and not self._ended.is_set():
                write_stderr("waiting for the next change")
                ended = asyncio.create_task(self._ended.wait())
                await asyncio.wait({changed, ended}, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                code = 0 if self._ended.is_set() else code
            if self._ended.is_set() or not changed.done():
                changed.cancel()
                return code
            self.supervisor = self._make()

    def _explain(self, code: int) -> None:
        for problem in self.supervisor.problems:
            write_stderr(f"error: {printable(here(problem))}")
        if code == UNREACHABLE:
            write_stderr("error: the store could not be reached; check that it is running, then start the worker again")
        if not self.supervisor.slots:
            self.reason = "drained by an operator"
        if code and not self._ended.is_set():
            self.reason = {USAGE: "refused", UNREACHABLE: "store out of reach"}.get(code, "failed")


def _named(paths: "list[Path]") -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{printable(str(paths[0]))}{more}"

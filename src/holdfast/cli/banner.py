"""What a worker prints about itself when it starts and when it ends."""

import logging
import os
import platform
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast._core.release import VERSION
from holdfast._core.text import printable
from holdfast._engine.events import Event, EventName, Events
from holdfast.cli.stderr import write_stderr
from holdfast.settings import public_url

if TYPE_CHECKING:
    from holdfast._engine.messages import WorkerHello
    from holdfast._engine.supervisor.supervisor import Supervisor
    from holdfast._processes.worker import ProcessOptions

MOST_NAMED = 20

logger = logging.getLogger("holdfast")


class Banner:
    """Printed once, when the first worker has reported its settings, and its counterpart at the end."""

    def __init__(self, target: str, processes: int, options: "ProcessOptions", now: Callable[[], float]) -> None:
        self._target, self._processes, self._options = target, processes, options
        self._now, self._started = now, now()
        self._counts: Counter[EventName] = Counter()
        self._is_printed = False

    def listen(self, events: Events, supervisor: "Callable[[], Supervisor]") -> None:
        """Print at the first lease; count what the supervisor does."""

        def count(event: Event) -> None:
            self._counts[event.name] += 1
            if event.name is EventName.LEASE_OPENED and not self._is_printed:
                self._is_printed = True
                self._say(next(worker.hello for worker in supervisor().workers if worker.hello is not None))

        events.on("*", count)

    def _say(self, hello: "WorkerHello") -> None:
        worker = self._options.worker
        many = f"{self._processes} process{'es' if self._processes > 1 else ''}"
        lines = {
            "app": self._target,
            "store": public_url(hello.settings.url),
            "workers": f"{many} × {worker.concurrency} async jobs, {worker.threads} threads",
            "queues": "all" if self._options.queues is None else ", ".join(self._options.queues),
            "tasks": _names(hello.tasks),
            "python": f"{platform.python_version()}, pid {os.getpid()}",
        }
        if self._options.log_format == "json":
            logger.info("holdfast %s starts", VERSION, extra={"fields": lines})
            return
        block = [f"holdfast {VERSION}", *(f"  {name:<8} {printable(text)}" for name, text in lines.items())]
        write_stderr("\n".join((*block, "  Ctrl-C ends it")))

    def end(self, reason: str, code: int) -> None:
        """Print one line: for how long, why, and what went wrong."""
        started, rescued = self._counts[EventName.WORKER_STARTED], self._counts[EventName.JOB_RESCUED]
        parts = [f"{reason} after {self._now() - self._started:.1f} s, exit code {code}"]
        parts += [f"{started} workers started one after the other"] if started > self._processes else []
        parts += [f"{rescued} job{'s' if rescued > 1 else ''} rescued"] if rescued else []
        text = f"holdfast ended: {'; '.join(parts)}"
        if self._options.log_format == "json":
            logger.info("%s", text, extra={"fields": {"reason": reason, "code": code, "rescued": rescued}})
        else:
            write_stderr(text)


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")

"""An App on a store of one test's own, with a clock that the test advances."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import structs, to_builtins

from holdfast._core.view import JobView
from holdfast._engine.events import Event
from holdfast._engine.tasks.task import Task
from holdfast.app import App
from holdfast.opening import open_store
from holdfast.testing import crash_at
from holdfast.testing.clock import AdvancedClock

MOST = 1000
"""The newest jobs of a task that ``enqueued`` looks at."""


class TestedApp:
    """Your App on a store of this test's own, and what the test may ask of it.

    ``clock.advance("1h")`` makes jobs due: delays, retries, schedules, expiry. The store must read this machine's clock for that, as
    memory and SQLite do.
    """

    __test__ = False  # its name begins like those of classes with tests
    crash_at: Callable[..., Any] = staticmethod(crash_at)
    """``holdfast.testing.crash_at``: kill the process of a job there, and return how it recovered."""

    def __init__(self, app: App, clock: AdvancedClock) -> None:
        self.app, self.clock = app, clock
        self.events: list[Event] = []
        """What has happened, oldest first: each event has a ``name`` and ``fields``."""

    def run_due(self, *, limit: int = 10_000, concurrency: int = 1) -> int:
        """Run all jobs that are due, here and now, and return how many that were; see ``App.run_due``."""
        return self.app.run_due(limit=limit, concurrency=concurrency)

    async def arun_due(self, *, limit: int = 10_000, concurrency: int = 1) -> int:
        """Do what ``run_due`` does, for tests that are coroutines."""
        return await self.app.arun_due(limit=limit, concurrency=concurrency)

    def enqueued(self, task: Task[..., Any, ...] | str, /, **payload: object) -> list[JobView]:
        """Return the jobs of a task whose payload has these fields, oldest first, in any state.

        >>> (job,) = holdfast.enqueued(send, to="ada")  # doctest: +SKIP
        """
        return _with_payload(self.app.jobs.list(task=_name(task), limit=MOST), payload)

    async def aenqueued(self, task: Task[..., Any, ...] | str, /, **payload: object) -> list[JobView]:
        """Do what ``enqueued`` does, for tests that are coroutines."""
        return _with_payload(await self.app.jobs.alist(task=_name(task), limit=MOST), payload)


@contextmanager
def placed(app: App, url: str) -> Iterator[TestedApp]:
    """Put an App on another store, and back at the end of the block."""
    usual, tested = app.settings, TestedApp(app, AdvancedClock())
    settings, note = structs.replace(usual, url=url, transport=None), tested.events.append
    with app._connections.replaced(settings, partial(open_store, clock=tested.clock), tested.clock):
        app.settings = settings
        app.events.on("*", note)
        try:
            app.migrate()
            yield tested
        finally:
            app.events.off("*", note)
            app.close()
            app.settings = usual


def _name(task: Task[..., Any, ...] | str) -> str:
    return task if isinstance(task, str) else task.name


def _with_payload(newest_first: Sequence[JobView], payload: dict[str, object]) -> list[JobView]:
    wanted = to_builtins(payload).items()
    return [each for each in reversed(newest_first) if isinstance(each.payload, dict) and wanted <= each.payload.items()]

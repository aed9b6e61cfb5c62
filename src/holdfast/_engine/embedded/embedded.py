"""``async with app.worker(): …``: a worker inside a running event loop, with its supervisor in a separate thread.

The thread has its own event loop and store, so that a worker in a blocked user's loop keeps its lease. Code that cannot be
cancelled runs on, fenced: Holdfast may not kill the user's process, and does not handle its signals.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Self

from msgspec import structs

import holdfast._engine.client.client  # noqa: F401 - so that the first handler that enqueues need not load it
from holdfast._engine.embedded.in_process import InProcessHost
from holdfast._engine.embedded.parts import Parts
from holdfast._engine.events import Event, Events
from holdfast._engine.supervisor.supervisor import FAILED, UNREACHABLE, USAGE, Supervisor, SupervisorOptions
from holdfast._engine.worker.worker import Worker
from holdfast._forks import Forked, register
from holdfast._ports.host import Host, SupervisorLink
from holdfast._ports.store import Store
from holdfast.errors import ConfigurationError, HoldfastError, StoreUnavailable


class EmbeddedWorker:
    """A worker that runs jobs between entry and exit; the exit drains with the App's grace.

    It may be entered again after each exit.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._session: _Session | None = None

    async def __aenter__(self) -> Self:
        """Return once the worker claims jobs; raise ``ConfigurationError`` or ``StoreUnavailable`` if it cannot."""
        if self._session is not None:
            raise HoldfastError("this worker runs already; app.worker() makes another one")
        parts = self._parts
        store = parts.open_store(parts.settings)
        self._session = session = _Session(
            self._supervisor, lambda link: self._worker(link, store), parts.host, store, parts.events
        )
        try:
            await session.begin(parts.settings.timing.margin)
        except BaseException:
            self._session = None
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Drain, then close everything. If cancelled while it drains, stop running code at once."""
        session, self._session = self._session, None
        if session is not None:
            await session.end(self._parts.settings.timing.margin)

    def _supervisor(self, host: InProcessHost, events: Events) -> Supervisor:
        return Supervisor(
            host=host,
            clock=self._parts.clock,
            chance=self._parts.chance,
            events=events,
            connect=lambda settings: (self._parts.open_store(settings), self._parts.open_transport(settings)),
            open_table=self._parts.open_table,
            options=SupervisorOptions(isolates=False, tells=False, has_history=True),
            arguments=(),
        )

    def _worker(self, link: SupervisorLink, store: Store) -> Worker:
        return Worker(
            link,
            self._parts.environment(store, self._parts.events),
            registry=self._parts.registry,
            settings=self._parts.settings,
            options=structs.replace(self._parts.options, tallies=self._parts.settings.beat_history > 0),
            tables=self._parts.tables,
            runner_host=self._parts.runner_host,
            runners=self._parts.runners,
            lifespan=self._parts.lifespan(),
        )


class _Session(Forked):
    """One run from entry to exit: a supervisor in its thread, and its worker in the event loop that was running at entry."""

    def __init__(
        self,
        make_supervisor: Callable[[InProcessHost, Events], Supervisor],
        make_worker: Callable[[SupervisorLink], Worker],
        machine: Host,
        store: Store,
        events: Events,
    ) -> None:
        self._home, self._is_ours = asyncio.get_running_loop(), True
        self._store, self._events = store, events
        self._over, self._decided = asyncio.Event(), asyncio.Event()
        self._code = FAILED
        self._error: BaseException | None = None
        supervisor_events = Events()
        supervisor_events.on("*", self._pass_on)
        self._host = InProcessHost(
            machine, self._home, copy_context(), make_worker, on_ready=self._decided.set, on_homeless=self._drain
        )
        self._supervisor = make_supervisor(self._host, supervisor_events)
        self._loop = asyncio.new_event_loop()
        # A daemon thread: a program that exits without leaving the context must not hang.
        self._thread = threading.Thread(target=self._supervise, name="holdfast-supervisor", daemon=True)
        register(self)

    async def begin(self, timeout: float) -> None:
        """Start the supervisor and return when the worker is ready; raise the reason if it cannot start."""
        self._thread.start()
        try:
            await self._decided.wait()
        except asyncio.CancelledError:
            await self.end(timeout)
            raise
        if self._over.is_set():
            await self._clean_up(timeout)
            raise self._why_not()

    async def end(self, timeout: float) -> None:
        """Drain and wait until all has ended; in a forked child, which has nothing to end, return at once."""
        if not self._is_ours:
            return
        cancelled: asyncio.CancelledError | None = None
        self._drain()
        while not self._over.is_set():
            try:
                await self._over.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                self._drain()  # the second call stops running code at once
        await self._clean_up(timeout)
        if cancelled is not None:
            raise cancelled

    def after_fork_in_child(self) -> None:
        """Disown the workers in the child: it has no supervisor thread, and the lease and the running jobs are the parent's."""
        self._is_ours = False
        for worker in self._host.inside:
            worker.forget()

    async def _clean_up(self, timeout: float) -> None:
        self._thread.join()
        left = [each.task for each in self._host.inside if each.task is not None and not each.task.done()]
        if left:
            await asyncio.wait(left, timeout=timeout)
        await self._store.close()

    def _drain(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._supervisor.drain)
        except RuntimeError:
            pass  # the supervisor has already ended

    def _supervise(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                self._code = runner.run(self._supervisor.run())
        except BaseException as error:
            self._error = error
        finally:
            self._host.close()
            self._tell_home(self._over.set)
            self._tell_home(self._decided.set)

    def _pass_on(self, event: Event) -> None:
        """Run the user's callbacks in the user's loop: a slow one must not delay the supervisor's beats."""
        self._tell_home(self._events.pass_on, event)

    def _tell_home(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._home.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # the loop is closed

    def _why_not(self) -> BaseException:
        problems = self._supervisor.problems
        if self._error is not None:
            return self._error
        if self._code == UNREACHABLE:
            return StoreUnavailable("the worker could not reach its store; see that it is up, then start again")
        if self._code == USAGE:
            return ConfigurationError(problems)
        return HoldfastError("\n".join(problems) or "the worker ended before it was ready")

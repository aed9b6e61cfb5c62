"""``app.run_due()``: runs all due jobs in the caller's event loop, for tests, with a worker that ends once nothing is due."""

import asyncio
from typing import Any

from msgspec import structs

from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.embedded.in_process import InProcessChild, InProcessWorker, LoopChannel
from holdfast._engine.embedded.parts import Parts, without_processes
from holdfast._engine.supervisor.recovery import Contact, Recovery
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._engine.supervisor.worker_session import WorkerSession
from holdfast._engine.worker.worker import Worker
from holdfast._ports.host import Exit, SupervisorLink
from holdfast.errors import ConfigurationError, StoreDamaged

LONG = LeaseTiming.of("10m")
"""The timing of the lease: long, because a test may block the loop that renews it. After a crash the process is proven dead
at once, so no supervisor has to wait until the lease expires."""
WATCH = 0.25


class RunDue:
    """A small supervisor: it renews the lease of one worker in the same event loop, and watches the limits of its jobs."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._grace = parts, parts.settings.grace
        self._environment = parts.environment(parts.open_store(parts.settings), parts.events)
        self._clock, self._chance, self._store = parts.clock, parts.chance, self._environment.store
        self._timing = max(LONG, parts.settings.timing, key=lambda timing: timing.ttl)
        self._now = self._environment.lease_time
        self._contact = Contact(self._timing, self._now)

    async def run(self, most: int) -> int:
        """Run at most ``most`` due jobs; return how many were run."""
        loop = asyncio.get_running_loop()
        ours, theirs = LoopChannel.pair(loop, loop)
        inside = InProcessWorker(theirs, self._parts.host.process())
        child = InProcessChild(inside, ours, loop)
        handle = WorkerHandle(child, now=self._now, events=self._parts.events)
        session = WorkerSession(handle, self._open_lease)
        worker = self._worker(inside, most)
        inside.start(lambda link: worker, child.ended)
        exiting = asyncio.ensure_future(session.until_exit())
        beside = [loop.create_task(each) for each in (self._beat(handle), self._watch(handle))]
        try:
            await self._wait(exiting, handle, beside)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._recover(session, await exiting)
        if session.error is not None:
            raise session.error
        if handle.refused:
            raise StoreDamaged("; ".join(handle.refused)) if worker.is_damaged else ConfigurationError(handle.refused)
        return worker.executor.started

    def _worker(self, link: SupervisorLink, most: int) -> Worker:
        return Worker(
            link,
            self._environment,
            registry=without_processes(self._parts.registry),
            settings=structs.replace(self._parts.settings, timing=self._timing),
            options=structs.replace(self._parts.options, most=most),
            tables=self._parts.tables,
            lifespan=self._parts.lifespan(),
        )

    async def _wait(self, exiting: "asyncio.Future[Exit]", handle: WorkerHandle, beside: "list[asyncio.Task[None]]") -> None:
        try:
            ends: list[asyncio.Future[Any]] = [exiting, *beside]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in beside:
                if task.done() and not exiting.done():
                    handle.kill("its store is unreachable", is_free=True)
                    await task
        except asyncio.CancelledError:
            handle.drain(0.0)
            await asyncio.wait({exiting}, timeout=self._grace)
            handle.kill("it did not end when asked", is_free=True)
            raise

    async def _open_lease(self, session: WorkerSession, hello: messages.WorkerHello) -> None:
        await session.open_lease(hello, self._environment, self._contact, timing=self._timing, grace=self._grace)

    async def _beat(self, handle: WorkerHandle) -> None:
        while True:
            await self._clock.sleep(self._timing.beat)
            if handle.lease is not None:
                sent = self._now()
                answer = await self._store.beat([handle.lease.id])
                self._contact.answered(sent)
                if handle.lease.id in answer.alive:
                    handle.lease_renewed(sent)
                elif handle.lease.id in answer.gone:
                    handle.lease_lost()

    async def _watch(self, handle: WorkerHandle) -> None:
        while True:
            await self._clock.sleep(WATCH)
            handle.watch(self._timing, self._contact, max_block=float("inf"), grace=self._grace)

    async def _recover(self, session: WorkerSession, exit: Exit) -> None:
        """Recover after a crash. A worker that exited with code 0 has ended its lease, unless the store refused its last outcomes."""
        if exit.code != 0 or session.handle.undelivered:
            await session.recover(Recovery(self._environment, self._contact, switches=self._parts.settings.recovery))

"""``app.run_due()``: everything that is due, run here and now, for tests. A worker that ends as soon as nothing is due."""

import asyncio
from uuid import UUID

from msgspec import structs

from holdfast._core.identity import worker_name
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.embedded.in_process import InProcessChild, InProcessWorker, LoopChannel
from holdfast._engine.embedded.parts import Parts, without_processes
from holdfast._engine.supervisor.recovery import Contact, Recovery
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._engine.worker.worker import Worker
from holdfast._ports.host import Exit, SupervisorLink
from holdfast.errors import ConfigurationError

LONG = LeaseTiming.of("10m")
"""One's own test may block the loop that beats for as long as it likes; and whoever dies here is proven dead at once."""
WATCH = 0.25


class RunDue:
    """A supervisor in miniature: it beats for one worker in its own loop and judges the limits of its jobs."""

    def __init__(self, rooms: Parts) -> None:
        self._rooms, self._grace = rooms, rooms.settings.grace
        self._environment = rooms.environment(rooms.open_store(rooms.settings), rooms.events)
        self._clock, self._chance, self._store = rooms.clock, rooms.chance, self._environment.store
        self._timing = max(LONG, rooms.settings.timing, key=lambda timing: timing.ttl)
        self._now = self._environment.lease_time
        self._contact = Contact(self._timing, self._now)

    async def run(self, most: int) -> int:
        """How many jobs were run."""
        loop = asyncio.get_running_loop()
        ours, theirs = LoopChannel.pair(loop, loop)
        lodger = InProcessWorker(theirs, self._rooms.host.process())
        child = InProcessChild(lodger, ours, loop)
        ward = WorkerHandle(child, now=self._now, events=self._rooms.events)
        worker = self._worker(lodger, most)
        lodger.start(lambda link: worker, child.ended)
        beside = [loop.create_task(each) for each in (self._listen(ward), self._beat(ward), self._watch(ward))]
        try:
            await self._accompany(child, ward, beside)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._bury(ward, await child.wait())
        if ward.refused:
            raise ConfigurationError(ward.refused)
        return worker.executor.started

    def _worker(self, link: SupervisorLink, most: int) -> Worker:
        return Worker(
            link,
            self._environment,
            registry=without_processes(self._rooms.registry),
            settings=structs.replace(self._rooms.settings, timing=self._timing),
            options=structs.replace(self._rooms.options, most=most),
            tables=self._rooms.tables,
            lifespan=self._rooms.lifespan(),
        )

    async def _accompany(self, child: InProcessChild, ward: WorkerHandle, beside: "list[asyncio.Task[None]]") -> None:
        dying = asyncio.ensure_future(child.wait())
        try:
            await asyncio.wait({dying, *beside}, return_when=asyncio.FIRST_COMPLETED)
            for task in beside:
                if task.done() and not dying.done():
                    ward.kill("its store is out of reach", is_free=True)
                    await task
        except asyncio.CancelledError:
            ward.drain(0.0)
            await asyncio.wait({dying}, timeout=self._grace)
            ward.kill("it did not end when asked", is_free=True)
            raise

    async def _listen(self, ward: WorkerHandle) -> None:
        while (data := await ward.child.channel.receive()) is not None:
            message = messages.decode(data)
            ward.handle(message)
            if isinstance(message, messages.WorkerHello):
                await self._open_lease(ward, message)
        await asyncio.get_running_loop().create_future()  # the worker's own end says how it went

    async def _open_lease(self, ward: WorkerHandle, hello: messages.WorkerHello) -> None:
        lease: UUID = self._chance.uuid4()
        process = ward.child.process
        name = worker_name(process.host, process.pid, lease)
        new = NewLease(lease, name, process, self._timing, hello.queues, hello.tasks, grace=self._grace, slots=hello.slots)
        sent = self._now()
        await self._store.open_lease(new)
        self._contact.answered(sent)
        ward.lease_granted(new, sent)

    async def _beat(self, ward: WorkerHandle) -> None:
        while True:
            await self._clock.sleep(self._timing.beat)
            if ward.lease is not None:
                sent = self._now()
                answer = await self._store.beat([ward.lease.id])
                self._contact.answered(sent)
                if ward.lease.id in answer.alive:
                    ward.lease_renewed(sent)
                elif ward.lease.id in answer.gone:
                    ward.lease_lost()

    async def _watch(self, ward: WorkerHandle) -> None:
        while True:
            await self._clock.sleep(WATCH)
            ward.watch(self._timing, self._contact, max_block=float("inf"), grace=self._grace)

    async def _bury(self, ward: WorkerHandle, exit: Exit) -> None:
        """A worker that ended well has ended its lease, unless the store refused outcomes to the last."""
        if ward.lease is not None and (exit.code != 0 or ward.undelivered):
            recovery = Recovery(self._environment, self._contact)
            await recovery.end(ward.lease.id, ward.name, ward.lease_end(exit), undelivered=ward.undelivered)

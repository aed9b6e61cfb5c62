"""``app.run_due()``: everything that is due, run here and now, for tests. A worker that ends as soon as nothing is due."""

import asyncio
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.identity import worker_name
from holdfast._core.policy import Policy
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.embedded.in_process import InProcessChild, InProcessWorker, LoopChannel
from holdfast._engine.embedded.parts import Parts, without_processes
from holdfast._engine.supervisor.recovery import Contact, Recovery
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._engine.worker.executor import FinishedRun
from holdfast._engine.worker.worker import Worker
from holdfast._ports.host import Exit, SupervisorLink
from holdfast.errors import ConfigurationError

LONG = LeaseTiming.of("10m")
"""One's own test may block the loop that beats for as long as it likes; and whoever dies here is proven dead at once."""
WATCH = 0.25


class DueWorker(Worker):
    """Claims until nothing is due, or ``most`` jobs have been run."""

    def __init__(self, most: int, **rooms: Any) -> None:
        super().__init__(**rooms)
        self._most = most
        self.count = 0

    def _wanted(self, was_full: bool) -> tuple[dict[str, Policy], int, bool]:
        tasks, limit, is_narrow = super()._wanted(was_full)
        return tasks, min(limit, self._most - self.count - len(self.executor.running)), is_narrow

    def _deliver(self, ended: FinishedRun) -> None:
        self.count += 1
        super()._deliver(ended)

    def _make_inbox(self) -> None:
        """It takes what is due here and now, and leaves deliveries to others."""

    def _may_leave(self) -> bool:
        return self.exchange.has_refused_only

    def _is_finished(self) -> bool:
        is_settled = self.exchange.is_delivered or self.exchange.has_refused_only
        is_quiet = not self.executor.running and is_settled and self.healer.is_idle
        return is_quiet and (self.count >= self._most or self.exchange.next_due != 0.0)


class RunDue:
    """A supervisor in miniature: it beats for one worker in its own loop and judges the limits of its jobs."""

    def __init__(self, rooms: Parts) -> None:
        self._rooms, self._grace = rooms, rooms.settings.grace
        self._clock, self._chance = rooms.clock, rooms.chance
        self._store, self._transport = rooms.open_store(rooms.settings), rooms.open_transport(rooms.settings)
        self._timing = max(LONG, rooms.settings.timing, key=lambda timing: timing.ttl)
        is_kernel = self._store.capabilities.lease_clock == "kernel"
        self._now = rooms.clock.monotonic if is_kernel else rooms.clock.boottime
        self._contact = Contact(self._timing, self._now)

    async def run(self, most: int) -> int:
        """How many jobs were run."""
        loop = asyncio.get_running_loop()
        ours, theirs = LoopChannel.pair(loop, loop)
        lodger = InProcessWorker(theirs, self._rooms.host.process())
        child = InProcessChild(lodger, ours, loop)
        ward = WorkerHandle(child, now=self._now, events=self._rooms.events)
        worker = self._worker(lodger, most)
        lodger.start(lambda cell: worker, child.ended)
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
        return worker.count

    def _worker(self, cell: SupervisorLink, most: int) -> DueWorker:
        return DueWorker(
            most,
            cell=cell,
            store=self._store,
            transport=self._transport,
            registry=without_processes(self._rooms.registry),
            settings=structs.replace(self._rooms.settings, timing=self._timing),
            clock=self._clock,
            chance=self._chance,
            events=self._rooms.events,
            options=self._rooms.options,
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
            recovery = Recovery(
                self._store,
                self._contact,
                now=self._now,
                chance=self._chance,
                events=self._rooms.events,
                publish=self._transport.publish,
            )
            await recovery.end(ward.lease.id, ward.name, ward.lease_end(exit), undelivered=ward.undelivered)

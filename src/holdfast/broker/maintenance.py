"""What a broker does for all jobs: recovery, expiry, pruning and schedules. Workers in other languages have no supervisor for it.

It keeps a separate lease. Only the answers to beats show that the clock of the store has stepped, after which every lease looks expired.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import UUID

from msgspec import structs

from holdfast._core.identity import ProcessIdentity, rescuer_name, worker_name
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import NewLease
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.service import Service
from holdfast._engine.store_events import report_store
from holdfast._engine.supervisor.clock_check import ClockCheck
from holdfast._engine.supervisor.pruner import Pruner
from holdfast._engine.supervisor.recovery import EXPIRED_PER_STEP, Contact, Recovery
from holdfast._engine.supervisor.reviver import Reviver
from holdfast._engine.supervisor.scheduler import Scheduler
from holdfast._system.host import SystemHost
from holdfast.errors import HoldfastError
from holdfast.settings import Settings

SHORTEST_PAUSE = 0.1


class Maintenance:
    """The services of a broker beside its answers."""

    def __init__(self, environment: Environment, settings: Settings) -> None:
        self._environment, self._settings, self._host = environment, settings, SystemHost()
        self._store, self._now = environment.store, environment.lease_time
        self._contact, self._clock_check = Contact(settings.timing, self._now), ClockCheck()
        host = None if settings.reconcile == "off" else self._host
        by = rescuer_name("broker", self._host.process())
        self._recovery = Recovery(
            environment, self._contact, switches=settings.recovery, host=host, own=self._own, compare_clocks=self._beat, by=by
        )
        self._lease: NewLease | None = None
        self._beating = asyncio.Lock()  # recovery beats, too, before it judges

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the services until the end of the block, then end the lease."""
        steps = {"beat": self._beat, "recovery": self._recover, "expire": self._expire}
        steps["prune"] = Pruner(self._store, events=self._environment.events, chance=self._environment.chance).step
        steps["schedules"] = Scheduler(self._environment, longest=5.0 * self._settings.poll_interval).step
        reviver = Reviver(self._environment, self._settings)
        if reviver.is_needed:
            steps["workflows"] = reviver.step
        serve = partial(Service, events=self._environment.events, chance=self._environment.chance)
        pause = self._settings.timing.beat / 2
        tasks = [asyncio.create_task(serve(name, step, longest_pause=pause).run()) for name, step in steps.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._end()

    def _own(self) -> frozenset[UUID]:
        return frozenset(() if self._lease is None else (self._lease.id,))

    async def _beat(self) -> float:
        async with self._beating:
            try:
                return await self._renew()
            finally:
                report_store(self._store, self._environment.events)

    async def _renew(self) -> float:
        timing = self._settings.timing
        lease = self._lease or await self._open()
        sent, leases = self._now(), frozenset((lease.id,))
        try:
            async with asyncio.timeout((timing.ttl - timing.margin) / 2):
                answer = await self._store.beat((lease.id,))
        except BaseException:
            self._contact.lost()
            self._clock_check.forget()
            raise
        self._contact.answered(sent)
        if step := self._clock_check.step(answer, timing, leases=leases, sent=sent, now=self._now()):
            self._environment.events.emit(EventName.STORE_CLOCK_STEPPED, store_seconds=step[0], local_seconds=step[1])
            self._contact.lost()
        if lease.id in answer.gone:  # another supervisor has judged it after an outage
            self._lease = None
        return max(SHORTEST_PAUSE, sent + timing.beat - self._now())

    async def _recover(self) -> float:
        try:
            async with asyncio.timeout(self._settings.timing.ttl):
                await self._recovery.step()
        except BaseException as error:
            self._contact.failed(error)
            raise
        return min(self._settings.recovery_interval, self._recovery.pause, self._recovery.pause_of_locked)

    async def _expire(self) -> float:
        return SHORTEST_PAUSE if await self._recovery.expire() >= EXPIRED_PER_STEP else self._settings.recovery_interval

    async def _open(self) -> NewLease:
        process, incarnation = anonymous(self._host.process()), self._environment.chance.uuid4()
        name = f"broker-{worker_name(process.host, process.pid, incarnation)}"
        lease = NewLease(incarnation, name, process, self._settings.timing)
        await self._store.open_lease(lease)
        self._lease = lease
        return lease

    async def _end(self) -> None:
        if self._lease is not None:
            with suppress(HoldfastError, TimeoutError):
                async with asyncio.timeout(self._settings.timing.beat):
                    await self._store.end_lease(self._lease.id, LeaseEnd(RescueReason.CLOSED, is_free=True))


def anonymous(process: ProcessIdentity) -> ProcessIdentity:
    """Return an identity by which no supervisor can prove the process dead: it would then kill the rest of its session.

    A broker is not the leader of a session of workers. Its boot and clock stay: by them a store on a file judges its leases.
    """
    return structs.replace(process, start=0, pid_namespace="")

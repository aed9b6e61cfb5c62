"""The supervisor's side of one worker's life: hello, lease, messages, exit, and the recovery of its jobs."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import MsgspecError

from holdfast._core.identity import worker_name
from holdfast._core.requests import NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._core.view import Rescued
from holdfast._engine import messages
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.service import ERRORS, require_not_cancelled
from holdfast._engine.supervisor.recovery import Contact, Recovery
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.host import Exit

PIPE_TIMEOUT = 1.0
"""Seconds after a worker's exit in which the messages it sent before are still read from the pipe."""


class WorkerSession:
    """The session of one worker, from its hello until its jobs are recovered.

    ``greet`` answers the worker's hello with a lease or a drain. ``ready`` is called once the worker claims jobs.
    ``error`` is what ``greet`` raised; the worker is killed then.
    """

    def __init__(
        self,
        handle: WorkerHandle,
        greet: Callable[["WorkerSession", messages.WorkerHello], Awaitable[None]],
        ready: Callable[[WorkerHandle], None] | None = None,
    ) -> None:
        self.handle = handle
        self.error: BaseException | None = None
        self._greet, self._ready = greet, ready

    async def until_exit(self) -> Exit:
        """Handle the worker's messages until it has exited and its pipe is read."""
        listening = asyncio.create_task(self._listen())
        exit = await self.handle.wait_for_exit()
        await asyncio.wait({listening}, timeout=PIPE_TIMEOUT)
        listening.cancel()
        self.handle.child.channel.close()
        self._lease_end = self.handle.lease_end(exit)  # judged once, now: a deadline that passes later changes nothing
        return exit

    async def open_lease(
        self, hello: messages.WorkerHello, environment: Environment, contact: Contact, *, timing: LeaseTiming, grace: float
    ) -> None:
        """Open a lease of this timing for the worker, and grant it."""
        process, lease = self.handle.child.process, environment.chance.uuid4()
        name = worker_name(process.host, process.pid, lease)
        is_isolated = self.handle.is_isolated
        slots = 1 if is_isolated else hello.slots
        new = NewLease(lease, name, process, timing, hello.queues, hello.tasks, grace, slots, is_isolated, hello.declares)
        sent = environment.lease_time()
        await environment.store.open_lease(new)
        contact.answered(sent)
        self.handle.lease_granted(new, sent)
        environment.events.emit(EventName.LEASE_OPENED, lease=lease, worker=name)
        for limitation in hello.limits:
            environment.events.emit(EventName.WORKER_DEGRADED, worker=name, limitation=limitation)

    async def recover(self, recovery: Recovery) -> list[Rescued]:
        """Deliver the outcomes that the exited worker left behind, end its lease and rescue its jobs."""
        handle = self.handle
        if handle.lease is None:
            return []
        return await recovery.end(handle.lease.id, handle.name, self._lease_end, undelivered=handle.undelivered)

    async def _listen(self) -> None:
        try:
            while (data := await self.handle.child.channel.receive()) is not None and await self._is_handled(data):
                pass
        except ERRORS as error:
            require_not_cancelled()
            self.error = error
            self.handle.kill("its lease could not be opened", is_free=True)

    async def _is_handled(self, data: bytes) -> bool:
        try:
            message = messages.decode(data)
        except MsgspecError:
            self.handle.kill("it sent a message that no worker sends")  # code of a handler wrote into the pipe
            return False
        self.handle.handle(message)
        if isinstance(message, messages.WorkerHello):
            await self._greet(self, message)
        elif isinstance(message, messages.Ready) and self._ready is not None:
            self._ready(self.handle)
        return True
